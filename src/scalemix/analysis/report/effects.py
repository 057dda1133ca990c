"""The section of a report on what columns do: which way, in which shape, and with which other."""

import itertools
from xml.etree.ElementTree import Element

import numpy as np

from scalemix._text import shortened
from scalemix.analysis.effects import Effect, beyond_sum, grid_of
from scalemix.analysis.input_effects import Setting, effects_of_inputs
from scalemix.analysis.numbers import as_cell, number
from scalemix.analysis.report import pictures
from scalemix.analysis.report.page import details, element, picture, section
from scalemix.analysis.report.study import Study

# So many columns have a picture, and so many of them are tried in pairs; of so many targets.
MOST_EFFECTS, MOST_PAIRED, MOST_TARGETS = 6, 4, 4
PAIR_VALUES, MOST_ROWS = 7, 40


def effects(study: Study) -> Element | None:
    """Which way the important columns act, and the two that act together most."""
    if study.story.test is None:
        return None
    is_sure = study.importances[-1].is_sure
    sure = [column for column, yes in zip(study.measured, is_sure, strict=True) if yes]
    settings = {
        i: setting
        for i in [i for i in study.leading if i in sure][:MOST_EFFECTS]
        if (setting := _setting(study, i)) is not None
    }
    title = "What the columns do"
    if not settings:
        text = "No column's importance is beyond chance, so that no effect is shown."
        return section("effects", title, element("p", text))
    pairs = list(itertools.combinations(list(settings.values())[:MOST_PAIRED], 2))
    alone = [(setting,) for setting in settings.values()]
    # A map shows no more for having more values, and every pair has one.
    together = [tuple(setting.thinned(PAIR_VALUES) for setting in pair) for pair in pairs]
    outputs = dict(itertools.islice(study.outputs.items(), MOST_TARGETS))
    by_target = effects_of_inputs(
        study.last.posterior, study.test[0], [*alone, *together], outputs=list(outputs.values()),
        num_rows=MOST_ROWS,
    )  # fmt: skip
    (first, shown), *others = (
        (target, _on_one(study, target, effects[: len(alone)], effects[len(alone) :]))
        for target, effects in zip(outputs, by_target, strict=True)
    )
    about = element(
        "p",
        f"The mean prediction of {first} as one column takes other values and all else stays. "
        f"The band is where 90% of the model's networks lie: how sure it is of the effect, not "
        f"how targets scatter. Thin lines are single rows, moved to one level; where they are "
        f"not parallel, the column acts together with another. Combinations that do not occur "
        f"count like all others.",
    )
    folded = [details(f"What the columns do to {target}", *drawn) for target, drawn in others]
    which = element("p", _which(study, len(sure), len(settings)))
    return section("effects", title, which, about, *shown, *folded)


def _on_one(study: Study, target: str, single: list[Effect], double: list[Effect]) -> list[Element]:
    """The effects on one target, and on it the pair of columns that does most together."""
    made = [
        picture(image, _in_words(effect, target), f"The effect of {effect.names[0]} on {target}.")
        for image, effect in zip(
            pictures.effects(single, target, study.bounds), single, strict=True
        )
    ]
    contents = [element("div", *made, class_="pictures")]
    if double:
        strongest = max(double, key=beyond_sum)
        first, second = strongest.names
        contents.append(element("h3", f"Together: {first} and {second}"))
        contents.append(
            picture(
                pictures.effects([strongest], target, study.bounds)[0],
                f"A map of the mean prediction of {target} by {first} and {second}.",
                f"Of the leading columns, these two do most together beyond the sum of their own "
                f"effects: a standard deviation of {number(beyond_sum(strongest))}, where all of "
                f"the map has {number(float(np.std(strongest.mean)))}.",
            )
        )
    return contents


def _which(study: Study, num_sure: int, num_drawn: int) -> str:
    """Which effects are drawn, and why these."""
    num = len(study.measured)
    said = f"Of {num} column{'s' * (num != 1)}, "
    if num_sure == 1:
        said += "one is important beyond chance, and it is drawn."
    elif num_drawn == num_sure:
        said += f"the {num_sure} that are important beyond chance are drawn, in the order above."
    else:
        said += (
            f"{num_sure} are important beyond chance. The first {num_drawn} of them are drawn, in "
            f"the order above."
        )
    if len(study.story.classes or ()) > 2:
        return f"{said} Of the classes, the commonest is shown."
    if study.num_targets > 1:
        first, *rest = study.target_names[:MOST_TARGETS]
        said += f" The effects on {first} come first, and below them those on {', '.join(rest)}."
        if left := study.target_names[MOST_TARGETS:]:
            said += (
                f" Those on {shortened(left)} are not drawn; in Python, plots.effect draws them."
            )
    return said


def _setting(study: Study, number: int) -> Setting | None:
    """Values for a column to take; none if it is not known what its inputs mean."""
    column = study.story.columns[number]
    if column.values is not None and column.blocks is not None:
        return Setting(number, column.name, column.values, column.places, column.blocks)
    if len(column.places) != 1:
        return None
    values = grid_of(study.test[0][:, column.places[0]], 20)
    return Setting(number, column.name, values, column.places, values[:, None].astype(float))


def _in_words(effect: Effect, target: str) -> str:
    """The effect for those who do not see the picture."""
    grid, name = effect.grids[0], effect.names[0]

    def at(place: int) -> str:
        band = f"{number(effect.lower[place])} to {number(effect.upper[place])}"
        return f"{number(effect.mean[place])} ({band}) at {as_cell(grid[place])[:40]}"

    places = (0, -1) if grid.dtype.kind in "biufM" else (effect.mean.argmin(), effect.mean.argmax())
    return f"Effect of {name} on {target}: {at(int(places[0]))}, {at(int(places[1]))}."
