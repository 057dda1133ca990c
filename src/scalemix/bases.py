"""The first level of a prior: the distribution that the scales multiply.

A weight is `w = xi * s0 * z`, where `z` has the density `p(z)` of a *base*, in its standard form.
`Normal` is that of the paper, and the default. Its equation 4 does not need it: any density that is
symmetric about zero has the same scales, the same noise and both parametrizations.

    expanded:      `log p(z)`                               where `w = xi * s0 * z`
    hierarchical:  `log p(w / (s0 xi)) - log(s0 xi)`

A base gives its *energy* `-log p(z)`, up to a constant, so that the energy is zero at zero.

Variational EM needs `E_q[energy]` under a Gaussian `q`, and the variance `v` that maximises the
bound. All bases here are mixtures of Gaussians themselves, so that their expected energy is concave
in `1 / v`. A line in `1 / v` then touches it from above: the energy of a Gaussian with another
second moment. The closed-form update of the Gaussian with that moment never lowers the bound.
"""

import abc
import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, DTypeLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix._special import LOG_2PI, log_gamma_half_step

__all__ = ["Base", "Laplace", "Normal", "StudentT"]


class Base(eqx.Module):
    """A density that is symmetric about zero, in its standard form: what the scales multiply.

    The base class of `Normal`, `Laplace` and `StudentT`.

    Examples
    --------
    >>> base = sx.bases.Laplace()
    >>> base.variance
    2.0
    >>> print(base.log_prob(1.0).round(4))
    -1.6931
    """

    quadratic: ClassVar[bool] = False
    """Whether the energy is `z^2 / 2`, so that the Gaussian's closed forms hold as they are."""

    @property
    @abc.abstractmethod
    def variance(self) -> Real:
        """The variance of `z`; infinite for the heaviest tails."""

    @property
    @abc.abstractmethod
    def log_normalizer(self) -> Real:
        """`-log p(0)`."""

    @abc.abstractmethod
    def energy(self, z: ArrayLike) -> Array:
        """`log p(0) - log p(z)`: what the prior takes off the log-likelihood for a weight.

        Parameters
        ----------
        z : array_like
            Weights in units of their scale.

        Returns
        -------
        Array
            One number of zero or more for each weight.

        Examples
        --------
        >>> print(sx.bases.Normal().energy(2.0))
        2.0
        """

    @abc.abstractmethod
    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        """Draw `z`.

        Parameters
        ----------
        shape : tuple of int, default ()
            How many independent draws, along which axes.
        key : PRNG key
            Where the randomness comes from.
        dtype : dtype, default float
            The type of the numbers.

        Returns
        -------
        Array
            Draws of this shape.

        Examples
        --------
        >>> sx.bases.StudentT(4.0).sample((2, 3), key=key).shape
        (2, 3)
        """

    def log_prob(self, z: ArrayLike) -> Array:
        """Log density of `z`.

        Parameters
        ----------
        z : array_like
            Weights in units of their scale.

        Returns
        -------
        Array
            One number for each weight.

        Examples
        --------
        >>> print(sx.bases.Laplace().log_prob(0.0).round(4))
        -0.6931
        """
        return -(self.energy(z) + self.log_normalizer)

    def expected_energy(self, mean: Array, deviation: Array) -> Array:
        """`E[energy]` of weights that are `N(mean, deviation^2)`, or what is never less than it.

        Parameters
        ----------
        mean : Array
            The means of the weights, in units of their scale.
        deviation : Array
            Their standard deviations, in the same units.

        Returns
        -------
        Array
            One number for each weight.

        Raises
        ------
        ValueError
            If there is no closed form, so that variational EM cannot use the base.

        Examples
        --------
        >>> print(sx.bases.Normal().expected_energy(jnp.ones(1), jnp.ones(1)))
        [1.]
        """
        raise ValueError(_no_closed_form(self))

    def moment(self, mean: Array, deviation: Array, scale: Array) -> Array:
        """What variational EM takes for `E[w^2]` in a scale update.

        It is the second moment whose Gaussian energy, as a function of `1 / scale^2`, touches
        `expected_energy` from above at this scale.

        Parameters
        ----------
        mean : Array
            The means of the weights.
        deviation : Array
            Their standard deviations.
        scale : Array
            The scale of each weight as it is now.

        Returns
        -------
        Array
            One number for each weight.

        Raises
        ------
        ValueError
            If there is no closed form, so that variational EM cannot use the base.

        Examples
        --------
        >>> three = jnp.full(1, 3.0)
        >>> print(sx.bases.Normal().moment(three, jnp.ones(1), scale=three))
        [10.]
        """
        raise ValueError(_no_closed_form(self))

    def __repr__(self) -> str:
        values = (f"{k}={_show(v)}" for k, v in vars(self).items())
        return f"{type(self).__name__}({', '.join(values)})"


