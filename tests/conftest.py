"""Strict promotion everywhere: the cheapest filter of silent broadcasting and widening."""

from pathlib import Path

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def float64():
    """Oracles are compared in double precision."""
    with jax.enable_x64(True):
        yield


# A process may have 65,530 pieces of memory on Linux, and every compiled program takes some.
MOST_PIECES = 30_000


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """A worker that has compiled a great deal starts the next file afresh, lest it crash."""
    yield
    pieces = Path("/proc/self/maps")
    if pieces.exists() and pieces.read_text().count("\n") > MOST_PIECES:
        jax.clear_caches()
