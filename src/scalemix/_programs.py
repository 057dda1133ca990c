"""Compiled programs that are kept from one process to the next, so that each is compiled once.

JAX does the keeping. Here is where, how much, and what is worth it. JAX's own settings win:
`JAX_COMPILATION_CACHE_DIR` is another folder, and `JAX_ENABLE_COMPILATION_CACHE=false` keeps
nothing.
"""

import contextlib
import hashlib
import os
import platform
from pathlib import Path

import platformdirs

# A small fit has some seventy programs, which take two megabytes together. A folder that the user
# told JAX of may hold other programs, which are not to be thrown away.
LIMITS = {"jax_compilation_cache_max_size": 500_000_000}
# Reading a program takes about a millisecond; compiling the smallest takes ten.
WORTH = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
}


def keep_programs(folder: str | Path | None = None) -> Path:
    """Keep compiled programs in a folder, for this process and later ones.

    The first fit of a process compiles for many seconds. With its programs kept, the next process
    that fits a table of the same shape begins at once. The `scalemix` command does this by itself.

    Parameters
    ----------
    folder : path, optional
        Where programs are kept. By default in the user's folder for such files, apart for each
        kind of processor. At most 500 MB are kept, and what was not used for longest goes first.

    Returns
    -------
    Path
        The folder. Where none is given and JAX was told of one, such as by the environment
        variable `JAX_COMPILATION_CACHE_DIR`, that stays, and so does its size.

    Raises
    ------
    OSError
        If nothing can be written there.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> str(sx.keep_programs(folder)) == folder
    True
    """
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    where = jax.config.values["jax_compilation_cache_dir"]
    settings = WORTH
    if where is None or folder is not None:
        given = _default_folder() if folder is None else Path(folder).expanduser()
        where = str(_made(given))
        jax.config.update("jax_compilation_cache_dir", where)
        settings = WORTH | LIMITS
    for name, value in settings.items():
        # What the user told JAX by the environment stays.
        if name.upper() not in os.environ:
            jax.config.update(name, value)
    # JAX asks for its settings once, when it first compiles, and that may have been before.
    compilation_cache.reset_cache()
    return Path(where)


def keep_programs_later() -> None:
    """`keep_programs()` for a process that has not imported JAX yet, and may never.

    Where nothing can be written, nothing is kept.
    """
    settings = WORTH
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        with contextlib.suppress(OSError):
            os.environ["JAX_COMPILATION_CACHE_DIR"] = str(_made(_default_folder()))
        settings = WORTH | LIMITS
    for name, value in settings.items():
        os.environ.setdefault(name.upper(), str(value))


def _made(folder: Path) -> Path:
    """The folder, which is made if need be; an `OSError` if nothing can be written there."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"Programs cannot be kept in {folder}: it cannot be written to.")
    return folder


def _default_folder() -> Path:
    return Path(platformdirs.user_cache_dir("scalemix", False)) / "programs" / _processor()


def _processor() -> str:
    """A name for what this processor can do: programs compiled for one may not run on another."""
    facts = [platform.machine(), platform.processor()]
    linux = Path("/proc/cpuinfo")
    if linux.exists():
        lines = linux.read_text(errors="replace").splitlines()
        facts += sorted({line for line in lines if line.startswith(("flags", "Features"))})
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
