"""What runs: the versions that files are written with, so that a reader can tell."""

import importlib.metadata
import platform

# What numbers depend on. A run that goes on under others is the same run, but not bit for bit.
PACKAGES = ("scalemix", "jax", "jaxlib", "numpy", "equinox", "optax", "blackjax")


def this_version() -> str:
    """The version of scalemix that runs."""
    return _version("scalemix") or "unknown"


def versions() -> dict[str, str]:
    """The versions of Python, of scalemix, and of what it computes with, as far as installed."""
    found = {name: _version(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        **{name: version for name, version in found.items() if version is not None},
    }


def in_words(found: dict[str, str]) -> str:
    """`jax 0.10.2, numpy 2.1.0`, for a sentence."""
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
