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
from scalemix.mixtures._moments import find_inverse_square_mean


def as_count(count: ArrayLike, like: Array) -> Array:
    """A number of weights in the precision of the moments it goes with."""
    return jnp.asarray(count, like.dtype)


class ScaleMixture(eqx.Module):
    """A distribution of the noise `xi`, and with it a Gaussian scale mixture of weights.

    The base class of all families. The parameters of a family may be arrays: `jax.vmap` over an
    instance, or over its constructor, gives many members of the family at once.

    Examples
    --------
    >>> mixture = sx.Uniform(0.5, 1.5)
    >>> mixture.mean, mixture.support
    (1.0, (0.5, 1.5))
    >>> mixture.sample((3,), key=key).shape
    (3,)
    """

    @property
    @abc.abstractmethod
    def mean(self) -> Real:
        """E[xi]; infinite for heavy tails."""

    @property
    @abc.abstractmethod
    def second_moment(self) -> Real:
        """E[xi^2], the variance of a weight of scale one; infinite for heavy tails."""

    @property
    def inverse_square_mean(self) -> Real:
        """E[xi^-2], the strength of the hierarchical penalty; infinite for most families.

        A family with a closed form gives it here. Otherwise it is found by quadrature of the
        density, and is not a number where that fails. If the family has no density, and `log_prob`
        raises `NotImplementedError`, it is the mean of some thousand draws, infinite where their
        tail is too heavy for that.
        """
        return find_inverse_square_mean(self)

    @property
    def support(self) -> tuple[Real, Real]:
        """The ends of the interval that the noise lies in; an infinite end is a plain number."""
        return 0.0, math.inf

    @property
    def is_discrete(self) -> bool:
        """Whether the noise takes one of two values; its coordinates are then truth values."""
        return False

    @abc.abstractmethod
    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        """Draw noise `xi`.

        Parameters
        ----------
        shape : tuple of int, default ()
            How many independent draws, along which axes.
        key : PRNG key
            Where the randomness comes from.
        dtype : dtype, default float
            The type of the numbers; `float` is JAX's default precision.

        Returns
        -------
        Array
            Noise of this shape.

        Raises
        ------
        ValueError
            If the family is improper.

        Examples
        --------
        >>> sx.Uniform(0.5, 1.5).sample((2, 3), key=key).shape
        (2, 3)
        """

    @abc.abstractmethod
    def log_prob(self, noise: ArrayLike) -> Array:
        """Log density of the noise `xi`; for Bernoulli, log mass.

        Parameters
        ----------
        noise : array_like
            Values of `xi`.

        Returns
        -------
        Array
            One number for each value, minus infinity off the support.

        Examples
        --------
        >>> print(sx.Uniform(0.0, 2.0).log_prob(1.0).round(4))
        -0.6931
        """

    def variance_log_prob(self, variance: ArrayLike) -> Array:
        """Log density of the variance `v = xi^2`; for Bernoulli, log mass.

        Parameters
        ----------
        variance : array_like
            Values of `v`.

        Returns
        -------
        Array
            One number for each value, minus infinity off the support.

        Examples
        --------
        >>> print(sx.Exponential(rate=2.0).variance_log_prob(1.0).round(4))
        -1.3069
        """
        # p(v) = p(xi) / (2 xi) for noise that is never negative.
        positive, v = positive_part(variance)
        return inside(positive, self.log_prob(jnp.sqrt(v)) - 0.5 * jnp.log(v) - math.log(2))

    @abc.abstractmethod
    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """Log density of the weight `w = xi * z`, with `xi` integrated out.

        Parameters
        ----------
        weight : array_like
            Values of `w`.
        scale : array_like, default 1.0
            The standard deviation of `z ~ N(0, scale^2)`.

        Returns
        -------
        Array
            One number for each weight; infinite at zero where the density has a pole there.

        Examples
        --------
        >>> print(sx.Rayleigh(1.0).marginal_log_prob(jnp.array([0.0, 1.0])).round(4))
        [-0.6931 -1.6931]
        """

    def marginal_sample(
        self,
        shape: tuple[int, ...] = (),
        scale: ArrayLike = 1.0,
        *,
        key: PRNGKeyArray,
        dtype: DTypeLike = float,
    ) -> Array:
        """Draw weights `w = xi * z`, each with a `xi` of its own.

        Parameters
        ----------
        shape : tuple of int, default ()
            How many independent draws, along which axes.
        scale : array_like, default 1.0
            The standard deviation of `z ~ N(0, scale^2)`.
        key : PRNG key
            Where the randomness comes from.
        dtype : dtype, default float
            The type of the numbers.

        Returns
        -------
        Array
            Weights of this shape.

        Examples
        --------
        >>> sx.HalfCauchy(1.0).marginal_sample((5,), 0.1, key=key).shape
        (5,)
        """
        noise_key, normal_key = jax.random.split(key)
        noise = self.sample(shape, key=noise_key, dtype=dtype)
        return noise * as_array(scale) * jax.random.normal(normal_key, shape, dtype)

    def optimal_variance(self, moment: ArrayLike, count: ArrayLike) -> Array:
        """The variance shared by some weights that maximises the evidence lower bound.

        It maximises `-count/2 log v - moment/(2 v) + hyperprior_log_prob(v)`.

        Parameters
        ----------
        moment : array_like
            The sum over those weights of `E[w^2] / scale^2`.
        count : array_like
            How many weights share the variance.

        Returns
        -------
        Array
            The variance `v`, one for each moment.

        Raises
        ------
        ValueError
            If the family has no closed-form update, and so does not serve variational EM.

        Examples
        --------
        >>> print(sx.InverseGamma(shape=3.0, rate=3.0).optimal_variance(4.0, 2))
        1.0
        """
        raise ValueError(
            f"{type(self).__name__} has no closed-form variance update, so variational EM cannot "
            f"use it. Families that have one: {', '.join(_families_with_update())}."
        )

    def hyperprior_log_prob(self, variance: ArrayLike) -> Array:
        """`log p(v)` as variational EM counts it, where the scale is a point mass.

        A point estimate depends on the coordinate it is made in. That is the variance, unless a
        family says otherwise.

        Parameters
        ----------
        variance : array_like
            Values of `v = xi^2`.

        Returns
        -------
        Array
            One number for each value.

        Examples
        --------
        >>> print(sx.LogUniform().hyperprior_log_prob(1.0))
        -0.0
        """
        return self.variance_log_prob(variance)

    # Coordinates that may take any value. Positive noise is `exp(u)` and bounded noise runs along a
    # sigmoid. A family whose noise is discrete or has either sign brings coordinates of its own.

    def to_noise(self, u: Array, *, signed: bool = True) -> Array:
        """The noise at coordinates that may be any real numbers, as samplers need them.

        Parameters
        ----------
        u : Array
            Coordinates; truth values where the family `is_discrete`.
        signed : bool, default True
            Whether the sign of the noise matters. Where only `xi^2` does, noise of either sign is
            given by its magnitude.

        Returns
        -------
        Array
            Noise, one value for each coordinate.

        Examples
        --------
        >>> print(sx.HalfCauchy(1.0).to_noise(jnp.zeros(2)))
        [1. 1.]
        """
        low, high = self.support
        if _is_infinite(high):
            return jnp.exp(u)
        # Weights divided by noise of zero would be infinite.
        return low + (high - low) * jnp.maximum(jax.nn.sigmoid(u), jnp.finfo(u.dtype).eps ** 4)

    def to_coordinate(self, noise: Array, *, signed: bool = True) -> Array:
        """The coordinates of noise: the inverse of `to_noise`.

        Parameters
        ----------
        noise : Array
            Values of `xi`.
        signed : bool, default True
            As for `to_noise`.

        Returns
        -------
        Array
            Coordinates, one for each value.

        Examples
        --------
        >>> print(sx.HalfCauchy(1.0).to_coordinate(jnp.ones(2)))
        [0. 0.]
        """
        low, high = self.support
        tiny, eps = jnp.finfo(noise.dtype).tiny, jnp.finfo(noise.dtype).eps
        if _is_infinite(high):
            return jnp.log(jnp.maximum(jnp.abs(noise), tiny))
        share = jnp.clip((noise - low) / (high - low), tiny, 1 - eps)
        return jnp.log(share) - jnp.log1p(-share)

    def coordinate_log_prob(self, u: Array, *, signed: bool = True) -> Array:
        """Log density of the coordinates, `log p(xi) + log |dxi / du|`; of bits, their log mass.

        Parameters
        ----------
        u : Array
            Coordinates, as for `to_noise`.
        signed : bool, default True
            As for `to_noise`.

        Returns
        -------
        Array
            One number for each coordinate.

        Examples
        --------
        >>> print(sx.Uniform(0.0, 1.0).coordinate_log_prob(jnp.zeros(1)).round(4))
        [-1.3863]
        """
        if _is_infinite(self.support[1]):
            return self.log_prob(self.to_noise(u, signed=signed)) + u
        return self.logit_log_prob(u)

    def logit_log_prob(self, u: ArrayLike) -> Array:
        """Log density of `u` where the noise is `low + (high - low) sigmoid(u)`.

        For families with two ends. One with a pole at an end overrides this: the noise, once
        rounded, no longer tells how close to the end it is.
        """
        u, (low, high) = as_array(u), self.support
        slope = jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u) + jnp.log(high - low)
        return self.log_prob(low + (high - low) * jax.nn.sigmoid(u)) + slope

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
