"""The results as tables in Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scalemix.reproduce.compression.figures import group
from scalemix.reproduce.compression.published import PUBLISHED

HEAD = (
    "temperature", "units left", "weights left", "error %, whole network", "averaged over draws",
    "small network, refitted",
)  # fmt: skip


def results_table(name: str, results: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """One row a temperature, means and standard deviations over seeds, and the published points."""
    rows = []
    for temperature, fits in group(results["fits"]).items():
        units = np.array([[int(n) for n in fit["shape"].split("-")] for fit in fits]).T
        shape = "-".join(_range(each) for each in units)
        weights = np.mean([fit["weights"] for fit in fits])
        errors = (_mean([fit[key] for fit in fits]) for key in ("whole", "averaged", "refit"))
        rows.append((f"{temperature:g}", shape, f"{weights:,.0f}", *errors))
    for point in PUBLISHED:
        if point.network == name:
            shape = "-".join(map(str, point.units))
            who = f"{point.method} ({point.source})"
            rows.append((who, shape, f"{point.weights:,}", "", "", f"{point.error}"))
    return rows


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"({low} to {high})"


def _mean(values: Sequence[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{spread}"
