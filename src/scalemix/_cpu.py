"""Operations in forms that XLA is quick with on a CPU.

Two things are slow there. XLA has quick code for images as (batch, height, width, channels) with
filters as (height, width, channels, outputs). It brings other convolutions into that order, but not
those inside of loops, which then take twenty times as long; all steps of training are in a loop.
And a sum over a first axis of a few entries, such as a pair of draws, takes tens of times as long
as adding them up one by one. Gradients have both, in an order that JAX chooses. So a function
is traced, gradients and all, and these operations are replaced. Values stay the same, up to
rounding.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, jaxpr_as_fun
from jaxtyping import Array

from scalemix._jaxprs import bind, run_operations
from scalemix._types import PyTree

# The operations whose parts are functions that run as they stand.
CONTAINERS = ("jit", "scan", "while", "cond")
# Entries of an axis that are added up one by one.
FEW = 8


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


RULES: dict[str, Callable[[JaxprEqn], Callable[..., Array] | None]] = {
    "conv_general_dilated": _convolution,
    "reduce_sum": _sum,
}
