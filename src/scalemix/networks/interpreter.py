"""Runs a function on deferred arrays: it is traced, and its operations are run one by one.

Products with data, transposition, changes of type and the taking of parts have rules, and so have
the operations that contain others (`jit`, `checkpoint`, `scan`). Every other operation is given
values.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Primitive
from jaxtyping import Array

from scalemix._jaxprs import bind, run_operations, scan_counts
from scalemix._types import PyTree
from scalemix.networks.deferred import Deferred, Factored, Probe, Product, Term, along, has_range

# What a loop's backward pass computes again in place of keeping it for every step. It costs nothing
# beside the products, and such results are mostly made of what is kept anyway: a state with signs,
# one minus a gate.
CHEAP = frozenset({"add", "sub", "mul", "neg"})

Value = Any
"""An array or a deferred one."""
Rule = Callable[[JaxprEqn, list[Value]], list[Value] | None]
"""(operation, its inputs) -> its outputs; `None` where the operation needs values after all."""


def run_deferred(function: Callable[..., PyTree], *arguments: PyTree) -> PyTree:
    """`function(*arguments)`, where deferred arrays stand for some of the arrays in arguments."""
    leaves, form = jax.tree.flatten(arguments, is_leaf=_is_deferred)
    like = [leaf.like if _is_deferred(leaf) else leaf for leaf in leaves]

    def flat(*leaves: Array) -> PyTree:
        return function(*jax.tree.unflatten(form, leaves))

    closed, shape = jax.make_jaxpr(flat, return_shape=True)(*like)
    outputs = _run(closed.jaxpr, closed.consts, leaves)
    return jax.tree.unflatten(jax.tree.structure(shape), [_value(output) for output in outputs])


def _is_deferred(leaf: Any) -> bool:
    return isinstance(leaf, Deferred)


def _value(value: Value) -> Array:
    return value.value() if _is_deferred(value) else value


def _run(jaxpr: Jaxpr, consts: Sequence[Value], arguments: Sequence[Value]) -> list[Value]:
    return run_operations(jaxpr, consts, arguments, _operate)


def _operate(equation: JaxprEqn, inputs: list[Value]) -> Sequence[Value]:
    outputs = None
    if any(map(_is_deferred, inputs)) and equation.primitive.name in RULES:
        outputs = RULES[equation.primitive.name](equation, inputs)
    return bind(equation, [_value(value) for value in inputs]) if outputs is None else outputs


def _transpose(equation: JaxprEqn, inputs: list[Value]) -> list[Value]:
    return [inputs[0].transpose(tuple(equation.params["permutation"]))]


def _convert(equation: JaxprEqn, inputs: list[Value]) -> list[Value] | None:
    (weight,), dtype = inputs, equation.params["new_dtype"]
    # Rounding to whole numbers is not linear, and complex ones have two parts. And a factor that
    # the weight makes up for may be more than a type of a smaller range holds.
    linear = jnp.issubdtype(dtype, jnp.floating)
    return [weight.astype(dtype)] if linear and has_range(dtype, weight.like.dtype) else None


def _dot(equation: JaxprEqn, inputs: list[Value]) -> list[Value]:
    which = 0 if _is_deferred(inputs[0]) else 1
    if all(map(_is_deferred, inputs)):
        # The smaller one counts as data: it may be the entry of an embedding that was looked up.
        sizes = [math.prod(value.like.shape) for value in inputs]
        which = 0 if sizes[0] >= sizes[1] else 1
    weight, data = inputs[which], _value(inputs[1 - which])
    contracted, batched = equation.params["dimension_numbers"]
    # The output has the shared axes first, then the other axes of the left, then of the right.
    shapes: list[Any] = [atom.aval for atom in equation.invars]
    left, right = (
        [axis for axis in range(len(aval.shape)) if axis not in (*summed, *shared)]
        for aval, summed, shared in zip(shapes, contracted, batched, strict=True)
    )
    first = len(batched[0]) + (len(left) if which == 1 else 0)
    kept = {axis: place for place, axis in enumerate(batched[which])}
    kept |= {axis: first + place for place, axis in enumerate((left, right)[which])}
    free = (left, right)[1 - which]
    (output,) = equation.outvars
    aval: Any = output.aval

    def multiply(weight: Array, data: Array) -> Array:
        if which == 1:
            return bind(equation, [data, weight])[0]
        if batched[0]:
            return bind(equation, [weight, data])[0]
        # `x W'` in place of `W x`, and its axes put in order. Mapped over examples it gives
        # examples by units, as everything else has them: `W x` would be transposed in every layer,
        # forward and backward, and by all that reads it.
        swapped, precision = (contracted[1], contracted[0]), equation.params["precision"]
        if isinstance(precision, tuple):
            # That of the left one and that of the right one.
            precision = precision[::-1]
        (output,) = bind(
            equation, [data, weight], dimension_numbers=(swapped, batched), precision=precision
        )
        return jnp.moveaxis(output, range(len(free)), range(-len(free), 0))

    product = Product(
        multiply,
        data,
        summed=dict(zip(contracted[which], contracted[1 - which], strict=True)),
        kept=kept,
        dtype=aval.dtype,
        once=math.prod(data.shape[axis] for axis in free) == 1,
    )
    return [weight.times(product)]


def _convolve(equation: JaxprEqn, inputs: list[Value]) -> list[Value] | None:
    data, weight = inputs
    if _is_deferred(data) or equation.params["batch_group_count"] > 1:
        return None
    places = equation.params["dimension_numbers"]
    (output,) = equation.outvars
    aval: Any = output.aval
    batch, _, *space = places.out_spec

    def multiply(weight: Array, data: Array) -> Array:
        return bind(equation, [data, weight])[0]

    product = Product(
        multiply,
        data,
        summed={places.rhs_spec[1]: places.lhs_spec[1]},
        kept={places.rhs_spec[0]: places.out_spec[1]},
        dtype=aval.dtype,
        once=math.prod(aval.shape[axis] for axis in (batch, *space)) == 1,
    )
    return [weight.times(product)]


def _inline(equation: JaxprEqn, inputs: list[Value]) -> list[Value]:
    inner = equation.params["jaxpr"]
    return _run(inner.jaxpr, inner.consts, inputs)


def _checkpoint(equation: JaxprEqn, inputs: list[Value]) -> list[Value]:
    parameters = equation.params

    def inner(inputs: list[Value]) -> list[Array]:
        return [_value(output) for output in _run(parameters["jaxpr"], (), inputs)]

    if any(isinstance(value, Probe) for value in inputs):
        # JAX would trace it twice, and a probe would count each use twice.
        return inner(inputs)
    again = jax.checkpoint(
        inner, prevent_cse=parameters["prevent_cse"], policy=parameters["policy"]
    )
    return again(inputs)


def _scan(equation: JaxprEqn, inputs: list[Value]) -> list[Value]:
    parameters = equation.params
    num_consts, num_carried = scan_counts(parameters, len(inputs))
    inner = parameters["jaxpr"]
    fixed = [v.repeated() if _is_deferred(v) else v for v in inputs[:num_consts]]
    first = [_value(v) for v in inputs[num_consts : num_consts + num_carried]]
    # Weights that are stacked go through the loop one by one, and stay deferred.
    stacks = [
        v if _is_stack(v) else _value(v.repeated()) if _is_deferred(v) else v
        for v in inputs[num_consts + num_carried :]
    ]

    def step(carried: list[Array], slices: list[Value]) -> tuple[list[Array], list[Array]]:
        slices = [v.one_of_stack() if _is_stack(v) else v for v in slices]
        outputs = _run(inner.jaxpr, inner.consts, [*fixed, *carried, *slices])
        values = [_value(output) for output in outputs]
        return values[:num_carried], values[num_carried:]

    # Nothing outside of the loop is the same as what its backward pass computes again.
    lean = jax.checkpoint(step, prevent_cse=False, policy=_is_kept)
    carried, stacked = jax.lax.scan(
        lean, first, stacks, length=parameters["length"],
        reverse=parameters["reverse"], unroll=parameters["unroll"],
    )  # fmt: skip
    return [*carried, *stacked]


def _is_kept(primitive: Primitive, *_: Any, **__: Any) -> bool:
    return primitive.name not in CHEAP


def _is_stack(value: Value) -> bool:
    return isinstance(value, Factored) and value.num_stacked > 0


def _plain(value: Value) -> bool:
    return isinstance(value, Factored) and value.plain()


def _dynamic_slice(equation: JaxprEqn, inputs: list[Value]) -> list[Value] | None:
    whole, *starts = inputs
    whole.looked_up(dict(enumerate(starts)))
    part = whole.part(lambda array: bind(equation, [array, *starts])[0])
    if part is not None:
        return [part]
    if not _plain(whole):
        return None
    sizes = equation.params["slice_sizes"]

    def part_of(term: Term) -> Term:
        factors = {
            axis: jax.lax.dynamic_slice(factor, [starts[axis]], [sizes[axis]])
            for axis, factor in term.factors.items()
        }
        return Term(bind(equation, [term.base, *starts])[0], factors)

    return [whole.map(part_of)]


def _slice(equation: JaxprEqn, inputs: list[Value]) -> list[Value] | None:
    (whole,) = inputs
    if not _plain(whole):
        return None
    starts, limits, strides = (
        equation.params[name] for name in ("start_indices", "limit_indices", "strides")
    )

    def part(term: Term) -> Term:
        factors = {
            axis: factor[starts[axis] : limits[axis] : strides[axis] if strides else 1]
            for axis, factor in term.factors.items()
        }
        return Term(bind(equation, [term.base])[0], factors)

    return [whole.map(part)]


def _squeeze(equation: JaxprEqn, inputs: list[Value]) -> list[Value] | None:
    (whole,) = inputs
    if not _plain(whole):
        return None
    gone = equation.params["dimensions"]

    def squeezed(term: Term) -> Term:
        base = term.base
        for axis in gone:
            if axis in term.factors:
                base = base * along(term.factors[axis], axis, base.ndim)
        left = {axis: factor for axis, factor in term.factors.items() if axis not in gone}
        places = {axis: axis - sum(other < axis for other in gone) for axis in left}
        return Term(base, left).move(bind(equation, [base])[0], places)

    return [whole.map(squeezed)]


def _gather(equation: JaxprEqn, inputs: list[Value]) -> list[Value] | None:
    table, places = inputs
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    table.looked_up({axis: places[..., i] for i, axis in enumerate(numbers.start_index_map)})
    if math.prod(places.shape[:-1]) == 1:
        part = table.part(lambda array: bind(equation, [array, places])[0])
        if part is not None:
            return [part]
    if not _plain(table):
        return None
    # A value of its own for places beyond the table would be multiplied by factors as well.
    fills = equation.params["mode"] == jax.lax.GatherScatterMode.FILL_OR_DROP
    shape = table.like.shape
    whole = [axis for axis in range(len(shape)) if sizes[axis] == shape[axis]]
    if len(shape) - len(whole) > 1 or numbers.operand_batching_dims:
        return None
    if fills and equation.params["fill_value"] not in (None, 0):
        return None
    kept = [axis for axis in range(len(shape)) if axis not in numbers.collapsed_slice_dims]

    def taken(term: Term) -> Array:
        output = bind(equation, [term.base, places])[0]
        for axis, factor in term.factors.items():
            if axis in whole and axis in kept:
                place = numbers.offset_dims[kept.index(axis)]
                output = output * along(factor, place, output.ndim)
                continue
            # Entries of an axis of which parts are taken have their factors taken along.
            small = tuple(1 if other in whole else size for other, size in enumerate(sizes))
            alone = along(factor, axis, len(shape))
            output = output * bind(equation, [alone, places], slice_sizes=small)[0]
        return output

    first, *rest = map(taken, table.terms)
    return [sum(rest, start=first)]


RULES: dict[str, Rule] = {
    "transpose": _transpose,
    "convert_element_type": _convert,
    "dot_general": _dot,
    "conv_general_dilated": _convolve,
    "jit": _inline,
    # What `jax.checkpoint` is called depends on the version of JAX.
    "checkpoint": _checkpoint,
    "remat2": _checkpoint,
    "scan": _scan,
    "dynamic_slice": _dynamic_slice,
    "slice": _slice,
    "squeeze": _squeeze,
    "gather": _gather,
}
