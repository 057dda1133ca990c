"""Results on disk: one JSON file, rewritten whole after each cell, so that a run can go on."""

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

from scalemix._files import replacing
from scalemix.reproduce.plans import Plan


class Store:
    """The cells of a reproduction that are finished, and what they were made with."""

    def __init__(self, folder: Path, plan: Plan):
        self.path: Path = folder / "results.json"
        about = {"plan": plan.__dict__, **surroundings()}
        self.content: dict[str, Any] = {**about, "cells": {}}
        if self.path.exists():
            try:
                content = json.loads(self.path.read_text())
                theirs, _ = content["plan"], content["cells"]
            except (ValueError, KeyError, TypeError):
                raise ValueError(
                    f"{self.path} is no results file of a reproduction. Delete it, or choose "
                    f"another folder."
                ) from None
            if theirs != about["plan"]:
                raise ValueError(
                    f"{self.path} holds results of another plan ({theirs.get('name')!r}, not "
                    f"{plan.name!r}). Delete it, or choose another folder."
                )
            self.content = content | {"cells": _renamed(content["cells"])}

    def holds(self, name: str) -> bool:
        """Whether a cell is finished."""
        return name in self.content["cells"]

    def put(self, cells: dict[str, dict[str, Any]]) -> None:
        """Keep finished cells."""
        self.content["cells"].update(cells)
        self._write()

    def put_figure(self, name: str, measured: dict[str, Any]) -> None:
        """Keep what was measured on a figure."""
        self.content.setdefault("figures", {})[name] = measured
        self._write()

    def _write(self) -> None:
        with replacing(self.path) as file:
            file.write((json.dumps(self.content, indent=1) + "\n").encode())


def _renamed(cells: dict[str, Any]) -> dict[str, Any]:
    """Cells by their present names. Importance weights used to be by example and to say nothing."""
    return {
        f"{name}_by_example" if name.endswith("/importance_weighted") else name: cell
        for name, cell in cells.items()
    }


def surroundings() -> dict[str, str]:
    """What results are made with."""
    return {
        "hardware": f"{jax.devices()[0].device_kind}, {platform.machine()}",
        "jax": jax.__version__,
        "commit": _commit(),
    }


def _commit() -> str:
    """The commit of the source that runs, if it runs from a clone."""
    try:
        ran = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return ran.stdout.strip()
