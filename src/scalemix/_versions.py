"""The versions of scalemix and of what it computes with, as files record them."""

import importlib.metadata
import platform

# Numbers depend on these. A run continued under other versions is the same, but not bit for bit.
PACKAGES = ("scalemix", "jax", "jaxlib", "numpy", "equinox", "optax", "blackjax")


def this_version() -> str:
    """The version of scalemix that is running."""
    return _version("scalemix") or "unknown"


def versions() -> dict[str, str]:
    """The versions of Python, of scalemix and of the packages it computes with, if installed."""
    installed = {name: _version(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        **{name: version for name, version in installed.items() if version is not None},
    }


def in_words(versions: dict[str, str]) -> str:
    """`jax 0.10.2, numpy 2.1.0`, for a sentence."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