class Normal(Base):
    """The standard normal density: that of the paper, and the default.

    Examples
    --------
    >>> sx.ARD(sx.HalfCauchy(1.0)).base
    Normal()
    """

    quadratic: ClassVar[bool] = True

    @property
    def variance(self) -> Real:
        return 1.0

    @property
    def log_normalizer(self) -> Real:
        return 0.5 * LOG_2PI

    def energy(self, z: ArrayLike) -> Array:
        return 0.5 * as_array(z) ** 2

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        return jax.random.normal(key, shape, dtype)

    def expected_energy(self, mean: Array, deviation: Array) -> Array:
        return 0.5 * (mean**2 + deviation**2)

    def moment(self, mean: Array, deviation: Array, scale: Array) -> Array:
        return mean**2 + deviation**2


class Laplace(Base):
    """`exp(-|z|) / 2`, of variance two: the energy is `|z|`, as in the lasso.

    Under one scale for a group of weights, the scale switches the group and the base shrinks the
    weights within it. Variational EM has its expected energy in closed form, the mean of a folded
    normal.

    Examples
    --------
    >>> prior = sx.ARD(sx.HalfCauchy(1.0), base=sx.bases.Laplace())
    >>> sx.Model(net, prior, sx.likelihoods.Gaussian())
    Model(MLP, ARD with a Laplace base on 3 sites, Gaussian)
    """

    @property
    def variance(self) -> Real:
        return 2.0

    @property
    def log_normalizer(self) -> Real:
        return math.log(2)

    def energy(self, z: ArrayLike) -> Array:
        return jnp.abs(as_array(z))

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        return jax.random.laplace(key, shape, dtype)

    def expected_energy(self, mean: Array, deviation: Array) -> Array:
        """`E|z|`, the mean of a folded normal."""
        ratio = mean / deviation
        bell = math.sqrt(2 / math.pi) * jnp.exp(-0.5 * ratio**2)
        return deviation * bell + mean * jax.lax.erf(math.sqrt(0.5) * ratio)

    def moment(self, mean: Array, deviation: Array, scale: Array) -> Array:
        # -E|w| / sqrt(v) >= -(E|w| sqrt(v0) / v + E|w| / sqrt(v0)) / 2.
        return scale * self.expected_energy(mean, deviation)


class StudentT(Base):
    """Student's t with `df` degrees of freedom: a few weights of a group may be far larger.

    It is a normal density with an inverse gamma variance for each weight, under the scales of the
    structure. Variational EM has no closed form of its expected energy, and uses
    `energy(sqrt(E[z^2]))`, which is larger (Jensen): its bound is a lower bound of the evidence
    still, and the same that a factorised posterior of the variance of each weight would give.

    Parameters
    ----------
    df : float
        The degrees of freedom, positive. With two or less there is no variance, and `relevance`
        and `prune`, which compare variances, refuse the prior.

    Examples
    --------
    >>> sx.bases.StudentT(4.0).variance
    2.0
    """

    df: Real = eqx.field(converter=as_parameter)

    def __check_init__(self) -> None:
        require(self.df > 0, f"StudentT: df must be positive, got {self.df}.")

    @property
    def variance(self) -> Real:
        if isinstance(self.df, float):
            return self.df / (self.df - 2) if self.df > 2 else math.inf
        above = self.df > 2
        return jnp.where(above, self.df / jnp.where(above, self.df - 2, 1.0), jnp.inf)

    @property
    def log_normalizer(self) -> Real:
        df = as_array(self.df)
        return 0.5 * jnp.log(math.pi * df) - log_gamma_half_step(0.5 * df)

    def energy(self, z: ArrayLike) -> Array:
        return self._energy_of_square(as_array(z) ** 2)

    def _energy_of_square(self, square: Array) -> Array:
        return 0.5 * (self.df + 1) * jnp.log1p(square / self.df)

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        return jax.random.t(key, jnp.asarray(self.df, dtype), shape, dtype)

    def expected_energy(self, mean: Array, deviation: Array) -> Array:
        """`energy(sqrt(E[z^2]))`, never less than `E[energy(z)]`."""
        return self._energy_of_square(mean**2 + deviation**2)

    def moment(self, mean: Array, deviation: Array, scale: Array) -> Array:
        square = mean**2 + deviation**2
        return (self.df + 1) * square / (self.df + square / scale**2)


def _show(value: Real) -> str:
    return f"{value:g}" if isinstance(value, float) else eqx.tree_pformat(value)


def _no_closed_form(base: Base) -> str:
    return (
        f"the base {base!r} has no expected energy in closed form, so variational EM cannot use "
        f"it. Use Normal, Laplace or StudentT of scalemix.bases, or fit by NoiseTraining or MCMC."
    )
