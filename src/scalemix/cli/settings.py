"""The settings of a recipe as options: each field of `RecipeSettings` is one."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from scalemix.fitting.kinds import Choice, Count, Flag, Kind, Mention, Parameters, Positive, Widths
from scalemix.fitting.settings import RecipeSettings, settings_of
from scalemix.tables import InputError

PANEL = "The network"
# Options that are not named as the fields are.
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


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """The command with these options in place of its argument `settings`, which they become."""
    signature = inspect.signature(command)
    options = [
        inspect.Parameter(
            SHORTER.get(name, name),
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(DEFAULTS[name], known.kind),
            annotation=_annotation(name, known.kind, known.meaning),
        )
        for name, known in SETTINGS.items()
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        settings = {
            name: _read(name, known.kind, given.pop(SHORTER.get(name, name)))
            for name, known in SETTINGS.items()
        }
        command(settings=settings, **given)

    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
    ]
    place = [parameter.name for parameter in own].index("settings")
    changed: Any = run
    changed.__signature__ = signature.replace(
        parameters=[*own[:place], *options, *own[place + 1 :]]
    )
    return run


def _annotation(name: str, kind: Kind, meaning: str) -> Any:
    """The type of an option, with its help."""
    about: dict[str, Any] = {"help": meaning, "rich_help_panel": PANEL}
    names = [] if isinstance(kind, Flag) else [as_option(Mention(name))]
    match kind:
        case Flag():
            value = bool
        case Count():
            value, about["min"] = int | None, 1
        case Positive(may_be_auto=False):
            value = float
        case Parameters():
            value, about["metavar"] = list[str] | None, "NAME=NUMBER"
            about["help"] += " May be repeated."
        case Choice():
            listed = kind.type != "str"
            value, about["metavar"] = str, "|".join(kind.names) if listed else "NAME"
        case _:
            value, about["metavar"] = str, "NUMBERS" if isinstance(kind, Widths) else "NUMBER|auto"
    return Annotated[value, typer.Option(*names, **about)]


def _default(value: Any, kind: Kind) -> Any:
    return _as_text(value) if isinstance(kind, Widths) else value


def _as_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _read(name: str, kind: Kind, given: Any) -> Any:
    """The value of a setting that an option gave, or an `InputError`."""
    option = as_option(Mention(name))
    try:
        match kind:
            case Widths():
                return tuple(int(width) for width in given.split(","))
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
        shown = given if isinstance(given, str) else " ".join(given)
        raise InputError(f"{option} takes {takes}; got {shown!r}.") from None
    return given
