"""Commands whose options are gathered into one argument."""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

Command = Callable[..., None]


def unfolded(
    command: Command,
    name: str,
    options: Sequence[inspect.Parameter],
    gather: Callable[[dict[str, Any]], Any],
) -> Command:
    """The command with these options in place of its argument `name`, which they become."""
    signature = inspect.signature(command)

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {option.name: given.pop(option.name) for option in options}
        command(**{name: gather(values)}, **given)

    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
    ]
    place = [parameter.name for parameter in own].index(name)
    changed: Any = run
    changed.__signature__ = signature.replace(
        parameters=[*own[:place], *options, *own[place + 1 :]]
    )
    return run
