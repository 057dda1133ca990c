"""How well a report says that classes are told apart."""

from xml.etree.ElementTree import Element

import numpy as np

from scalemix.analysis import metrics
from scalemix.analysis.report import pictures
from scalemix.analysis.report.page import NONE, element, picture, table
from scalemix.analysis.report.study import Study

MOST_CLASSES = 12


def calibration(study: Study) -> list[Element]:
    """How often each class came, against the probability that it was given."""
    classes = study.story.classes or ()
    _, y = study.test
    counts = np.bincount(y, minlength=len(classes))
    shown = sorted(np.argsort(-counts, kind="stable")[: pictures.MOST_PANELS].tolist())
    error = metrics.expected_calibration_error(y, study.predictives[-1].mean)
    made = [
        picture(
            pictures.class_calibration(study.predictives[-1].mean, y, shown, classes),
            f"Stated probabilities against what happened, for each class; the mean gap of the "
            f"class that was named is {error:.3f}.",
            "How often each class came, against the probability that it was given. On the dashed "
            "line they agree; grey is what chance alone does to so few rows.",
        )
    ]
    if len(shown) < len(classes):
        made.append(element("p", f"The {len(shown)} commonest of {len(classes)} classes."))
    return made


def by_class(study: Study) -> list[Element]:
    """Precision, recall and AUC of each class, and what was mistaken for what."""
    classes, (_, y) = study.story.classes or (), study.test
    contents = [
        element(
            "p",
            "Precision: of the rows that were said to be of a class, the share that are. Recall: "
            "of the rows of a class, the share that were found.",
        )
    ]
    for fit, predictive in zip(study.story.fits, study.predictives, strict=True):
        scores = metrics.by_class(y, predictive.mean)
        guess = predictive.mean.argmax(axis=1)
        areas = [metrics.auc(y == i, predictive.mean[:, i]) for i in range(len(classes))]
        if len(study.story.fits) > 1:
            contents.append(element("h3", fit.name))
        rows = [
            (name, f"{scores.num_rows[i]:,}", _share(scores.precision[i]), _share(scores.recall[i]),
             NONE if np.isnan(areas[i]) else f"{areas[i]:.3f}")
            for i, name in enumerate(classes)
        ]  # fmt: skip
        heads = ["class", "rows", "precision", "recall", "AUC"]
        of = f" of {fit.name}" if len(study.story.fits) > 1 else ""
        contents.append(table(f"Precision and recall{of}", heads, rows))
        if len(classes) <= MOST_CLASSES:
            counts = np.zeros((len(classes), len(classes)), int)
            np.add.at(counts, (y, guess), 1)
            cells = [
                (f"is {name}", *map(str, row)) for name, row in zip(classes, counts, strict=True)
            ]
            heads = ["", *(f"said {name}" for name in classes)]
            contents.append(table(f"What was, and what was said{of}", heads, cells))
        else:
            contents.append(element("p", f"{len(classes)} classes are too many for a table of all "
                                         f"pairs."))  # fmt: skip
    return contents


def _share(value: float) -> str:
    return NONE if np.isnan(value) else f"{value:.1%}"
