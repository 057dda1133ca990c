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
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array

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
    jaxpr = closed.jaxpr

    def run(*arguments: Array) -> list[Array]:
        known: dict[Any, Array] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
        known.update(zip(jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Array:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            known.update(zip(equation.outvars, _run(equation, inputs), strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    return jax.make_jaxpr(run)(*closed.in_avals)


def _run(equation: JaxprEqn, inputs: list[Array]) -> list[Array]:
    quick = RULES[equation.primitive.name](equation) if equation.primitive.name in RULES else None
    if quick is not None:
        as_it_is = lambda *inputs: _bind(equation, inputs)[0]  # noqa: E731
        return [jax.lax.platform_dependent(*inputs, cpu=quick, default=as_it_is)]
    return _bind(equation, inputs)


def _bind(equation: JaxprEqn, inputs: Any) -> list[Array]:
    parameters = equation.params
    if equation.primitive.name in CONTAINERS:
        parameters = {name: _replaced_parts(value) for name, value in parameters.items()}
    parameters = equation.primitive.get_bind_params(parameters)
    with equation.ctx.manager:
        outputs = equation.primitive.bind(*inputs, **parameters)
    return list(outputs) if equation.primitive.multiple_results else [outputs]


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
