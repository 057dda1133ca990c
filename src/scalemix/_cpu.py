"""Operations in forms that XLA is quick with on a CPU, and settings for it.

Three things are slow there. XLA has quick code for images as (batch, height, width, channels) with
filters as (height, width, channels, outputs). It brings other convolutions into that order, but not
those inside of loops, which then take twenty times as long; all steps of training are in a loop.
A sum over a first axis of a few entries, such as a pair of draws, takes tens of times as long
as adding them up one by one. And the gradient of a maximum over windows scatters its entries one by
one, which takes longer than the convolutions around it. Gradients have all of these, in an order
that JAX chooses. So a function is traced, gradients and all, and these operations are
replaced. Values stay the same, up to rounding.
"""

import itertools
import math
import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, jaxpr_as_fun
from jaxtyping import Array

from scalemix._jaxprs import bind, run_operations
from scalemix._types import PyTree

# The operations whose parts are functions that run as they stand.
CONTAINERS = ("jit", "scan", "while", "cond")
# Where Linux describes the processor.
CPU_INFO = Path("/proc/cpuinfo")
# Entries of an axis that are added up one by one.
FEW = 8
# Entries of a window that are gone through one by one.
LARGEST_WINDOW = 16


def quick_on_cpu(
    function: Callable[..., PyTree], *arguments: PyTree
) -> tuple[Callable[..., PyTree], PyTree]:
    """The function for arguments like these, its operations replaced; and its outputs' shapes."""
    closed, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    # Networks without convolutions have nothing to gain that would be worth tracing them again.
    run = jaxpr_as_fun(_replaced(closed) if _convolves(closed) else closed)

    def quick(*arguments: PyTree) -> PyTree:
        return jax.tree.unflatten(jax.tree.structure(shape), run(*jax.tree.leaves(arguments)))

    return quick, shape


def settings_of_steps(grouped: bool) -> dict[str, Any]:
    """Settings of `jax.jit` for steps of training; `grouped` if convolutions are mapped over
    several networks."""
    if jax.default_backend() != "cpu":
        return {}
    options: dict[str, Any] = {}
    if grouped and metadata.version("jaxlib").startswith("0.10."):
        # This one ends in a segmentation fault when it fuses the gradients of such convolutions
        # with what is around them.
        options["xla_cpu_experimental_ynn_fusion_type"] = ""
    if CPU_INFO.exists() and is_wide(CPU_INFO.read_text(errors="replace")):
        options["xla_cpu_prefer_vector_width"] = 512
    return {"compiler_options": options} if options else {}


def is_wide(processor: str) -> bool:
    """Whether processors described like this compute with 512 bits at once as readily as with 256.

    The first ones with such instructions slowed down under them, so that XLA does not use them
    unless told. These here are later ones. On an AMD Zen 5, steps of noise training of small
    networks take about a sixth less, and those of variational EM a twentieth
    (benchmarks/group_sizes.py).
    """
    flags = re.search(r"^flags\s*:(.*)$", processor, re.MULTILINE)
    return flags is not None and "avx512_bf16" in flags[1].split()


def _convolves(closed: ClosedJaxpr) -> bool:
    return any(
        equation.primitive.name == "conv_general_dilated"
        or any(map(_convolves, _parts(equation.params)))
        for equation in closed.jaxpr.eqns
    )


def _parts(parameters: dict[str, Any]) -> list[ClosedJaxpr]:
    """The functions that an operation contains."""
    flat = [
        part
        for value in parameters.values()
        for part in (value if isinstance(value, tuple) else (value,))
    ]
    return [part for part in flat if isinstance(part, ClosedJaxpr)]


def _replaced(closed: ClosedJaxpr) -> ClosedJaxpr:
    def run(*arguments: Array) -> list[Array]:
        return run_operations(closed.jaxpr, closed.consts, arguments, _operate)

    return jax.make_jaxpr(run)(*closed.in_avals)


def _operate(equation: JaxprEqn, inputs: list[Array]) -> list[Array]:
    name = equation.primitive.name
    if name in CONTAINERS:
        inner = {key: _replaced_parts(value) for key, value in equation.params.items()}
        return bind(equation, inputs, **inner)
    quick = RULES[name](equation) if name in RULES else None
    if quick is None:
        return bind(equation, inputs)
    as_it_is = lambda *inputs: bind(equation, inputs)[0]  # noqa: E731
    return [jax.lax.platform_dependent(*inputs, cpu=quick, default=as_it_is)]


