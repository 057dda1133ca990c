"""Whether the model is worth it, in words: compared row by row with simpler ones."""

from typing import NamedTuple

import numpy as np
from scipy import stats

from scalemix.analysis.baselines import ONLY_NO_MODEL, Baseline
from scalemix.analysis.evaluation import MEASURES
from scalemix.analysis.report.study import Study

# Fewer rows show large differences alone.
FEW_ROWS = 50
# Fewer rows than this show nothing.
LEAST_ROWS = 5
# How often a difference is claimed where there is none.
CHANCE = 0.05


class Verdict(NamedTuple):
    """Whether we predict rows better than a baseline, as far as so many rows can tell."""

    baseline: Baseline
    is_better: bool
    is_worse: bool
    gap: float
    """By how much a row costs the baseline more on average, be it chance or not."""


def judge(losses: np.ndarray, baseline: Baseline) -> Verdict:
    """Compare row by row: rows that are hard for one are hard for the other, too.

    Better or worse is a mean difference that chance alone makes in one of twenty such comparisons,
    by Student's t. Nothing is claimed of very few rows.
    """
    gaps = baseline.losses - losses
    num, mean = len(gaps), float(gaps.mean())
    if num < LEAST_ROWS:
        return Verdict(baseline, False, False, mean)
    error = gaps.std(ddof=1) / np.sqrt(num)
    least = stats.t.ppf(1 - CHANCE / 2, num - 1) * error
    return Verdict(baseline, bool(mean > least), bool(mean < -least), mean)


def compare(study: Study) -> str:
    """What a reader should know before using the model."""
    if isinstance(study.baselines, str):
        return study.baselines
    losses = study.losses
    mine = "this model" if len(study.story.fits) == 1 else study.last.name
    if len(losses) < LEAST_ROWS:
        rows = "One row is" if len(losses) == 1 else f"{len(losses)} rows are"
        return f"{rows} too few to tell whether {mine} is better than simpler ones."
    nothing, *simpler = (judge(losses, baseline) for baseline in study.baselines.fitted)
    absent = "".join(
        f" There is no {name} to compare with, since it could not be fitted: {reason.rstrip('.')}."
        for name, reason in study.baselines.left_out.items()
    )
    if study.kind == "times":
        absent = f" {ONLY_NO_MODEL}"
    return _say(study, mine, nothing, simpler, len(losses)) + absent


def _say(study: Study, mine: str, nothing: Verdict, simpler: list[Verdict], num_rows: int) -> str:
    measure = {"classes": "log_likelihood", "times": "log_likelihood", "real": "rmse"}.get(
        study.kind, "deviance"
    )
    if study.kind == "real" and study.num_targets > 1:
        measure = "r2"
    label = MEASURES[measure].label

    def shown(figures: dict[str, float]) -> str:
        # Targets that do not vary have no variance to explain.
        return MEASURES[measure].show(figures[measure]) if measure in figures else "not known"

    value = shown(study.figures[-1])

    def show(verdict: Verdict) -> str:
        return shown(verdict.baseline.figures)

    def names(verdicts: list[Verdict]) -> str:
        return " and ".join(f"{v.baseline.name} ({show(v)})" for v in verdicts)

    start = mine[0].upper() + mine[1:]
    adds = "" if study.kind == "classes" else " What it gives besides is an interval for each row."
    few = " With so few rows, only large differences show." if num_rows < FEW_ROWS else ""
    if nothing.gap <= 0:
        return (
            f"{start} predicts these {num_rows:,} rows no better than no model does ({label} "
            f"{value} against {show(nothing)}). Do not rely on it.{few}"
        )
    worse = [v for v in simpler if v.is_worse]
    level = [v for v in simpler if not v.is_worse and not v.is_better]
    if worse:
        return (
            f"Not worth it for its predictions alone: these rows are predicted better by "
            f"{names(worse)} than by {mine} ({label} {value}), by more than chance.{adds}{few}"
        )
    if not nothing.is_better:
        beside = f" On the same rows: {names(simpler)}." if simpler else ""
        return (
            f"{start} predicts these rows better than no model does ({label} {value} against "
            f"{show(nothing)}), but {num_rows:,} rows are too few to tell whether it is better on "
            f"others, too.{beside}"
        )
    if level:
        better = [v for v in simpler if v.is_better]
        also = f" {start} is better than {names(better)}, by more than chance." if better else ""
        return (
            f"A simpler model may do: {num_rows:,} rows cannot tell {names(level)} from {mine} "
            f"({label} {value}).{also}{adds}{few}"
        )
    return (
        f"{start} predicts these rows better ({label} {value}) than {names(simpler or [nothing])}, "
        f"by more than chance.{few}"
    )
