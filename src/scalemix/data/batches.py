"""Data for training, and the order in which its steps visit the rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, PRNGKeyArray

LEAST_ROWS = 64


class Data(NamedTuple):
    """Examples, and how many rows each counts as; rows of padding count as zero."""

    x: Any
    y: Any
    weight: Any


class Batch(NamedTuple):
    """The rows of one step, and what their weighted sum is divided by.

    A sum over B of N rows estimates `sum_n w_n l_n / sum_n w_n` without bias if it is divided by
    `B sum_n w_n / N`, the average weight of B rows. Dividing by the weight of the rows at hand
    would favour those that happen to share a batch with lighter ones.
    """

    x: Any
    y: Any
    weight: Any = None
    """How many rows each row counts as; `None` stands for one."""
    total: Any = None
    """That average; `None` stands for the weight of these rows, as if there were no others."""


def as_batch(batch: tuple[Any, ...], dtype: DTypeLike) -> Batch:
    """The batch with a weight for each row, in this type."""
    x, y, weight, total = Batch(*batch)
    weight = jnp.ones(len(y), dtype) if weight is None else jnp.asarray(weight, dtype)
    return Batch(x, y, weight, None if total is None else jnp.asarray(total, dtype))


def stack(
    sets: Sequence[Data], *, exact: bool = False, least: int = 0, least_sets: int = 0
) -> Data:
    """Several data sets on a leading axis, padded to one length with rows of weight zero.

    There are few such lengths, so that another fold of the same data needs no other program; unless
    it must be exactly that of the longest. It is at least `least`. There are at least `least_sets`,
    the last of which may be padding alone.
    """
    none = jax.tree.map(lambda array: array[:0], sets[0])
    sets = [*sets, *[none] * (least_sets - len(sets))]
    longest = max(least, *(len(data.y) for data in sets))
    longest = longest if exact else round_up(longest)

    def padded(arrays: Sequence[np.ndarray]) -> np.ndarray:
        widths = [[(0, longest - len(a))] + [(0, 0)] * (a.ndim - 1) for a in arrays]
        return np.stack([np.pad(a, width) for a, width in zip(arrays, widths, strict=True)])

    return jax.tree.map(lambda *arrays: padded(arrays), *sets)


def round_up(num_rows: int) -> int:
    """The next of eight lengths in each octave, and at least that of an ordinary batch."""
    unit = max(1 << max(num_rows - 1, 0).bit_length(), LEAST_ROWS) // 16
    return max(LEAST_ROWS, -(-num_rows // unit) * unit)


def visits(
    key: PRNGKeyArray, num_rows: Array, first_epoch: Array, longest: int, num_epochs: int
) -> Array:
    """The order of the rows in each of several epochs, `(num_epochs, longest)`, padding last.

    The order depends only on the key and the epoch, so that a run can be interrupted anywhere and
    continued.
    """

    def order(epoch: Array) -> Array:
        ticket = jax.random.uniform(jax.random.fold_in(key, epoch), (longest,), jnp.float32)
        return jnp.argsort(
            jnp.where(jnp.arange(longest, dtype=num_rows.dtype) < num_rows, ticket, 2.0)
        )

    return jax.vmap(order)(first_epoch + jnp.arange(num_epochs, dtype=first_epoch.dtype))


def batch_rows(
    orders: Array, start: Array, num_rows: Array, num_steps: int, batch_size: int
) -> Array:
    """The rows of several steps, `(num_steps, batch_size)`, from the endless stream of epochs.

    `start` is the position of the first row in the first of these epochs. Each epoch has every row
    once.
    """
    place = start + jnp.arange(num_steps * batch_size, dtype=start.dtype)
    return orders[place // num_rows, place % num_rows].reshape(num_steps, batch_size)
