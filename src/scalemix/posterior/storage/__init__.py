"""Posteriors on disk: one file, written whole or not at all, read without executing anything."""

from scalemix.posterior.storage.files import from_bytes, load, read, to_bytes, write
from scalemix.posterior.storage.summary import Info, info
from scalemix.posterior.storage.unpacking import Saved

__all__ = ["Info", "Saved", "from_bytes", "info", "load", "read", "to_bytes", "write"]
