"""A dense layer that reads a table, and knows which column each of its inputs was made of."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix.networks.rules import register
from scalemix.networks.rules.linear import LINEAR


class ColumnLinear(eqx.nn.Linear):
    """A dense layer whose inputs were made of the columns of a table.

    A column of words becomes an input for each category, and a column of numbers may become one for
    each of its bins. With `ARD(..., by="column")` all weights that read one column share a scale:
    the prior of random effects, under which rare categories shrink towards the column's mean, a
    category that was never seen keeps the spread of that prior, and a column that is of no use is
    switched off as a whole. With `by=("column", "part")`, parts of a column have scales of their
    own besides: each bin, and all categories together.

    Parameters
    ----------
    columns : sequence of int
        The number of the column that each input was made of, counted from 0.
    out_features : int or "scalar"
        The number of outputs; "scalar" gives one number without an axis.
    parts : sequence of int, optional
        The number of the part of a column that each input belongs to, counted from 0 through all
        columns. By default each input is a part of its own.
    on : array-like of bool, optional
        Which inputs are read. By default all are.
    use_bias : bool, default True
        Whether the layer adds a bias.
    key : PRNG key
        Where the first weights come from.

    Examples
    --------
    >>> layer = sx.networks.ColumnLinear((0, 1, 1, 1), 8, key=key)
    >>> layer(jnp.ones(4)).shape
    (8,)
    >>> prior = sx.ARD(sx.HalfCauchy(1.0), by=("column", "part"))
    >>> sx.Model(layer, prior, sx.likelihoods.Categorical(8)).scale_shapes
    {'network': {'column': (2,), 'part': (4,)}}
    """

    columns: tuple[int, ...] = eqx.field(static=True)
    parts: tuple[int, ...] = eqx.field(static=True)
    on: Array
    """Which inputs are read."""

    def __init__(
        self,
        columns: Sequence[int],
        out_features: int | Literal["scalar"],
        parts: Sequence[int] | None = None,
        on: Any = None,
        *,
        use_bias: bool = True,
        key: PRNGKeyArray,
    ):
        super().__init__(len(columns), out_features, use_bias=use_bias, key=key)
        num = len(columns)
        self.columns = _numbered("columns", columns, num)
        self.parts = _numbered("parts", range(num) if parts is None else parts, num)
        self.on = jnp.ones(num, bool) if on is None else jnp.asarray(on, bool)
        if self.on.shape != (num,):
            raise ValueError(f"on must say yes or no to {num} inputs, got {self.on.shape}.")

    def __call__(self, x: Array, *, key: PRNGKeyArray | None = None) -> Array:
        return super().__call__(jax.lax.select(self.on, x, jnp.zeros_like(x)), key=key)


def _numbered(name: str, given: Sequence[int], num: int) -> tuple[int, ...]:
    numbers = tuple(int(number) for number in given)
    if (
        not num
        or len(numbers) != num
        or sorted(set(numbers)) != list(range(max(numbers, default=-1) + 1))
    ):
        raise ValueError(
            f"{name} must hold the numbers 0, 1, ... of {name}, each at one or more of "
            f"{num} inputs; got {str(numbers)[:80]}."
        )
    return numbers


register(
    ColumnLinear,
    dataclasses.replace(
        LINEAR, columns=lambda layer: layer.columns, parts=lambda layer: layer.parts
    ),
)
