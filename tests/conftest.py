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
# Workers inherit them too, and tell them from flags of one's own.
QUICK = os.environ.setdefault("XLA_FLAGS", FLAGS) == FLAGS
if QUICK:
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"

import jax  # noqa: E402
import pytest  # noqa: E402

# Tracing makes many objects that live: looking through them less often saves a twentieth.
gc.set_threshold(50_000, 20, 20)

# A plugin may have imported JAX before it could read the setting.
jax.config.update("jax_disable_most_optimizations", QUICK)

# The cheapest filter of silent broadcasting and widening.
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def optimised():
    """For what would run longer unoptimised than it takes to optimise a little."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", QUICK)


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


# Workers take whole files (see the Makefile). These take longest: half a minute and more, so that
# one of them at the end would keep one worker busy while the other has nothing left to do.
LONGEST = (
    "sklearn/test_estimators.py",
    "test_docs.py",
    "reproduce/test_reproduce.py",
    "mixtures/test_contract.py",
    "cli/test_commands.py",
    "inference/training/test_em.py",
    "test_examples.py",
    "test_readme.py",
    "inference/chains/test_mcmc.py",
    "inference/chains/test_chains.py",
    "cli/test_odd_files.py",
)


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
