"""The sections of a report on rows: the most uncertain ones, and what more of them would bring."""

from xml.etree.ElementTree import Element

import numpy as np

from scalemix.analysis.baselines import total_error
from scalemix.analysis.evaluation import MEASURES
from scalemix.analysis.learning_curve import LEAST_GAIN, Curve
from scalemix.analysis.numbers import num_rows, number
from scalemix.analysis.report import pictures
from scalemix.analysis.report.page import element, picture, section, table
from scalemix.analysis.report.study import Study

MOST_ROWS = 8
# The columns whose cells are told of each row.
MOST_CELLS = 3
LONGEST_CELL = 24
# A model that is unsure of the network to this share has more to learn.
MUCH_UNKNOWN = 0.2


def uncertain(study: Study) -> Element | None:
    """The rows that the model is least sure of."""
    story = study.story
    if story.test is None:
        return None
    predictive, (_, y) = study.predictives[-1], story.test
    names = list(story.row_names or [f"row {i}" for i in range(len(y))])
    leading = [story.columns[i].name for i in study.leading]
    shown = [name for name in leading if name in story.cells][:MOST_CELLS]
    if story.classes is not None:
        doubt = predictive.entropy
        unknown = predictive.mutual_information / np.maximum(doubt, 1e-12)
        said = predictive.mean.argmax(axis=1)
        heads = ["said", "probability", "was", "from too few rows"]
        cells = [
            (story.classes[said[i]], f"{predictive.mean[i].max():.0%}", story.classes[y[i]],
             f"{unknown[i]:.0%}")
            for i in range(len(y))
        ]  # fmt: skip
    else:
        std, epistemic = (
            part.reshape(len(y), -1) for part in (predictive.std, predictive.epistemic)
        )
        mean = predictive.mean.reshape(len(y), -1)
        lower, upper = (end.reshape(len(y), -1) for end in study.interval)
        targets = y.reshape(len(y), -1)
        # Several targets count in units of their own uncertainty.
        doubt = np.mean(std / np.maximum(std.mean(axis=0), 1e-300), axis=1)
        unknown = (epistemic[:, 0] / np.maximum(std[:, 0], 1e-300)) ** 2
        one = study.target_names[0]
        heads = ["predicted", "90% interval", "was", "from too few rows"]
        if study.num_targets > 1:
            heads = [f"{one}: {head}" for head in heads]
        cells = [
            (_number(mean[i, 0]), f"{_number(lower[i, 0])} to {_number(upper[i, 0])}",
             _outcome(targets[i, 0], study.is_observed), f"{unknown[i]:.0%}")
            for i in range(len(y))
        ]  # fmt: skip
    order = np.argsort(-np.where(np.isfinite(doubt), doubt, np.inf), kind="stable")[:MOST_ROWS]
    rows = [(names[i], *cells[i], *(_cut(story.cells[name][i]) for name in shown)) for i in order]
    of = f" The figures are those of {study.target_names[0]}." if study.num_targets > 1 else ""
    contents = [
        element(
            "p",
            f"The {num_rows(len(rows))} of the test that it is least sure of. The share that comes "
            f"from too few rows would shrink with more rows like these; the rest is noise to this "
            f"model.{of}",
        ),
        table("The most uncertain rows", ["", *heads, *shown], rows),
    ]
    if story.outside:
        contents.append(element("p", story.outside, class_="note"))
    return section("rows", "Where it is least sure", *contents)


