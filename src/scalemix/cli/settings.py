"""The settings of a recipe as options: each field of `RecipeSettings` is one."""

import inspect
from typing import Annotated, Any

import typer

from scalemix.cli.unfolding import Command, unfolded
from scalemix.fitting.kinds import Choice, Count, Flag, Kind, Mention, Parameters, Positive, Widths
from scalemix.fitting.settings import RecipeSettings, settings_of
from scalemix.tables import InputError

PANEL = "The network"
# Options that are not named as the fields are. They go by the name of the field, too, but for
# `target`, which on the command line is a column.
SHORTER = {
    "mixture_parameters": "mixture_parameter",
    "num_members": "members",
    "num_trial_members": "trial_members",
    "target": "target_kind",
    "max_steps": "steps",
    "num_draws": "draws",
}
# The table can tell the task, which has an option of its own.
SETTINGS = {name: known for name, known in settings_of(RecipeSettings).items() if name != "task"}
DEFAULTS = {name: getattr(RecipeSettings, name) for name in SETTINGS}


def as_option(mention: Mention) -> str:
    """A setting as it is written on the command line: `--prior ard`."""
    name, value = SHORTER.get(mention.name, mention.name).replace("_", "-"), mention.value
    if value is False:
        return f"--no-{name}"
    if value is None or value is True:
        return f"--{name}"
    return f"--{name} {_as_text(value)}"


def refuse_idle(recipe: RecipeSettings) -> None:
    """Raise `InputError` if an option was given that would do nothing beside the others.

    In Python such a setting is let be, so that one set of settings will do for several estimators.
    """
    by_inference = {
        "temperature": "em",
        "objective": "noise",
        "num_draws": "noise",
        "sampler": "mcmc",
    }
    reasons = {
        name: f"about --inference {of}, and this is --inference {recipe.inference}"
        for name, of in by_inference.items()
        if recipe.inference != of
    }
    if recipe.task == "classification":
        reasons["noise_floor"] = "about the noise of numbers, and the target is a class"
    if recipe.inference == "mcmc":
        reasons["batch_size"] = "about training in steps, and chains use all rows"
    if not recipe.tries_settings:
        reasons["num_trial_members"] = (
            "about settings that held-out rows choose, and here they choose none"
        )
    for name, reason in reasons.items():
        value = getattr(recipe, name)
        if value != DEFAULTS[name]:
            raise InputError(f"{as_option(Mention(name, value))} is {reason}. Leave it out.")


def with_settings(command: Command) -> Command:
    """The command with these options in place of its argument `settings`, which they become."""
    options = [
        inspect.Parameter(
            SHORTER.get(name, name),
            inspect.Parameter.KEYWORD_ONLY,
            default=DEFAULTS[name],
            annotation=_annotation(name, known.kind, known.meaning),
        )
        for name, known in SETTINGS.items()
    ]

    def gather(given: dict[str, Any]) -> dict[str, Any]:
        return {
            name: _read(name, known.kind, given[SHORTER.get(name, name)])
            for name, known in SETTINGS.items()
        }

    return unfolded(command, "settings", options, gather)


def _annotation(name: str, kind: Kind, meaning: str) -> Any:
    """The type of an option, with its help."""
    about: dict[str, Any] = {"help": meaning, "rich_help_panel": PANEL}
    names = [] if isinstance(kind, Flag) else [as_option(Mention(name))]
    if name in SHORTER and name != "target":
        names.append(f"--{name.replace('_', '-')}")
    match kind:
        case Flag():
            value = bool | None
        case Count():
            value, about["min"] = int | None, 1
        case Positive(may_be_auto=False, may_be_open=may_be_open):
            value = float | None if may_be_open else float
        case Parameters():
            value, about["metavar"] = list[str] | None, "NAME=NUMBER"
            about["help"] += " May be repeated."
        case Choice():
            listed = kind.type != "str"
            value, about["metavar"] = str, "|".join(kind.names) if listed else "NAME"
        case _:
            value, about["metavar"] = str | None, "NUMBERS"
            if not isinstance(kind, Widths):
                value, about["metavar"] = str, "NUMBER|auto"
    return Annotated[value, typer.Option(*names, **about)]


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _read(name: str, kind: Kind, given: Any) -> Any:
    """The value of a setting that an option gave, or an `InputError`."""
    option = as_option(Mention(name))
    try:
        match kind:
            case Widths():
                return None if given is None else tuple(int(width) for width in given.split(","))
            case Positive(may_be_auto=True):
                return given if given == "auto" else float(given)
            case Parameters():
                pairs = [pair.split("=", 1) for pair in given or ()]
                return {key.strip(): float(number) for key, number in pairs} or None
    except ValueError:
        takes = {
            Widths: "widths such as 50,50",
            Positive: "a number, or auto",
            Parameters: "a name and a number, such as keep=0.9",
        }[type(kind)]
        shown = given if isinstance(given, str) else " ".join(given or ())
        raise InputError(f"{option} takes {takes}; got {shown!r}.") from None
    return given
