"""Posteriors on disk: one file, written whole or not at all, read without executing anything."""

from scalemix.posterior.storage.posteriors import (
    Info,
    Saved,
    from_bytes,
    info,
    load,
    read,
    to_bytes,
    write,
)

__all__ = ["Info", "Saved", "from_bytes", "info", "load", "read", "to_bytes", "write"]
