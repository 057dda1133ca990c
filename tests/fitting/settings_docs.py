"""The documentation of a recipe's settings as docstrings must have it."""

import dataclasses
import inspect
import textwrap

from scalemix.fitting.settings import RecipeSettings, Setting

WIDTH = 92


def documented(*, without: tuple[str, ...] = ()) -> dict[str, str]:
    """The numpydoc entry of each setting, by name."""
    fields = dataclasses.fields(RecipeSettings)
    return {field.name: _entry(field) for field in fields if field.name not in without}


def parameters_of(documented_class: type) -> dict[str, str]:
    """The entries of the section `Parameters` of a docstring, by name."""
    lines = inspect.cleandoc(documented_class.__doc__ or "").splitlines()
    start = lines.index("Parameters") + 2
    entries: dict[str, list[str]] = {}
    name = ""
    for line in lines[start:]:
        if not line:
            break
        if not line.startswith(" "):
            name = line.split(" : ")[0]
        entries.setdefault(name, []).append(line)
    return {name: "\n".join(entry) for name, entry in entries.items()}


def _entry(field: dataclasses.Field) -> str:
    known: Setting = field.metadata["setting"]
    shown = f'"{field.default}"' if isinstance(field.default, str) else repr(field.default)
    end = "optional" if field.default is None else f"default={shown}"
    meaning = textwrap.fill(known.meaning, WIDTH, break_on_hyphens=False)
    return f"{field.name} : {known.kind.type}, {end}\n{textwrap.indent(meaning, '    ')}"
