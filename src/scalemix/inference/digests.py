"""Digests of values and of code, equal where two of them do the same.

An Optax optimiser is a pair of closures, and a schedule may be any function. So a function counts
as what it does: its code, its defaults, what it closes over, and the globals that it reads, all
the way down. Addresses, file names and line numbers do not count. Two optimisers that were built
alike are the same, in another process too.

What an installed package gives a name to is known by that name and by the package's version.
"""

import dataclasses
import functools
import hashlib
import importlib.metadata
import sys
import sysconfig
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalemix._versions import PACKAGES

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), range, slice)
BUILT_IN = (types.BuiltinFunctionType, types.MethodWrapperType)
# Around a function, and nothing to say of their own.
WRAPPERS: tuple[Any, ...] = (
    staticmethod, classmethod, type(functools.lru_cache(repr)), type(jax.jit(abs)),
)  # fmt: skip
# What a class holds besides its methods and attributes, unless someone wrote it.
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
    found = hashlib.sha256()
    for array in arrays:
        array = np.asarray(array)
        found.update(f"{array.shape}{array.dtype}".encode() + array.tobytes())
    return found.hexdigest()


def digest(value: Any, name: str) -> str:
    """The digest of any value, or a `ValueError` that says what of it cannot be compared."""
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
    """A function, or a tuple of functions, that equals every other that does the same.

    JAX compiles a program anew for a function that is not equal to the last.
    """

    function: Any = dataclasses.field(compare=False)
    digest: str


def by_what_it_does(function: Any) -> SameCode:
    """The function, comparable by what it does if packages made it, such as Optax; else by itself.

    Two optimisers of a package, built alike, are the same program. Of code of one's own it is never
    quite certain, and a program that is taken for another is a wrong result.
    """
    try:
        return SameCode(function, _Digests(own_code=False).of(function).hex())
    except (_UnknownError, RecursionError):
        return SameCode(function, f"at {id(function)}")


class _UnknownError(Exception):
    """There is no telling whether two of these are the same."""


class _Digests:
    """Digests of values, each value visited once; with `own_code=False` of packages' code only."""

    def __init__(self, own_code: bool = True):
        self.own_code = own_code
        # The outermost open value that a digest refers to, as a place: see `of`.
        self.lowest = 0
        # The values themselves too, so that none makes room for another of the same address.
        self.found: dict[int, tuple[Any, bytes]] = {}
        self.open: dict[int, int] = {}

    def of(self, value: Any) -> bytes:
        if type(value) in PLAIN:
            return _hash(type(value).__name__, repr(value).encode())
        if id(value) in self.found:
            return self.found[id(value)][1]
        if id(value) in self.open:
            # A function that calls itself: how far up is all there is to say.
            self.lowest = min(self.lowest, self.open[id(value)])
            return _hash("again", str(len(self.open) - self.open[id(value)]).encode())
        place, outside = len(self.open), self.lowest
        self.open[id(value)] = self.lowest = place
        try:
            result = self._look(value)
        finally:
            del self.open[id(value)]
        # What refers to something further out has another digest elsewhere.
        if self.lowest >= place:
            self.found[id(value)] = value, result
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
        named = _public_name(value)
        if named is not None:
            return _hash("name", named.encode())
        if isinstance(value, type):
            return self._class(value)
        module = value.__globals__ if isinstance(value, types.FunctionType) else vars(type(value))
        name = module.get("__name__", module.get("__module__"))
        if not self.own_code and not isinstance(value, types.CodeType) and not _package(name):
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
        read = {} if _package(value.__globals__.get("__name__")) else self._globals(value)
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
        """What a function of the user's own reads by name, in modules of their own as well."""
        names, read = _names(value.__code__), {}
        for name in sorted(names & value.__globals__.keys()):
            read[name] = found = value.__globals__[name]
            if isinstance(found, types.ModuleType):
                read[name] = _attributes(found, names, set())
        # What it imports itself is read by that name, wherever it stands.
        for name in sorted(names & sys.modules.keys() - read.keys()):
            read[f"import {name}"] = _attributes(sys.modules[name], names, set())
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
        # As pickle and copy take objects apart; nothing is pickled, and nothing is run from a file.
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
    found = hashlib.sha256(kind.encode())
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.digest()


def _written(part: Any) -> bool:
    """Whether a method stands in someone's source, and was not made up by a decorator."""
    return isinstance(part, types.FunctionType) and part.__code__.co_filename != "<string>"


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "nothing yet"


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _attributes(module: types.ModuleType, names: set[str], seen: set[str]) -> Any:
    """The name of a module and, if no package was installed with it, what of it is read."""
    package = _package(module.__name__)
    if package or module.__name__ in seen:
        return package or module.__name__
    seen = {*seen, module.__name__}
    read = {name: vars(module)[name] for name in sorted(names & vars(module).keys())}
    return {
        name: _attributes(part, names, seen) if isinstance(part, types.ModuleType) else part
        for name, part in read.items()
    }


def _public_name(value: Any) -> str | None:
    """The name by which an installed package, or Python itself, has this very object."""
    if isinstance(value, types.ModuleType):
        return _package(value.__name__)
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    package = _package(module)
    if package is None or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(str(module))
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{package}:{module}.{name}" if found is value else None


@functools.cache
def _package(module: str | None) -> str | None:
    """The installed package that a module is of, with its version; nothing for a user's own."""
    root = str(module).partition(".")[0]
    if root == "__main__" or root not in sys.modules:
        return None
    # Files say with which versions of these they were written.
    if root in PACKAGES or root in sys.stdlib_module_names:
        return root
    places = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    if not str(getattr(sys.modules[root], "__file__", "")).startswith(places):
        return None
    try:
        return f"{root} {importlib.metadata.version(root)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{root} {getattr(sys.modules[root], '__version__', '')}"
