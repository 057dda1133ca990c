"""Where code comes from: an installed package, Python itself, or a module of the user's own."""

import functools
import importlib.metadata
import sys
import sysconfig
import types
from typing import Any

from scalemix._versions import PACKAGES


def read_attributes(module: types.ModuleType, names: set[str], seen: set[str]) -> Any:
    """The name of a module; or, of a module of the user's own, the attributes that are read."""
    package = package_of(module.__name__)
    if package or module.__name__ in seen:
        return package or module.__name__
    seen = {*seen, module.__name__}
    read = {name: vars(module)[name] for name in sorted(names & vars(module).keys())}
    return {
        name: read_attributes(part, names, seen) if isinstance(part, types.ModuleType) else part
        for name, part in read.items()
    }


def public_name(value: Any) -> str | None:
    """The name by which an installed package, or Python itself, has this very object."""
    if isinstance(value, types.ModuleType):
        return package_of(value.__name__)
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    package = package_of(module)
    if package is None or not isinstance(name, str):
        return None
    owner: Any = sys.modules.get(str(module))
    for part in name.split("."):
        owner = getattr(owner, part, None)
    if owner is not value:
        return None
    # Modules of this package may move within their room, and checkpoints stay what they are.
    place = ".".join(str(module).split(".")[:2]) if package == "scalemix" else module
    return f"{package}:{place}.{name}"


@functools.cache
def package_of(module: str | None) -> str | None:
    """The installed package of a module, with its version; `None` for a module of the user's."""
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
