"""Digests of values and of code, equal where two of them do the same.

An Optax optimiser is a pair of closures, and a schedule may be any function. So a function is
compared by what it does: its code, its defaults, the values it closes over and the globals it
reads, all the way down. Addresses, file names and line numbers do not count. Two optimisers that
were built alike have the same digest, in another process too.

An object that an installed package has under a name is known by that name and the package's
version.
"""

import dataclasses
import functools
import hashlib
import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalemix.inference.origins import package_of, public_name, read_attributes

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range, slice)
BUILT_IN = (types.BuiltinFunctionType, types.MethodWrapperType)
# Wrappers around a function that add nothing of their own.
WRAPPERS: tuple[Any, ...] = (
    staticmethod, classmethod, type(functools.lru_cache(repr)), type(jax.jit(abs)),
)  # fmt: skip
# Names in a class that are not compared, unless someone wrote a method of that name.
NOT_COMPARED = frozenset({
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__",
    "__annotations_cache__", "__check_init__", "__classcell__", "__dataclass_fields__",
    "__dataclass_params__", "__dict__", "__doc__", "__eq__", "__firstlineno__", "__hash__",
    "__init__", "__init_subclass__", "__match_args__", "__module__", "__new__", "__orig_bases__",
    "__parameters__", "__post_init__", "__qualname__", "__replace__", "__repr__", "__slots__",
    "__static_attributes__", "__str__", "__type_params__", "__weakref__", "_abc_impl",
})  # fmt: skip


def arrays_digest(arrays: list[Any]) -> str:
    """A digest of what arrays hold, with their shapes and types."""
    hashed = hashlib.sha256()
    for array in arrays:
        array = np.asarray(array)
        hashed.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
    return hashed.hexdigest()


def digest(value: Any, name: str) -> str:
    """The digest of any value, or a `ValueError` that says which part of it cannot be compared."""
    try:
        return _Digests().of(value).hex()
    except (_UnknownError, RecursionError) as error:
        what = str(error) if isinstance(error, _UnknownError) else "something nested too deeply"
        raise ValueError(
            f"A run with checkpoint= is compared with the one that goes on from there, and {name} "
            f"holds {what}, which cannot be compared. Make it of functions, numbers and arrays, or "
            f"leave checkpoint= out."
        ) from None


@dataclasses.dataclass(frozen=True)
class SameCode:
    """A function, or a tuple of functions, that equals every other one that does the same.

    JAX compiles a program anew for a function that is not equal to the one before.
    """

    function: Any = dataclasses.field(compare=False)
    digest: str


def by_what_it_does(function: Any) -> SameCode:
    """The function, compared by what it does if a package such as Optax made it, else by identity.

    Two optimisers of a package that were built alike are the same program. With code of one's own
    that is never quite certain, and to take one program for another is to give a wrong result.
    """
    try:
        return SameCode(function, _Digests(own_code=False).of(function).hex())
    except (_UnknownError, RecursionError):
        return SameCode(function, f"at {id(function)}")


class _UnknownError(Exception):
    """Two such values cannot be compared."""


