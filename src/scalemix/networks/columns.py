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
    the prior of random effects, under which rare categories shrink towards the column's mean and a
    column that is of no use is switched off as a whole.

    Parameters
    ----------
    columns : sequence of int
        The number of the column that each input was made of, counted from 0.
    out_features : int or "scalar"
        The number of outputs; "scalar" gives one number without an axis.
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
    >>> prior = sx.ARD(sx.HalfCauchy(1.0), by="column")
    >>> sx.Model(layer, prior, sx.likelihoods.Categorical(8)).scale_shapes
    {'network': {'column': (2,)}}
    """

    columns: tuple[int, ...] = eqx.field(static=True)
    on: Array
    """Which inputs are read."""

    def __init__(
        self,
        columns: Sequence[int],
        out_features: int | Literal["scalar"],
        on: Any = None,
        *,
        use_bias: bool = True,
        key: PRNGKeyArray,
    ):
        super().__init__(len(columns), out_features, use_bias=use_bias, key=key)
        self.columns = tuple(int(column) for column in columns)
        if sorted(set(self.columns)) != list(range(max(self.columns, default=-1) + 1)):
            raise ValueError(
                f"columns must be the numbers 0, 1, ... of the columns, each with one input or "
                f"more; got {self.columns}."
            )
        self.on = jnp.ones(len(columns), bool) if on is None else jnp.asarray(on, bool)
        if self.on.shape != (len(columns),):
            raise ValueError(
                f"on must say yes or no to {len(columns)} inputs, got {self.on.shape}."
            )

    def __call__(self, x: Array, *, key: PRNGKeyArray | None = None) -> Array:
        return super().__call__(jax.lax.select(self.on, x, jnp.zeros_like(x)), key=key)


register(ColumnLinear, dataclasses.replace(LINEAR, columns=lambda layer: layer.columns))
