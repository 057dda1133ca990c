"""What every scale mixture gives: one object, three views.

A weight is `w = xi * z` with `z ~ N(0, scale^2)` and an independent `xi ~ p(xi)`. The family
`p(xi)` can be read as *noise* on a unit (dropout), as a prior on the *variance* `v = xi^2` of a
Gaussian weight, or, with `xi` integrated out, as the *marginal* prior of the weight.
"""

import abc
import dataclasses
import inspect
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, DTypeLike, PRNGKeyArray

from scalemix._parameters import Real, as_array
from scalemix._special import inside, positive_part


def as_count(count: ArrayLike, like: Array) -> Array:
    """A number of weights in the precision of the moments it goes with."""
    return jnp.asarray(count, like.dtype)


class ScaleMixture(eqx.Module):
    """A distribution of the noise `xi`, and with it a Gaussian scale mixture of weights.

    Parameters may be arrays: `jax.vmap` over an instance, or over its constructor, gives many
    members of the family at once.
    """

    @property
    @abc.abstractmethod
    def mean(self) -> Real:
        """E[xi]."""

    @property
    @abc.abstractmethod
    def second_moment(self) -> Real:
        """E[xi^2]."""

    @property
    @abc.abstractmethod
    def inverse_square_mean(self) -> Real:
        """E[xi^-2]; infinite for most families."""

    @property
    def support(self) -> tuple[Real, Real]:
        """The ends of the interval that the noise lies in; an infinite end is a plain number."""
        return 0.0, math.inf

    @abc.abstractmethod
    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        """Noise `xi` of the given shape."""

    @abc.abstractmethod
    def log_prob(self, noise: ArrayLike) -> Array:
        """Log density (for Bernoulli: log mass) of the noise `xi`."""

    # Coordinates that may take any value. Positive noise is `exp(u)` and bounded noise runs along a
    # sigmoid. A family whose noise is discrete or has either sign brings coordinates of its own.

    @property
    def is_discrete(self) -> bool:
        """Whether the noise takes one of two values; its coordinates are then truth values."""
        return False

    def to_noise(self, u: Array, *, signed: bool = True) -> Array:
        """The noise at coordinates `u`, which may be any real numbers.

        With `signed=False` only `xi^2` matters, and noise of either sign is given by its magnitude.
        """
        low, high = self.support
        if _is_infinite(high):
            return jnp.exp(u)
        # Weights divided by noise of zero would be infinite.
        return low + (high - low) * jnp.maximum(jax.nn.sigmoid(u), jnp.finfo(u.dtype).eps ** 4)

    def to_coordinate(self, noise: Array, *, signed: bool = True) -> Array:
        """The coordinates of this noise: the inverse of `to_noise`."""
        low, high = self.support
        tiny, eps = jnp.finfo(noise.dtype).tiny, jnp.finfo(noise.dtype).eps
        if _is_infinite(high):
            return jnp.log(jnp.maximum(jnp.abs(noise), tiny))
        share = jnp.clip((noise - low) / (high - low), tiny, 1 - eps)
        return jnp.log(share) - jnp.log1p(-share)

    def coordinate_log_prob(self, u: Array, *, signed: bool = True) -> Array:
        """Log density of the coordinates, `log p(xi) + log |dxi / du|`; of bits, the log mass."""
        if _is_infinite(self.support[1]):
            return self.log_prob(self.to_noise(u, signed=signed)) + u
        return self.logit_log_prob(u)

    def logit_log_prob(self, u: ArrayLike) -> Array:
        """Log density of `u` where the noise is `low + (high - low) sigmoid(u)`.

        For families that have two ends. One with a pole at an end overrides this: the noise, once
        rounded, no longer tells how close to the end it is.
        """
        u, (low, high) = as_array(u), self.support
        slope = jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u) + jnp.log(high - low)
        return self.log_prob(low + (high - low) * jax.nn.sigmoid(u)) + slope

    def variance_log_prob(self, variance: ArrayLike) -> Array:
        """Log density (for Bernoulli: log mass) of the variance `v = xi^2`."""
        # p(v) = p(xi) / (2 xi) for noise that is never negative.
        positive, v = positive_part(variance)
        return inside(positive, self.log_prob(jnp.sqrt(v)) - 0.5 * jnp.log(v) - math.log(2))

    @abc.abstractmethod
    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """Log density of the weight `w = xi * z`, `z ~ N(0, scale^2)`, with `xi` integrated out."""

    def marginal_sample(
        self,
        shape: tuple[int, ...] = (),
        scale: ArrayLike = 1.0,
        *,
        key: PRNGKeyArray,
        dtype: DTypeLike = float,
    ) -> Array:
        """Weights `w = xi * z`, each with a scale of its own."""
        noise_key, normal_key = jax.random.split(key)
        noise = self.sample(shape, key=noise_key, dtype=dtype)
        return noise * as_array(scale) * jax.random.normal(normal_key, shape, dtype)

    def optimal_variance(self, moment: ArrayLike, count: ArrayLike) -> Array:
        """The variance `v` shared by `count` weights that maximises the evidence lower bound.

        `moment` is the sum over those weights of `E[w^2] / scale^2`. The result maximises
        `-count/2 log v - moment/(2 v) + hyperprior_log_prob(v)`.
        """
        raise ValueError(
            f"{type(self).__name__} has no closed-form variance update, so variational EM cannot "
            f"use it. Families that have one: {', '.join(_families_with_update())}."
        )

    def hyperprior_log_prob(self, variance: ArrayLike) -> Array:
        """`log p(v)` as variational EM counts it, where the scale is a point mass.

        A point estimate depends on the coordinate it is made in. It is the variance, unless a
        family says otherwise.
        """
        return self.variance_log_prob(variance)

    def __repr__(self) -> str:
        values = ((f, getattr(self, f.name)) for f in dataclasses.fields(self))
        shown = [f"{f.name}={_show(v)}" for f, v in values if f.default is not v]
        return f"{type(self).__name__}({', '.join(shown)})"


def _is_infinite(end: Real) -> bool:
    return isinstance(end, float) and math.isinf(end)


def _show(value) -> str:
    return f"{value:g}" if isinstance(value, float) else eqx.tree_pformat(value)


def _families_with_update() -> list[str]:
    names, queue = [], [ScaleMixture]
    while queue:
        family = queue.pop()
        queue.extend(family.__subclasses__())
        updates = family.optimal_variance is not ScaleMixture.optimal_variance
        if updates and not inspect.isabstract(family) and not family.__name__.startswith("_"):
            names.append(family.__name__)
    return sorted(names)
