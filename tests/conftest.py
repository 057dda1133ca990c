"""Strict promotion everywhere, and settings under which programs are compiled quickly."""

import gc
import os
from importlib.metadata import version
from pathlib import Path

# Nearly all the time of the tests went into compiling programs that then run for moments. Without
# optimisation, in one piece, and with XLA's older emitters, that takes a third of it. Flags of
# one's own count instead: `make test-all` sets none, so that what users run is tested too.
# Processes that tests start inherit the settings.
FLAGS = "--xla_backend_optimization_level=1"
if version("jaxlib") < "0.11":
    # Later ones abort at a flag that they no longer know.
    FLAGS += " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
if "XLA_FLAGS" not in os.environ:
    os.environ |= {"XLA_FLAGS": FLAGS, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}

import jax  # noqa: E402
import pytest  # noqa: E402

# Tracing makes many objects that live: looking through them less often saves a twentieth.
gc.set_threshold(50_000, 20, 20)

# The cheapest filter of silent broadcasting and widening.
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def optimised():
    """For what would run longer unoptimised than it takes to optimise a little."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


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
