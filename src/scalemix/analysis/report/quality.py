"""The first sections of a report: how good predictions are, beside those of simpler models."""

from xml.etree.ElementTree import Element

import numpy as np

from scalemix.analysis import metrics
from scalemix.analysis.baselines import Baseline
from scalemix.analysis.evaluation import MEASURES, levels_of
from scalemix.analysis.report import classes, pictures
from scalemix.analysis.report.page import (
    NONE,
    details,
    element,
    picture,
    section,
    side_by_side,
    table,
)
from scalemix.analysis.report.study import Study
from scalemix.analysis.report.verdict import compare

MOST_TARGETS = 4


def figures(study: Study) -> Element:
    """The figures beside those of baselines, and predictions against what happened."""
    story = study.story
    if not any(fit.figures for fit in story.fits):
        nothing = element("p", "No rows were held out: nothing is known.")
        return section("figures", "How good it is", nothing)
    # The figures of no model have a column of their own where there are baselines.
    others = [] if isinstance(study.baselines, str) else study.baselines.fitted
    hidden = (
        {"baseline_accuracy", "commonest_share", "baseline_log_likelihood"} if others else set()
    )
    if study.num_targets > 1:
        hidden |= {name for name, measure in MEASURES.items() if not measure.averaged}
    names = [
        name
        for name in MEASURES
        if any(name in figures for figures in study.figures) and name not in hidden
    ]
    several = len(story.fits) > 1
    ours = [
        (fit.name if several else "this model", figures)
        for fit, figures in zip(story.fits, study.figures, strict=True)
    ]
    simpler = [(other.name, other.figures) for other in (*others[1:], *others[:1])]
    rows = [
        (MEASURES[name].label, *(_show(name, values) for _, values in (*ours, *simpler)))
        for name in names
    ]
    heads = ["", *(name for name, _ in (*ours, *simpler))]
    over = f", means over {study.num_targets} targets" if study.num_targets > 1 else ""
    contents = [
        element("p", f"Measured on {story.tested_on}{over}." if story.tested_on else ""),
        table("Figures of this model and of simpler ones", heads, rows),
    ]
    if story.caution:
        contents.append(element("p", f"{story.caution}.", class_="note"))
    if any(NONE in row for row in rows):
        contents.append(element("p", "– : it gives no such thing.", class_="soft"))
    below = []
    if study.num_targets > 1 and study.by_target:
        below = _by_target(study, others)
        names += [name for name in MEASURES if name in study.by_target[0] and name not in names]
    meanings = [(MEASURES[name].label, MEASURES[name].meaning) for name in names]
    if story.test is not None and study.other_kind:
        contents.append(element("p", study.other_kind, class_="note"))
    contents.append(
        details(
            "What these figures mean",
            table("What the figures mean", ["", ""], meanings, numbers=False),
        )
    )
    return section(
        "figures",
        "How good it is",
        element("p", compare(study), class_="note"),
        side_by_side(element("div", *contents), element("div", *_first_pictures(study))),
        *below,
    )


def _by_target(study: Study, others: list[Baseline]) -> list[Element]:
    """Each target by itself, in its own unit, beside what simpler models explain of it."""
    names = [name for name in MEASURES if name in study.by_target[0]]
    simpler = [other for other in others[1:] if other.by_target]
    heads = [
        "target",
        *(MEASURES[name].label for name in names),
        *(f"{other.name}: {MEASURES['r2'].label}" for other in simpler),
    ]
    rows = [
        (
            called,
            *(_show(name, figures) for name in names),
            *(_show("r2", other.by_target[i]) for other in simpler),
        )
        for i, (called, figures) in enumerate(zip(study.target_names, study.by_target, strict=True))
    ]
    ours = {n: v for n, v in study.figures[-1].items() if MEASURES[n].averaged}
    together = [_show(name, ours) for name in names]
    rows.append(("together", *together, *(_show("r2", other.figures) for other in simpler)))
    of = f" of {study.last.name}" if len(study.story.fits) > 1 else ""
    return [
        element("h3", f"Each target by itself{of}"),
        table("Figures of each target", heads, rows),
        element(
            "p",
            "What is in a target's own unit has no mean over all of them, and a mean of shares "
            "that should each be near 90% says little.",
            class_="soft",
        ),
    ]


def _show(name: str, figures: dict[str, float]) -> str:
    known = name in figures and np.isfinite(figures[name])
    return MEASURES[name].show(figures[name]) if known else NONE


def _first_pictures(study: Study) -> list[Element]:
    """Intervals against what happened; of classes, probabilities against what happened."""
    if study.story.test is None:
        return []
    if study.story.classes is not None:
        return classes.calibration(study)
    if not study.is_observed:
        return [
            element(
                "p",
                "Some times of these rows were not observed to the end. Whether they lie in their "
                "intervals nobody knows, so that there is no picture of it, and no error.",
            )
        ]
    made = []
    y = study.test[1]
    whole = study.last.posterior.model.likelihood.innermost.discrete
    # Ends of intervals that are whole numbers leave out less than was asked for.
    outside = "One in ten or fewer" if whole else "About one in ten"
    for target in range(min(study.num_targets, MOST_TARGETS)):
        column = target if study.num_targets > 1 else None
        name = study.target_names[target]
        of = "" if column is None else f"{name}. "
        lower, upper = study.interval
        inside = np.mean(((lower <= y) & (y <= upper)).reshape(len(y), -1)[:, target])
        made.append(
            picture(
                pictures.intervals(study.last.posterior, *study.test, name, column),
                f"{of}{inside:.0%} of {len(y):,} targets lie in their 90% intervals.",
                f"{of}Rows of the test, from the lowest prediction to the highest, "
                f"with their 90% intervals. {outside} should lie outside.",
            )
        )
    if study.num_targets > MOST_TARGETS:
        made.append(element("p", f"The first {MOST_TARGETS} of {study.num_targets} targets."))
    return made


def calibration(study: Study) -> Element | None:
    """Whether stated probabilities come true, and which classes are told apart."""
    if study.story.test is None:
        return None
    if study.story.classes is not None:
        return section("classes", "Which classes it tells apart", *classes.by_class(study))
    if not study.is_observed:
        return None
    _, y = study.test
    made = []
    names = study.target_names[:MOST_TARGETS]
    for fit, predictive in zip(study.story.fits, study.predictives, strict=True):
        levels = levels_of(predictive, y).reshape(len(y), -1)
        for name, values in zip(names, levels.T, strict=False):
            of = f"{fit.name}. " * (len(study.story.fits) > 1) + f"{name}. " * (len(names) > 1)
            made.append(
                picture(
                    pictures.calibration(values),
                    f"{of}Levels of quantiles against the share of targets below them; they "
                    f"differ by {metrics.calibration_error(values):.3f} on average.",
                    f"{of}The share of targets below each predicted quantile.",
                )
            )
    about = (
        "If they are, as many targets lie below each predicted quantile as it says, and the line "
        "is the diagonal. Grey is what chance alone does to so few rows. Where rows were set apart "
        "in training, intervals are also widened or narrowed by what those showed."
    )
    return section(
        "calibration", "Are its probabilities true?", element("p", about),
        element("div", *made, class_="pictures"),
    )  # fmt: skip