class _Digests:
    """Digests of values, each visited once. With `own_code=False` only packages may have code."""

    def __init__(self, own_code: bool = True):
        self.own_code = own_code
        # The outermost open value that a digest refers to, as a place: see `of`.
        self.lowest = 0
        # The values are kept too, so that no other value can have the address of one that is gone.
        self.known: dict[int, tuple[Any, bytes]] = {}
        self.open: dict[int, int] = {}

    def of(self, value: Any) -> bytes:
        if type(value) in PLAIN:
            return _hash(type(value).__name__, repr(value).encode())
        if id(value) in self.known:
            return self.known[id(value)][1]
        if id(value) in self.open:
            # A function that calls itself: all there is to say is how far up it stands.
            self.lowest = min(self.lowest, self.open[id(value)])
            return _hash("again", str(len(self.open) - self.open[id(value)]).encode())
        place, outside = len(self.open), self.lowest
        self.open[id(value)] = self.lowest = place
        try:
            result = self._look(value)
        finally:
            del self.open[id(value)]
        # A value that refers to something further out has another digest elsewhere.
        if self.lowest >= place:
            self.known[id(value)] = value, result
        self.lowest = min(self.lowest, outside)
        return result

    def all(self, kind: str, *values: Any) -> bytes:
        return _hash(kind, *(self.of(value) for value in values))

    def unordered(self, kind: str, values: Any) -> bytes:
        return _hash(kind, *sorted(self.of(value) for value in values))

    def _look(self, value: Any) -> bytes:
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            return self.all("key", str(jax.random.key_impl(value)), jax.random.key_data(value))
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            if value.dtype == object:
                return self.all("objects", value.shape, np.asarray(value).reshape(-1).tolist())
            if isinstance(value, np.ma.MaskedArray):
                return self.all("masked", value.data, np.ma.getmaskarray(value))
            weak = b"weak" if getattr(value, "weak_type", False) else b""
            return _hash("array", arrays_digest([value]).encode(), weak)
        if type(value) is dict:
            return self.all("dict", *value.items())
        if isinstance(value, set | frozenset):
            return self.unordered("set", value)
        if type(value) in (tuple, list):
            return self.all(type(value).__name__, *value)
        named = public_name(value)
        if named is not None:
            return _hash("name", named.encode())
        if isinstance(value, type):
            return self._class(value)
        module = value.__globals__ if isinstance(value, types.FunctionType) else vars(type(value))
        name = module.get("__name__", module.get("__module__"))
        if not self.own_code and not isinstance(value, types.CodeType) and not package_of(name):
            raise _UnknownError("code of one's own")
        return self._callable(value) or self._object(value)

    def _callable(self, value: Any) -> bytes | None:
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.MethodType):
            return self.all("method", value.__func__, value.__self__)
        if isinstance(value, BUILT_IN) and value.__self__ is not None:
            return self.all("built-in", value.__name__, value.__self__)
        if isinstance(value, functools.partial):
            return self.all("partial", value.func, value.args, value.keywords)
        if isinstance(value, property):
            return self.all("property", value.fget, value.fset, value.fdel)
        if isinstance(value, WRAPPERS):
            around: Any = value
            return self.all("around", type(value).__qualname__, around.__wrapped__)
        return None

    def _function(self, value: types.FunctionType) -> bytes:
        cells = [_content(cell) for cell in value.__closure__ or ()]
        # Not `__module__`, which `functools.wraps` copies from another function.
        read = {} if package_of(value.__globals__.get("__name__")) else self._globals(value)
        return self.all(
            "function", value.__code__, value.__defaults__, value.__kwdefaults__, cells, read,
            value.__dict__,
        )  # fmt: skip

    def _code(self, code: types.CodeType) -> bytes:
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return self.all(
            "code", code.co_code, code.co_consts, code.co_names, code.co_flags, arguments,
            code.co_freevars, code.co_cellvars, code.co_exceptiontable,
        )  # fmt: skip

    def _globals(self, value: types.FunctionType) -> dict[str, Any]:
        """The values that a function of the user's own reads by name, from modules too."""
        names, read = _names(value.__code__), {}
        for name in sorted(names & value.__globals__.keys()):
            read[name] = content = value.__globals__[name]
            if isinstance(content, types.ModuleType):
                read[name] = read_attributes(content, names, set())
        # Modules that it imports itself are read by that name, wherever the import stands.
        for name in sorted(names & sys.modules.keys() - read.keys()):
            read[f"import {name}"] = read_attributes(sys.modules[name], names, set())
        return read

    def _class(self, value: type) -> bytes:
        descriptors = types.MemberDescriptorType, types.GetSetDescriptorType
        own = {
            name: part
            for name, part in vars(value).items()
            if not isinstance(part, descriptors) and (name not in NOT_COMPARED or _written(part))
        }
        fields = getattr(value, "__dataclass_fields__", {}).values()
        factories = [(field.name, field.default_factory) for field in fields]
        return self.all("class", value.__qualname__, value.__bases__, own, factories)

    def _object(self, value: Any) -> bytes:
        # Objects are taken apart as pickle and copy do. Nothing is pickled, or run from a file.
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:
            raise _UnknownError(f"a {type(value).__qualname__}") from None
        if isinstance(reduced, str):
            return self.all("global", type(value), reduced)
        make, arguments, *rest = reduced
        state, items, pairs = [*rest, None, None, None][:3]
        return self.all(
            "object", make, arguments, state, None if items is None else list(items),
            None if pairs is None else list(pairs),
        )  # fmt: skip


def _hash(kind: str, *parts: bytes) -> bytes:
    hashed = hashlib.sha256(kind.encode())
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.digest()


def _written(part: Any) -> bool:
    """Whether a method stands in someone's source, rather than having been generated."""
    return isinstance(part, types.FunctionType) and part.__code__.co_filename != "<string>"


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "nothing yet"


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)
