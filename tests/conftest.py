"""Strict promotion everywhere, and settings under which programs are compiled quickly."""

import os
from pathlib import Path

# Most of the time of the tests is compilation, of programs that then run for moments: half of it
# went into optimising them. Processes that tests start inherit this.
QUICKLY = "--xla_backend_optimization_level=0"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}".strip()

import jax  # noqa: E402
import pytest  # noqa: E402

# The cheapest filter of silent broadcasting and widening.
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
