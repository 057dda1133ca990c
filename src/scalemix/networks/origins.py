"""Which numbers of its input a network passes on as they are: to a product, or to a table."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn, Literal
from jax.interpreters import partial_eval

from scalemix._jaxprs import bind, run_operations, unwrapped
from scalemix._types import PyTree

# Each number of the input is replaced by one that stands for its place. These are larger than any
# number that a network may hold, so they begin at the first of the three. Single precision tells
# them apart up to the second; where all inputs are whole numbers, they go up to the third.
SMALLEST, LARGEST_REAL, LARGEST = 2**20, 2**24, 2**28
# Operations on real numbers that only put them elsewhere, or that are for derivatives and devices.
# Sorting is none: where a number goes depends on the others.
PASSES = frozenset(
    {
        "broadcast_in_dim", "concatenate", "convert_element_type", "copy", "device_put",
        "dynamic_slice", "dynamic_update_slice", "gather", "layout_constraint", "name",
        "optimization_barrier", "pad", "pvary", "reshape", "reshard", "rev", "scatter", "select_n",
        "sharding_constraint", "slice", "split", "squeeze", "stack", "stop_gradient", "tile",
        "transpose", "unstack",
    }
)  # fmt: skip
# Operations that leave whole numbers as they are.
ROUNDS = frozenset({"ceil", "floor", "round"})
# What makes an array of one number.
FILLS = ("broadcast_in_dim", "convert_element_type")


class Origins:
    """What a traced function's outputs are made of, where they are numbers of its input.

    `example` are the shapes and types of the input, which is all that the function takes. `passes`
    are the operations on real numbers whose outputs count as what they were given.
    """

    def __init__(self, closed: Any, example: PyTree, passes: frozenset[str] = PASSES):
        self._passes = passes
        self.closed: Any = unwrapped(closed)
        self.parts: list[Any] = jax.tree.leaves(example)
        sizes = [math.prod(part.shape) for part in self.parts]
        real = any(jnp.issubdtype(part.dtype, jnp.inexact) for part in self.parts)
        most = (LARGEST_REAL if real else LARGEST) - SMALLEST
        # Each number of the input has a value of its own, by which it is known again.
        rng, total = np.random.default_rng(0), sum(sizes)
        marks = SMALLEST + rng.choice(most, total, replace=False) if total < most else None
        self._places: dict[int, tuple[int, int]] = {}
        self._x: list[Any] = []
        for number, part in enumerate(self.parts):
            if marks is None or not _can_be_marked(part.dtype):
                self._x.append(jnp.zeros(part.shape, part.dtype))
                continue
            piece, marks = np.split(marks, [sizes[number]])
            self._places |= {mark: (number, i) for i, mark in enumerate(piece.tolist())}
            self._x.append(jnp.asarray(piece.reshape(part.shape), part.dtype))

    def of(self, output: int) -> list[tuple[int, int] | None] | None:
        """For each entry of an output its part of the input and its number there, if it has them.

        There is no answer where the output is computed.
        """
        needed = [other == output for other in range(len(self.closed.jaxpr.outvars))]
        jaxpr, _ = partial_eval.dce_jaxpr(self.closed.jaxpr, needed, instantiate=True)
        if not self._moves(jaxpr):
            return None
        (values,) = run_operations(jaxpr, self.closed.consts, self._x, _Move(jaxpr))
        return [self._places.get(value) for value in np.ravel(values).tolist()]

    def _moves(self, jaxpr: Jaxpr) -> bool:
        """Whether nothing but whole numbers is computed: real ones are only put elsewhere."""
        return all(
            equation.primitive.name in self._passes
            or not any(jnp.issubdtype(_type(output), jnp.inexact) for output in equation.outvars)
            for equation in jaxpr.eqns
        )


def _can_be_marked(dtype: Any) -> bool:
    """Whether the type has room for the marks."""
    if jnp.issubdtype(dtype, jnp.integer):
        return True
    return jnp.issubdtype(dtype, jnp.floating) and jnp.finfo(dtype).nmant >= 23


def _type(variable: Any) -> Any:
    return variable.aval.dtype


class _Move:
    """Runs operations. Real numbers that some of these may put zeros in place of stay as they are.

    Whole ones do not: zeros in place of what is too large are a network's own guard. But numbers
    below zero do where they would count from the end of an axis: `where(i < 0, i + length, i)` is
    `i`.
    """

    def __init__(self, jaxpr: Jaxpr):
        self.made_by = {id(output): each for each in jaxpr.eqns for output in each.outvars}

    def __call__(self, equation: JaxprEqn, inputs: list[Any]) -> list[Any]:
        if self._wraps(equation):
            return [inputs[1]]
        is_real = jnp.issubdtype(_type(equation.outvars[0]), jnp.inexact)
        if equation.primitive.name == "select_n" and is_real:
            kept = kept_case(equation, self.made_by)
            if kept is not None:
                return [inputs[kept]]
        return bind(equation, inputs)

    def _wraps(self, equation: JaxprEqn) -> bool:
        if equation.primitive.name != "select_n":
            return False
        below = self.made_by.get(id(equation.invars[0]))
        return (
            below is not None
            and below.primitive.name == "lt"
            and below.invars[0] is equation.invars[1]
        )


def kept_case(equation: JaxprEqn, made_by: Mapping[int, JaxprEqn]) -> int | None:
    """Which input's numbers a `select_n` keeps some of, with zeros in place of the others."""

    def is_zero(case: Any) -> bool:
        while (by := made_by.get(id(case))) is not None and by.primitive.name in FILLS:
            case = by.invars[0]
        return isinstance(case, Literal) and not case.val

    others = [i for i, case in enumerate(equation.invars) if i and not is_zero(case)]
    return others[0] if len(others) == 1 else None
