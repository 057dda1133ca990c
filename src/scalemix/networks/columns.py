"""Layers that read a table, and know which column each of their inputs was made of."""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix.networks.rules import LayerRule, register
from scalemix.networks.rules.linear import LINEAR


class ColumnLinear(eqx.nn.Linear):
    """A dense layer whose inputs were made of the columns of a table.

    A column of words becomes an input for each category, and a column of numbers may become one for
    each of its bins. With `ARD(..., by="column")` all weights that read one column share a scale:
    the prior of random effects, under which rare categories shrink towards the column's mean, a
    category that was never seen keeps the spread of that prior, and a column that is of no use is
    switched off as a whole. With `by=("column", "part")`, parts of a column have scales of their
    own besides: each bin; all categories together; all numbers that repeat.

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

    @property
    def reads(self) -> Array:
        """For each input, whether it is read."""
        return self.on


class LevelTable(eqx.nn.Embedding):
    """The weights of the levels of one column of words, of which an input says the position.

    A dense layer that has an input of zeros and ones for each level gives the same: the weights of
    the level that is there. Where there are thousands of them, nearly all of its work is
    multiplying by zero. As there, the weights of all levels share the scale of the column
    (`by="column"`, `by="part"`), and a row is a level.

    Parameters
    ----------
    num_levels : int
        How many levels there are.
    out_features : int
        The number of outputs.
    key : PRNG key
        Where the first weights come from.

    Examples
    --------
    >>> table = sx.networks.LevelTable(5000, 8, key=key)
    >>> table(jnp.float32(4999.0)).shape
    (8,)
    >>> prior = sx.ARD(sx.HalfCauchy(1.0), by="column")
    >>> example = jnp.float32(0.0)
    >>> sx.Model(table, prior, sx.likelihoods.Categorical(8), example=example).scale_shapes
    {'network': {'column': (1,)}}
    """

    def __init__(self, num_levels: int, out_features: int, *, key: PRNGKeyArray):
        _check_count("num_levels", num_levels, "levels of the column")
        _check_count("out_features", out_features, "outputs of the layer")
        # As the weights of a dense layer with an input for each level start.
        most = 1 / math.sqrt(num_levels)
        weight = jax.random.uniform(key, (num_levels, out_features), minval=-most, maxval=most)
        super().__init__(weight=weight)

    def __call__(self, x: ArrayLike, *, key: PRNGKeyArray | None = None) -> Array:
        dtype = jnp.result_type(x)
        if jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 4:
            raise ValueError(
                f"x is the position of one of {self.num_embeddings} levels, and real numbers in "
                f"{dtype} do not tell positions apart. Let the network compute in float32, or "
                f"give it positions as whole numbers."
            )
        level = jax.lax.convert_element_type(x, jnp.int32)
        return jax.lax.dynamic_index_in_dim(
            self.weight, level, keepdims=False, allow_negative_indices=False
        )


class ColumnReader(eqx.Module):
    """A layer that reads a table of which some columns are positions of levels.

    It is a `ColumnLinear` of all other inputs, plus the entry of a `LevelTable` for each of these
    columns, plus a bias.

    Parameters
    ----------
    columns, parts : sequence of int
        As in `ColumnLinear`, for all inputs. A position has a column and a part to itself.
    levels : sequence of int
        For each input how many levels it may be the position of, or 0 if it is a number.
    out_features : int
        The number of outputs.
    key : PRNG key
        Where the first weights come from.

    Examples
    --------
    >>> layer = sx.networks.ColumnReader((0, 1, 2), (0, 1, 2), (0, 5000, 0), 8, key=key)
    >>> layer(jnp.array([0.3, 4999.0, -1.2])).shape
    (8,)
    >>> [site.name for site in sx.networks.find_sites([layer])]
    ['0.dense', '0.tables.0']
    """

    dense: ColumnLinear | None
    tables: tuple[LevelTable, ...]
    bias: Array
    levels: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        columns: Sequence[int],
        parts: Sequence[int],
        levels: Sequence[int],
        out_features: int | Literal["scalar"],
        *,
        key: PRNGKeyArray,
    ):
        if isinstance(out_features, str):
            raise ValueError("Levels are looked up by layers with a number of outputs: give 1.")
        _check_count("out_features", out_features, "outputs of the layer")
        columns, parts = (
            _numbered(name, of, len(levels))
            for name, of in (("columns", columns), ("parts", parts))
        )
        wrong = [place for place, num in enumerate(levels) if not _is_whole(num) or num < 0]
        if wrong:
            raise ValueError(
                f"levels must be whole numbers from 0, got {levels[wrong[0]]!r} for input "
                f"{wrong[0]}. Give the number of levels that it is the position of, or 0 if it is "
                f"a number."
            )
        self.levels = tuple(int(num) for num in levels)
        for name, of in (("column", columns), ("part", parts)):
            for place in self.table_places:
                _refuse_shared(name, of, place)
        dense_key, *keys = jax.random.split(key, 1 + len(self.table_places))
        places = self.dense_places
        self.dense = None
        if places:
            of_dense = (renumbered([of[place] for place in places]) for of in (columns, parts))
            of_columns, of_parts = of_dense
            self.dense = ColumnLinear(
                of_columns, out_features, of_parts, use_bias=False, key=dense_key
            )
        self.tables = tuple(
            LevelTable(self.levels[place], out_features, key=each)
            for place, each in zip(self.table_places, keys, strict=True)
        )
        self.bias = jnp.zeros(out_features)

    @property
    def dense_places(self) -> list[int]:
        """Which inputs are numbers."""
        return [place for place, num in enumerate(self.levels) if not num]

    @property
    def table_places(self) -> list[int]:
        """Which inputs are positions of levels."""
        return [place for place, num in enumerate(self.levels) if num]

    @property
    def on(self) -> Array | None:
        """Which of the numbers are read, where there are any."""
        return None if self.dense is None else self.dense.on

    @property
    def reads(self) -> Array:
        """For each input, whether it is read."""
        reads = jnp.ones(len(self.levels), bool)
        return reads if self.on is None else reads.at[jnp.array(self.dense_places)].set(self.on)

    def __call__(self, x: Array, *, key: PRNGKeyArray | None = None) -> Array:
        if x.shape != (len(self.levels),):
            raise ValueError(f"The layer reads {len(self.levels)} inputs, got {x.shape}.")
        output = self.bias
        if self.dense is not None:
            output = output + self.dense(_taken(x, self.dense_places))
        for place, table in zip(self.table_places, self.tables, strict=True):
            output = output + table(jax.lax.squeeze(_taken(x, [place]), [0]))
        return output


def _taken(x: Array, places: list[int]) -> Array:
    """These numbers of a vector, run by run: what is made of it can be told from each of them."""
    runs = [
        [place for _, place in run]
        for _, run in itertools.groupby(enumerate(places), lambda pair: pair[1] - pair[0])
    ]
    parts = [jax.lax.slice(x, [run[0]], [run[-1] + 1]) for run in runs]
    return parts[0] if len(parts) == 1 else jax.lax.concatenate(parts, 0)


def renumbered(numbers: Sequence[int]) -> tuple[int, ...]:
    """The same numbers without gaps between them."""
    place = {number: i for i, number in enumerate(sorted(set(numbers)))}
    return tuple(place[number] for number in numbers)


def _is_whole(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _check_count(name: str, number: Any, of: str) -> None:
    if not _is_whole(number) or number < 1:
        raise ValueError(
            f"{name} must be a whole number from 1, got {number!r}. Give the number of {of}."
        )


def _refuse_shared(name: str, of: tuple[int, ...], place: int) -> None:
    """Raise `ValueError` if a position is not all that there is of its column, or of its part."""
    others = [other for other, number in enumerate(of) if number == of[place] and other != place]
    if others:
        raise ValueError(
            f"Input {place} is the position of a level, and shares {name} {of[place]} with input "
            f"{others[0]}. Weights that are looked up have scales of their own: give it a {name} "
            f"number that no other input has."
        )


def _numbered(name: str, given: Sequence[int], num: int) -> tuple[int, ...]:
    whole = all(map(_is_whole, given))
    numbers = tuple(int(number) for number in given) if whole else ()
    if (
        not num
        or len(numbers) != num
        or sorted(set(numbers)) != list(range(max(numbers, default=-1) + 1))
    ):
        raise ValueError(
            f"{name} must hold the numbers 0, 1, ... of {name}, each at one or more of "
            f"{num} inputs; got {str(tuple(given))[:80]}."
        )
    return numbers


register(
    ColumnLinear,
    dataclasses.replace(
        LINEAR, columns=lambda layer: layer.columns, parts=lambda layer: layer.parts
    ),
)


def _one_column(table: LevelTable) -> tuple[int, ...]:
    return (0,) * table.num_embeddings


register(
    LevelTable,
    LayerRule(row_axis=0, output_axis=1, token_axis=0, columns=_one_column, parts=_one_column),
)
