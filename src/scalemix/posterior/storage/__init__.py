"""Posteriors on disk: one file, written whole or not at all, read without executing anything."""

from scalemix.posterior.storage.posteriors import Info, Saved, info, load, read, write

__all__ = ["Info", "Saved", "info", "load", "read", "write"]
