"""Results on disk: one JSON file, rewritten whole after each cell, so that a run can go on."""

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import jax

from scalemix._files import replacing
from scalemix.reproduce.plans import Plan
from scalemix.reproduce.scores import seconds_of


class Store:
    """The cells of a reproduction that are finished, and what they were made with."""

    def __init__(self, folder: Path, plan: Plan):
        self.path: Path = folder / f"{plan.file}.json"
        about = {"plan": plan.to_json(), **surroundings()}
        self.content: dict[str, Any] = {**about, "seconds": 0.0, "cells": {}}
        if self.path.exists():
            self.content = read_results(self.path)
            theirs = Plan.read(self.content["plan"])
            if theirs != plan:
                raise ValueError(
                    f"{self.path} holds results of another plan ({theirs.name!r}, not "
                    f"{plan.name!r}). Delete it, or choose another folder."
                )

    def holds(self, name: str) -> bool:
        """Whether a cell is finished."""
        return name in self.content["cells"]

    def put(self, cells: dict[str, Any], figures: dict[str, Any], seconds: float) -> None:
        """Keep finished cells, what was measured on figures, and the time since the last call."""
        self.content["seconds"] = seconds_of(self.content) + seconds
        self.content["cells"].update(cells)
        self.content.setdefault("figures", {}).update(figures)
        self._write()

    def _write(self) -> None:
        with replacing(self.path) as file:
            file.write((json.dumps(self.content, indent=1) + "\n").encode())


def read_results(path: Path) -> dict[str, Any]:
    """What a results file holds."""
    try:
        content = json.loads(path.read_text())
        Plan.read(content["plan"])
        return content | {"cells": _renamed(content["cells"])}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(
            f"{path} is no results file of a reproduction. Delete it, or choose another folder."
        ) from None


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
