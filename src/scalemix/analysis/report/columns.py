"""The section of a report on which columns matter."""

import math
from xml.etree.ElementTree import Element

from scalemix.analysis.importance import LOG_LIKELIHOOD, Importance
from scalemix.analysis.report import pictures
from scalemix.analysis.report.page import element, picture, section, table
from scalemix.analysis.report.study import MOST_COLUMNS, Study

RELEVANCE = (
    "The prior's relevance is about the weights: the column's share of the variance that the "
    "prior, with the scales that the fit has found, gives to what the first layer passes on. Where "
    "all shares are alike, the prior has not needed to choose."
)
NATS = "what happened becomes less probable (a nat is a factor of 2.7)"
WHY_THEY_DIFFER = (
    f"{RELEVANCE} So the two may differ: a column has relevance and no importance where its "
    "effects cancel, are seldom needed, or another column could take its place. Neither says what "
    "causes the target."
)
WITHOUT_ROWS = "No rows are here, and all inputs are taken to vary alike."


def relevance(study: Study) -> Element:
    """How much each column of the table matters: to predictions, and to the prior."""
    story = study.story
    contents = []
    several = len(story.fits) > 1
    heads, by_column = ["column"], [[column.name] for column in story.columns]
    order = study.measured
    if story.test is not None:
        order = study.leading
        for fit, importance in zip(story.fits, study.importances, strict=True):
            of = f", {fit.name}" if several else ""
            parts = [("nats a row lost", importance.loss, importance.error)]
            if importance.measure != LOG_LIKELIHOOD:
                parts.insert(
                    0, (f"rise of the {importance.measure}", importance.rise, importance.rise_error)
                )
            for head, values, errors in parts:
                heads.append(f"{head}{of}")
                for place, column in enumerate(study.measured):
                    by_column[column].append(_with_error(values[place], 2 * errors[place]))
        names = [story.columns[i].name for i in study.measured]
        shares = study.relevances[-1]
        known = None if isinstance(shares, str) else shares[study.measured]
        best = names[study.importances[-1].order[0]]
        contents.append(
            picture(
                pictures.importance(study.importances[-1], names, known),
                f"Columns in the order of their importance; {best} comes first.",
                f"{study.last.name}. "
                * several
                + f"{_what_is_drawn(study.importances[-1])} of unseen rows when each column is "
                f"shuffled, with two standard errors; and the prior's relevance, drawn as a share "
                f"of the largest importance.",
            )
        )
    for fit, shares in zip(story.fits, study.relevances, strict=True):
        if isinstance(shares, str):
            contents.append(element("p", f"{fit.name}: {shares}", class_="note"))
            continue
        heads.append(f"prior's relevance, {fit.name}" if several else "prior's relevance")
        for column in order:
            by_column[column].append(f"{shares[column]:.1%}")
    if len(heads) > 1:
        contents.append(table("Columns by importance", heads, [by_column[i] for i in order]))
        known = RELEVANCE
        if story.test is not None:
            contents.append(element("p", _how_ordered(study.importances[-1])))
            known = WHY_THEY_DIFFER
        rows_are_here = story.test is not None or story.train is not None
        contents.append(element("p", known if rows_are_here else f"{known} {WITHOUT_ROWS}"))
    left = len(story.columns) - len(order)
    if left:
        contents.append(
            element(
                "p", f"These are the {MOST_COLUMNS} most relevant columns; {left} are left out."
            )
        )
    return section("relevance", "Which columns matter", *contents)


def _with_error(value: float, error: float) -> str:
    # Nothing is known beyond the first two digits of the error, and zero has no sign.
    digits = 3 if error <= 0 else 1 - math.floor(math.log10(error))
    shown = (round(float(part), digits) + 0.0 for part in (value, error))
    return " ± ".join(f"{part:,.{max(digits, 0)}f}" for part in shown)


def _what_is_drawn(importance: Importance) -> str:
    if importance.measure == LOG_LIKELIHOOD:
        return f"What is lost of the {importance.measure}"
    return f"The rise of the {importance.measure}"


def _how_ordered(importance: Importance) -> str:
    """What importance is, and which measure orders the columns."""
    about = "Importance is about these rows, and what happens when the column is shuffled among"
    if importance.measure == LOG_LIKELIHOOD:
        said = f"{about} them: {NATS}. This orders the columns"
    else:
        said = (
            f"{about} them. Predictions get worse (the {importance.measure} rises), and {NATS}. A "
            f"single odd row can decide the second. So the {importance.measure} orders the columns"
        )
    return (
        f"{said}: those beyond two standard errors, which stand behind each figure, come first. "
        f"The others may be chance."
    )