def _replaced_parts(value: Any) -> Any:
    if isinstance(value, ClosedJaxpr):
        return _replaced(value)
    several = isinstance(value, tuple) and value and isinstance(value[0], ClosedJaxpr)
    return tuple(map(_replaced, value)) if several else value


def _convolution(equation: JaxprEqn) -> Callable[..., Array] | None:
    """The same convolution between transpositions."""
    parameters = equation.params
    if parameters["feature_group_count"] > 1 or parameters["batch_group_count"] > 1:
        return None
    # Each names batch (for filters, outputs), then channels, then space.
    places = parameters["dimension_numbers"]
    ndim = len(places.lhs_spec)
    space, last = tuple(range(1, ndim - 1)), ndim - 1
    image, filters = (0, last, *space), (last, last - 1, *range(ndim - 2))
    numbers = jax.lax.ConvDimensionNumbers(image, filters, image)

    def moved(array: Array, old: tuple[int, ...], new: tuple[int, ...]) -> Array:
        by_place = dict(zip(new, old, strict=True))
        return jnp.transpose(array, [by_place[place] for place in range(ndim)])

    def convolve(data: Array, weight: Array) -> Array:
        data = moved(data, places.lhs_spec, image)
        weight = moved(weight, places.rhs_spec, filters)
        changed = {**parameters, "dimension_numbers": numbers}
        return moved(equation.primitive.bind(data, weight, **changed), image, places.out_spec)

    return convolve


def _sum(equation: JaxprEqn) -> Callable[..., Array] | None:
    """A sum over a first axis of a few entries, one by one."""
    aval: Any = equation.invars[0].aval
    if tuple(equation.params["axes"]) != (0,) or aval.ndim == 1 or not 1 < aval.shape[0] <= FEW:
        return None

    def add(array: Array) -> Array:
        total = array[0]
        for i in range(1, len(array)):
            total = total + array[i]
        return total

    return add


def _unpool(equation: JaxprEqn) -> Callable[..., Array] | None:
    """The gradient of a maximum over windows: it goes to the first entry that is as large."""
    window = equation.params["window_dimensions"]
    if not _side_by_side(equation) or equation.params["select_prim"] is not jax.lax.ge_p:
        return None

    def unpool(source: Array, array: Array) -> Array:
        best, *rest = _entries(array, window)
        which = jnp.zeros(best.shape, jnp.int32)
        for number, entry in enumerate(rest, start=1):
            which, best = jnp.where(entry > best, number, which), jnp.maximum(entry, best)
        # An axis for the entries of a window behind each axis, which has the windows.
        behind = range(1, 2 * len(window), 2)
        numbers = jnp.arange(math.prod(window), dtype=jnp.int32).reshape(window)
        numbers = jnp.expand_dims(numbers, [place - 1 for place in behind])
        which, source_apart = (jnp.expand_dims(a, list(behind)) for a in (which, source))
        slope = jnp.where(which == numbers, source_apart, 0)
        slope = slope.reshape([a * b for a, b in zip(source.shape, window, strict=True)])
        missing = [(0, a - b) for a, b in zip(array.shape, slope.shape, strict=True)]
        return jnp.pad(slope, missing)

    def in_blocks(source: Array, array: Array) -> Array:
        # What goes into a loop and comes out of it is kept. XLA would compute everything before
        # anew for each entry of a window, and random numbers are among that.
        num_blocks = 2 if len(source) % 2 == 0 else len(source)
        blocks = [a.reshape(num_blocks, -1, *a.shape[1:]) for a in (source, array)]
        return jax.lax.map(lambda block: unpool(*block), tuple(blocks)).reshape(array.shape)

    return in_blocks if window[0] == 1 else unpool


def _side_by_side(equation: JaxprEqn) -> bool:
    """Whether windows neither overlap nor leave gaps nor reach over the edge, and are small."""
    parameters = equation.params
    window = parameters["window_dimensions"]
    whole = tuple(parameters["window_strides"]) == tuple(window)
    padded = any(map(any, parameters["padding"]))
    return whole and not padded and math.prod(window) <= LARGEST_WINDOW


def _entries(array: Array, window: tuple[int, ...]) -> list[Array]:
    """The first entry of every window, the second of every window, and so on."""
    ends = [length // size * size for length, size in zip(array.shape, window, strict=True)]
    return [
        jax.lax.slice(array, start, ends, window)
        for start in itertools.product(*map(range, window))
    ]


RULES: dict[str, Callable[[JaxprEqn], Callable[..., Array] | None]] = {
    "conv_general_dilated": _convolution,
    "reduce_sum": _sum,
    "select_and_scatter_add": _unpool,
}
