"""Lines of someone's code, as reasons name them."""

import os
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

import equinox as eqx
import jax
from jax.extend import source_info_util

# Frames of these say nothing about the network.
_LIBRARIES = tuple(os.path.dirname(str(module.__file__)) + os.sep for module in (jax, eqx))
# Beyond these frames is whoever asked.
_HERE = os.path.dirname(__file__) + os.sep


def line_of(source_infos: Sequence[Any]) -> str:
    """The innermost line that is not a library's; else whatever JAX says of the first place."""
    for source_info in source_infos:
        frames = [] if source_info.traceback is None else source_info.traceback.frames
        line = _first((frame.file_name, frame.line_num) for frame in frames)
        if line is not None:
            return line
    return source_info_util.summarize(source_infos[0]) or "a place that JAX does not know"


def line_of_error(error: BaseException) -> str:
    """The innermost line of the network's own code that an error came through."""
    places: list[tuple[str, int]] = []
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None:
        places.append((traceback.tb_frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return _first(reversed(places)) or "code of a library"


def _first(places: Iterable[tuple[str, int]]) -> str | None:
    for file, line in places:
        if file.startswith(_HERE):
            return None
        if not file.startswith(_LIBRARIES):
            return f"{os.path.basename(file)}:{line}"
    return None
