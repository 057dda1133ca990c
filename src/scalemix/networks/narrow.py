"""Norms of which places are gone that were constants, and which count them as before.

A norm divides by the number of its places. One that is left with fewer computes the same only if it
knows what the others were. Pruning puts such norms into a network in place of Equinox's.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array


class NarrowLayerNorm(eqx.nn.LayerNorm):
    """A LayerNorm over some of its places, where all others are constants.

    With `d` places, of which `n` are constants around the mean `c` with the sum of squares `s`:

        mean     = (sum x + n c) / d
        variance = (sum (x - mean)^2 + n (mean - c)^2 + s) / d

    A `Model` of a network of your own with such norms should not learn what they know:
    `frozen=["*.centre", "*.spread"]`. Models that `prune` makes do not.

    Parameters
    ----------
    norm : eqx.nn.LayerNorm
        The norm of the places that are left, one axis of them.
    size : int, optional
        How many places there are with the constants, `d`; by default there are none.

    Examples
    --------
    >>> norm = sx.networks.NarrowLayerNorm(eqx.nn.LayerNorm(2), size=3)
    >>> x = jnp.array([1.0, 2.0])
    >>> jnp.allclose(norm(x), eqx.nn.LayerNorm(3)(jnp.array([1.0, 2.0, 0.0]))[:2])
    Array(True, dtype=bool)
    """

    present: Array
    """Which of the places that are left are none of the constants."""
    centre: Array
    """The mean of the constants."""
    spread: Array
    """The sum of the squares of the constants, less their mean."""
    size: int = eqx.field(static=True)

    def __init__(self, norm: eqx.nn.LayerNorm, size: int | None = None):
        _copy_fields(self, norm)
        self.present, self.centre = jnp.ones(_shape(norm), bool), _zeros(norm)
        self.spread, self.size = _zeros(norm), _checked_size(norm, size)

    def __call__(self, x: Array, state: Any = None, *, key: Any = None) -> Any:
        """The norm of one example, as that of an `eqx.nn.LayerNorm`."""
        _check_shape(self, x)
        original, x = x.dtype, _at_least_single(x)
        present = self.present.astype(x.dtype)
        gone, centre = self.size - _sum(present, present), self.centre.astype(x.dtype)
        mean = (_sum(present, x) + gone * centre) / self.size
        squares = _sum(present, jnp.square(x - mean)) + gone * jnp.square(mean - centre)
        variance = (squares + self.spread.astype(x.dtype)) / self.size
        out = (x - mean) * jax.lax.rsqrt(variance + self.eps)
        return _finished(self, out, original, state)


class NarrowRMSNorm(eqx.nn.RMSNorm):
    """An RMSNorm over some of its places, where all others are constants.

    With `d` places, of which some are constants with the sum of squares `s`, the mean of all
    squares is `(sum x^2 + s) / d`.

    A `Model` of a network of your own with such norms should not learn what they know:
    `frozen=["*.squares"]`. Models that `prune` makes do not.

    Parameters
    ----------
    norm : eqx.nn.RMSNorm
        The norm of the places that are left, one axis of them.
    size : int, optional
        How many places there are with the constants, `d`; by default there are none.

    Examples
    --------
    >>> norm = sx.networks.NarrowRMSNorm(eqx.nn.RMSNorm(2), size=3)
    >>> x = jnp.array([1.0, 2.0])
    >>> jnp.allclose(norm(x), eqx.nn.RMSNorm(3)(jnp.array([1.0, 2.0, 0.0]))[:2])
    Array(True, dtype=bool)
    """

    present: Array
    """Which of the places that are left are none of the constants."""
    squares: Array
    """The sum of the squares of the constants."""
    size: int = eqx.field(static=True)

    def __init__(self, norm: eqx.nn.RMSNorm, size: int | None = None):
        _copy_fields(self, norm)
        self.present, self.squares = jnp.ones(_shape(norm), bool), _zeros(norm)
        self.size = _checked_size(norm, size)

    def __call__(self, x: Array, state: Any = None, *, key: Any = None) -> Any:
        """The norm of one example, as that of an `eqx.nn.RMSNorm`."""
        _check_shape(self, x)
        original, x = x.dtype, _at_least_single(x)
        total = _sum(self.present.astype(x.dtype), jnp.square(x)) + self.squares.astype(x.dtype)
        return _finished(self, x * jax.lax.rsqrt(total / self.size + self.eps), original, state)


Norm = eqx.nn.LayerNorm | eqx.nn.RMSNorm


def _shape(norm: Norm) -> tuple[int, ...]:
    """Of its places, and of the layers that are stacked in it."""
    arrays = [array for array in (norm.weight, norm.bias) if array is not None]
    return arrays[0].shape if arrays else norm.shape


def _zeros(norm: Norm) -> Array:
    dtype = jnp.float32 if norm.weight is None else _at_least_single(norm.weight).dtype
    return jnp.zeros(_shape(norm)[:-1], dtype)


def _checked_size(norm: Norm, size: int | None) -> int:
    if len(norm.shape) != 1:
        raise ValueError(f"A narrow norm has one axis of places, and this one {norm.shape}.")
    (left,) = norm.shape
    if size is not None and size < left:
        raise ValueError(f"size counts all places, so {left} or more; got {size}.")
    return left if size is None else size


def _copy_fields(new: Any, norm: Any) -> None:
    for name in ("shape", "eps", "use_weight", "use_bias", "weight", "bias"):
        setattr(new, name, getattr(norm, name))


def _check_shape(norm: Any, x: Array) -> None:
    if x.shape != norm.shape:
        raise ValueError(
            f"A norm of the shape {norm.shape} got an input of the shape {x.shape}. For several "
            f"inputs at once, use jax.vmap(norm)."
        )


def _at_least_single(x: Array) -> Array:
    """Equinox computes its norms in single precision, if not in double."""
    with jax.numpy_dtype_promotion("standard"):
        return x.astype(jnp.result_type(x.dtype, jnp.float32))


def _sum(present: Array, values: Array) -> Array:
    # As a product, which can be followed when places are cut out.
    return jnp.dot(present, values, precision="highest")


def _finished(norm: Any, out: Array, dtype: Any, state: Any) -> Any:
    if norm.weight is not None:
        out = norm.weight.astype(out.dtype) * out
    if norm.bias is not None:
        out = out + norm.bias.astype(out.dtype)
    out = out.astype(dtype)
    return out if state is None else (out, state)
