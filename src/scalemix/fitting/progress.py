"""A progress bar for people who wait."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import jax
from tqdm import tqdm

from scalemix.inference.driver import Progress


class Pace(NamedTuple):
    """What a step takes from a loader that knows its size: a bar then counts rows and bytes."""

    rows_a_step: int
    bytes_a_row: float


@contextmanager
def watch(
    progress: bool | None,
    callback: Callable[[Progress], object] | None,
    pace: Pace | None = None,
) -> Iterator[Callable[[Progress], None] | None]:
    """A function to report progress to, which shows a bar and tells the callback; or `None`."""
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of one argument, got {callback!r}.")
    with bar(progress, pace) as show:
        told = [each for each in (show, callback) if each is not None]

        def report(progress: Progress) -> None:
            for each in told:
                each(progress)

        yield report if told else None


@contextmanager
def bar(
    wanted: bool | None, pace: Pace | None = None
) -> Iterator[Callable[[Progress], None] | None]:
    """A function to report progress to, or `None`; shown by default only on a terminal.

    Of several processes the first shows it.
    """
    if not (sys.stderr.isatty() if wanted is None else wanted) or jax.process_index():
        yield None
        return
    rows = 1 if pace is None else pace.rows_a_step
    unit = "step" if pace is None else "row"
    with tqdm(unit=unit, unit_scale=pace is not None, dynamic_ncols=True, file=sys.stderr) as line:

        def report(progress: Progress) -> None:
            if rows * progress.step < line.n:
                # A second part of the same fit has begun, such as chains after a warm start.
                line.reset()
            line.total = rows * progress.num_steps
            told = {"objective": f"{progress.objective:.4g}"}
            if pace is not None:
                told["read"] = in_bytes(rows * progress.step * pace.bytes_a_row)
            line.set_postfix(told, refresh=False)
            line.update(rows * progress.step - line.n)

        yield report


def in_bytes(num: float) -> str:
    """A number of bytes as people read it."""
    return f"{tqdm.format_sizeof(num, divisor=1000)}B"