def more(study: Study) -> Element | None:
    """What more rows would bring: learning curves of baselines, and what is not known."""
    story = study.story
    if story.test is None:
        return None
    predictive = study.predictives[-1]
    if story.classes is not None:
        share = predictive.mutual_information.sum() / max(predictive.entropy.sum(), 1e-12)
        what = "doubt about the classes"
    else:
        share = float(np.mean(share_unknown(predictive.std, predictive.epistemic)))
        what = "variance of the predictions"
        if study.num_targets > 1:
            what += ", on average over the targets,"
    contents = [
        element(
            "p",
            f"By its own account, {share:.0%} of the {what} comes from having seen too few rows, "
            f"and {1 - share:.0%} is noise that only other columns could explain. The first part "
            f"tends to be too small.",
        )
    ]
    curves = study.curves
    if not curves:
        contents.append(element("p", f"There is no learning curve. {study.why_no_curves}"))
        return section("more", "What more rows would bring", *contents)
    label = _label(study)
    contents.append(
        element(
            "p",
            f"Refitting the networks to fewer rows would cost too much, so the curves are those of "
            f"the simpler models. {' '.join(map(_fallen, curves))} {advice(curves, share)}",
        )
    )
    contents.append(
        picture(
            pictures.learning_curves(curves, _our_error(study), label),
            "; ".join(
                f"{curve.name}: {number(curve.errors[0])} at {curve.sizes[0]:,} rows, "
                f"{number(curve.errors[-1])} at {curve.sizes[-1]:,}"
                for curve in curves
            ),
            "Errors on the rows of the test by the number of rows to train on; bars are the spread "
            "over subsets of them.",
        )
    )
    return section("more", "What more rows would bring", *contents)


def _fallen(curve: Curve) -> str:
    """What one curve shows, in a sentence."""
    first, half, every = curve.sizes[0], curve.sizes[-2], curve.sizes[-1]
    gain, total = curve.last_gain, 1 - curve.errors[-1] / curve.errors[0]
    said = f"From {half:,} rows to {every:,}, the error of {curve.name} {_moved(gain)}"
    if curve.trend == "unclear":
        low, high = curve.last_gains
        said += f", give or take {100 * (high - low) / 2:.0f} points"
    return f"{said}; from {first:,} rows on, it {_moved(total)} in all."


def _moved(gain: float) -> str:
    return f"{'fell' if gain >= 0 else 'rose'} by {abs(gain):.0%}"


def advice(curves: list[Curve], share: float) -> str:
    """Whether more rows would help: by the curves, and by the share that the model does not know.

    The best of the simpler models counts, and so does one that is worse and still learns. The
    networks may have more to learn than either.
    """
    best = min(curves, key=lambda curve: curve.errors[-1])
    falling = [curve.name for curve in curves if curve.trend == "falls"]
    if best.trend == "falls":
        said = "" if share > MUCH_UNKNOWN else ", more than the model's own account says"
        return f"More rows should still help{said}."
    if falling:
        return (
            f"The best of them gains little that is sure, but {' and '.join(falling)} still "
            f"{'learns' if len(falling) == 1 else 'learn'} from more rows: they may help."
        )
    unclear = [curve for curve in curves if curve.trend == "unclear"]
    if any(curve.last_gain > LEAST_GAIN for curve in unclear):
        return (
            "More rows may well help, though the rows of the test are too few to rule out chance."
        )
    if unclear:
        return "The rows of the test are too few to tell whether more rows to train on would help."
    if share > MUCH_UNKNOWN:
        return (
            "The simpler models have little left to learn. This model says that it has: more rows "
            "may help it."
        )
    return "More rows of this kind will hardly help; other columns might."


def share_unknown(std: np.ndarray, epistemic: np.ndarray) -> np.ndarray:
    """Which share of its variance is not noise, for each target: their units may differ."""
    variance, doubt = (part.reshape(len(part), -1) ** 2 for part in (std, epistemic))
    finite = np.isfinite(variance)
    total = np.sum(variance, axis=0, where=finite)
    return np.sum(doubt, axis=0, where=finite) / np.maximum(total, 1e-300)


def _label(study: Study) -> str:
    if study.story.classes is not None:
        return "minus the log-likelihood"
    if study.kind != "real":
        return "mean deviance"
    return "RMSE" if study.num_targets == 1 else "RMSE in spreads of the targets"


def _our_error(study: Study) -> float:
    return total_error(study.predictives[-1].mean, study.test[1], study.kind)


def _number(value: float) -> str:
    return MEASURES["rmse"].show(value)


def _outcome(value: float, observed: bool) -> str:
    return f"over {_number(-value)}" if not observed and value < 0 else _number(value)


def _cut(cell: str) -> str:
    return cell if len(cell) <= LONGEST_CELL else cell[: LONGEST_CELL - 1] + "…"
