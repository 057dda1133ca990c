"""Strict promotion everywhere, and settings under which programs are compiled quickly."""

import atexit
import gc
import itertools
import os
import threading
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

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
# Where modules may not be kept as bytecode, each process that a test starts translates them anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Programs that earlier runs left on this machine would hide what is compiled.
os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"
if QUICK:
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"

import jax  # noqa: E402
import pytest  # noqa: E402

# Tracing makes many objects that live: looking through them less often saves a twentieth.
gc.set_threshold(50_000, 20, 20)

# A plugin may have imported JAX before it could read the settings.
jax.config.update("jax_enable_compilation_cache", False)
jax.config.update("jax_disable_most_optimizations", QUICK)

if QUICK:
    # Nobody reads where in the source each operation of these programs comes from.
    jax.config.update("jax_traceback_in_locations_limit", 0)

if QUICK and version("jaxlib") < "0.11":
    # JAX translates each program in surroundings that it makes anew, which takes a fifth of the
    # time of a small one, and each operation once for each program, two fifths of what is left.
    # Here some hundreds share both; what they leave behind goes with them.
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir

    make_own, translate = mlir.make_ir_context, mlir._cached_lowering_miss
    number = itertools.count()
    shared = SimpleNamespace(surroundings=None, operations={})
    # Those whose translation depends on shapes, types and settings alone, and calls no function.
    PLAIN = {
        "abs", "add", "and", "broadcast_in_dim", "concatenate", "convert_element_type", "copy",
        "div", "dot_general", "eq", "exp", "expm1", "ge", "gt", "iota", "is_finite", "le", "log",
        "log1p", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pad", "reduce_max",
        "reduce_sum", "reshape", "rev", "rsqrt", "select_n", "shift_left", "shift_right_logical",
        "slice", "sqrt", "squeeze", "sub", "tanh", "transpose", "xor",
    }  # fmt: skip

    def make_surroundings():
        """Those that are shared, but for a program within another, and for other threads."""
        alone = threading.current_thread() is threading.main_thread()
        if not alone or ir.Context.current is not None:
            return make_own()
        if next(number) % 500 == 0:
            shared.operations.clear()
            shared.surroundings = make_own()
        return shared.surroundings

    def translate_once(program, operation, key, *arguments, **settings):
        """What an operation is, which another program in the same surroundings may have said."""
        plain = program.context is shared.surroundings and operation.primitive.name in PLAIN
        # Sizes that are left open are arguments of every operation.
        plain = plain and not program.shape_poly_state.dim_vars
        if plain and key in shared.operations:
            return shared.operations[key]
        entry = translate(program, operation, key, *arguments, **settings)
        if plain and not entry.const_args:
            shared.operations[key] = entry
        return entry

    mlir.make_ir_context, mlir._cached_lowering_miss = make_surroundings, translate_once

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


# A process may have 65,530 pieces of memory on Linux, and every compiled program takes some: a file
# of tests up to ten thousand. To give them all back takes several seconds.
MOST_PIECES = 50_000


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """A worker that has compiled a great deal starts the next file afresh, lest it crash."""
    yield
    pieces = Path("/proc/self/maps")
    if pieces.exists() and pieces.read_text().count("\n") > MOST_PIECES:
        jax.clear_caches()


# Workers take whole files (see the Makefile). These take longest, a quarter of a minute and more,
# so that one of them at the end would keep one worker busy while the other has nothing left to do.
LONGEST = (
    "test_docs.py",
    "test_examples.py",
    "sklearn/test_estimators.py",
    "reproduce/test_reproduce.py",
    "test_devices.py",
    "test_processes.py",
    "test_keys.py",
    "posterior/pruning/test_widths.py",
    "posterior/pruning/test_prune.py",
    "cli/test_commands.py",
    "mixtures/test_contract.py",
    "inference/training/test_em.py",
    "inference/training/test_noise.py",
    "networks/test_calling.py",
    "posterior/test_predictive.py",
    "test_network_kinds.py",
    "fitting/test_stacking.py",
    "test_readme.py",
    "inference/chains/test_mcmc.py",
    "inference/test_contract.py",
    "inference/chains/test_chains.py",
    "cli/test_odd_files.py",
)


def pytest_collection_finish():
    """What has been imported stays: the search for objects to give back passes it over."""
    gc.freeze()


def pytest_sessionfinish(session):
    """A worker that has reported all leaves its programs to the system, and does not unload them.

    At the end of a process JAX gives them back one by one, which takes seconds.
    """
    if hasattr(session.config, "workerinput"):
        atexit.register(os._exit, 0)


def pytest_collection_modifyitems(items):
    """Begin with the files that take longest."""
    places = {Path(__file__).parent / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
