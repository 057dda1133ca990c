"""The kinds of values that settings have, and how each is checked."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from scalemix.data.values import is_number, is_whole

# A longer list of names does not fit on one line; the meaning of the setting has them then.
LONGEST_LIST = 60


class Mention(NamedTuple):
    """A setting that a message speaks of, alone or with a value."""

    name: str
    value: Any = None

    def in_python(self) -> str:
        """The setting as a keyword argument: `prior='ard'`."""
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class SettingError(ValueError):
    """A setting has a value that it cannot have.

    The message speaks of settings as Python writes them. `spelled` gives it for other doors, where
    they have other names.
    """

    def __init__(self, *parts: str | Mention):
        self.parts = parts
        super().__init__(self.spelled(Mention.in_python))

    def spelled(self, spell: Callable[[Mention], str]) -> str:
        """The message, with each setting spelled by this function."""
        return "".join(part if isinstance(part, str) else spell(part) for part in self.parts)


class Kind(Protocol):
    """One kind of values."""

    @property
    def type(self) -> str:
        """The values as the documentation of a parameter names them."""
        ...

    def check(self, name: str, value: Any) -> Any:
        """The value as it is used from here on, or a `SettingError`."""
        ...


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of several names."""

    names: tuple[str, ...]

    @property
    def type(self) -> str:
        listed = "{" + ", ".join(f'"{name}"' for name in self.names) + "}"
        return listed if len(listed) <= LONGEST_LIST else "str"

    def check(self, name: str, value: Any) -> str:
        if not (isinstance(value, str) and value in self.names):
            raise SettingError(
                Mention(name), f" must be one of {', '.join(self.names)}; got {value!r}."
            )
        return value


@dataclasses.dataclass(frozen=True)
class Count:
    """A whole number from one; with `may_be_open`, also `None`."""

    may_be_open: bool = False

    @property
    def type(self) -> str:
        return "int"

    def check(self, name: str, value: Any) -> int | None:
        if value is None and self.may_be_open:
            return None
        if value is None or not is_whole(value) or value < 1:
            raise SettingError(Mention(name), f" must be a positive whole number, got {value!r}.")
        return int(value)


@dataclasses.dataclass(frozen=True)
class Positive:
    """A positive number; with `may_be_auto`, also "auto"; with `may_be_open`, also `None`."""

    may_be_auto: bool = False
    may_be_open: bool = False

    @property
    def type(self) -> str:
        return 'float or "auto"' if self.may_be_auto else "float"

    def check(self, name: str, value: Any) -> Any:
        if self.may_be_open and value is None:
            return None
        if self.may_be_auto and isinstance(value, str) and value == "auto":
            return value
        if value is None or not is_number(value) or not 0 < float(value) < math.inf:
            raise SettingError(Mention(name), f" must be a positive number, got {value!r}.")
        return value


@dataclasses.dataclass(frozen=True)
class Flag:
    """Yes or no; with `may_be_open`, also `None`."""

    may_be_open: bool = False

    @property
    def type(self) -> str:
        return "bool"

    def check(self, name: str, value: Any) -> bool | None:
        if value is None and self.may_be_open:
            return None
        if not isinstance(value, bool | np.bool_):
            raise SettingError(Mention(name), f" must be True or False, got {value!r}.")
        return bool(value)


@dataclasses.dataclass(frozen=True)
class Widths:
    """The widths of one layer or more; with `may_be_open`, also `None`."""

    may_be_open: bool = False

    @property
    def type(self) -> str:
        return "sequence of int"

    def check(self, name: str, value: Any) -> tuple[int, ...] | None:
        if value is None and self.may_be_open:
            return None
        widths: tuple[Any, ...] = tuple(value) if np.iterable(value) else (value,)
        if not widths:
            raise SettingError(
                Mention(name), " must have the width of one hidden layer or more, got none."
            )
        for width in widths:
            if not is_whole(width) or width < 1:
                raise SettingError(
                    "Each width of ",
                    Mention(name),
                    f" must be a positive whole number, got {width!r}.",
                )
        return tuple(int(width) for width in widths)


@dataclasses.dataclass(frozen=True)
class Parameters:
    """Numbers by name, or `None`."""

    @property
    def type(self) -> str:
        return "dict"

    def check(self, name: str, value: Any) -> dict[str, float] | None:
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise SettingError(Mention(name), f" must be a dict of numbers, got {value!r}.")
        for key, number in value.items():
            if not is_number(number):
                raise SettingError(Mention(name), f": {key} must be a number, got {number!r}.")
        return dict(value)
