"""What every likelihood gives."""

import abc
import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray


class Likelihood(eqx.Module):
    """The distribution of one target given the network's output for one example.

    Methods take one output and one target; `jax.vmap` over both for many. An output may have the
    shape `()` where one number is needed. A class of one's own gives `num_outputs`, `log_prob`,
    `mean`, `variance`, `cdf` and `sample`; and `target_shape` if a target is more than one number.

    Examples
    --------
    >>> likelihood = sx.likelihoods.Gaussian(scale=1.0)
    >>> likelihood.num_outputs
    1
    >>> outputs, targets = jnp.zeros(3), jnp.array([0.0, 1.0, 2.0])
    >>> jax.vmap(likelihood.log_prob)(outputs, targets).shape
    (3,)
    """

    summary: ClassVar[str] = ""
    """What the target is modelled as, for a report."""
    learned: ClassVar[tuple[str, ...]] = ()
    """Fields that training adjusts together with the network."""
    discrete: ClassVar[bool] = False
    """Whether targets are whole numbers."""
    continuous_units: ClassVar[bool] = False
    """Whether targets have a unit, and may be rescaled: counts, shares and classes may not."""
    support: ClassVar[tuple[float, float]] = (-math.inf, math.inf)
    """What targets lie between. Those with a unit are shifted, too, unless it ends at zero."""
    ordered: ClassVar[bool] = True
    """Whether targets have an order and distances: classes have none."""

    @property
    @abc.abstractmethod
    def num_outputs(self) -> int:
        """How many outputs the network must have."""

    @property
    def noise_outputs(self) -> tuple[int, ...]:
        """The places of the outputs that decide on a noise level, which rises with each of them."""
        return ()

    @classmethod
    def learned_shape(cls, static: dict[str, int]) -> tuple[int, ...]:
        """The shape of the fields in `learned` for one target, given the fields that are fixed."""
        return ()

    @property
    def target_shape(self) -> tuple[int, ...]:
        """The shape of one target: that of a number, unless there are several for each example."""
        return ()

    @property
    def mean_shape(self) -> tuple[int, ...]:
        """The shape of `mean`: that of the target, or for classes one number for each of them."""
        return self.target_shape

    @property
    def title(self) -> str:
        """The name of the likelihood in a line of text."""
        return type(self).__name__

    @property
    def innermost(self) -> "Likelihood":
        """The likelihood of one number that this one is made of: itself, unless it wraps one."""
        return self

    def in_words(self) -> str:
        """What the target is modelled as, for a report; the class where nothing is said."""
        return self.summary or type(self).__name__

    def learnable(self) -> "Likelihood":
        """Which leaves a fit adjusts: True at the fields in `learned`, and False elsewhere."""
        nothing = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(
            lambda part: [getattr(part, name) for name in self.learned],
            nothing,
            [True] * len(self.learned),
        )

    @abc.abstractmethod
    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        """Log density, or log mass, of the target."""

    @abc.abstractmethod
    def mean(self, output: Array) -> Array:
        """The target's mean; for classes, their probabilities."""

    @abc.abstractmethod
    def variance(self, output: Array) -> Array:
        """The target's variance; for classes, that of each indicator."""

    @abc.abstractmethod
    def cdf(self, output: Array, y: ArrayLike) -> Array:
        """The probability of a target at or below y."""

    def sf(self, output: Array, y: ArrayLike) -> Array:
        """The probability of a target above y, to full precision where it is small.

        Single precision rounds `1 - cdf` there to zero or to a multiple of 6e-8. A likelihood with
        a better way overrides this.
        """
        return 1 - self.cdf(output, y)

    def log_sf(self, output: Array, y: ArrayLike) -> Array:
        """The logarithm of `sf`, finite where `sf` itself is less than the least number.

        Only likelihoods that `RightCensored` may wrap have it.
        """
        raise ValueError(f"{self.title} has no logarithm of its survival function.")

    def possible(self, y: np.ndarray) -> np.ndarray:
        """Whether each of these targets lies inside the support."""
        return (y > self.support[0]) & (y < self.support[1])

    def has_density(self, y: np.ndarray) -> np.ndarray:
        """Whether the `log_prob` of each of these targets is a log density, which has a unit."""
        return np.ones(np.shape(y), bool)

    @abc.abstractmethod
    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        """A target."""

    def log_probs(self, output: Array, y: ArrayLike) -> Array:
        """The terms that `log_prob` is the sum of: one, or one for each of several targets."""
        return self.log_prob(output, y)

    def score(self, output: Array, y: ArrayLike) -> Array:
        """Where in its distribution a target lies, in (0, 1), to calibrate intervals by.

        It is the cdf of targets on a continuous scale, and not a number for others. It has the
        shape of `log_probs`.
        """
        if self.discrete or not self.ordered:
            return jnp.full_like(self.log_probs(output, y), jnp.nan)
        return self.cdf(output, y)

    def leverage(self, output: Array) -> Array:
        """What makes the pull of a target on the network's mean the same whatever its noise.

        It is the square of the noise scale where the network decides on it, and one elsewhere. It
        has the shape of `log_probs`.
        """
        return jnp.ones((), output.dtype)

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        """The mean log density of these targets under the best output that all rows share.

        A fit has to beat it to be of any use. `None` where it is not known.
        """
        return None

    def one(self, output: Array) -> Array:
        """The output of one example as a vector; `ValueError` for a batch of them."""
        if output.size != self.num_outputs or output.ndim > 1:
            raise ValueError(
                f"{self.title} takes the output of one example, {self.num_outputs} "
                f"number{'s' * (self.num_outputs > 1)}, got the shape {output.shape}. "
                f"For a batch use jax.vmap(likelihood.log_prob)(outputs, y)."
            )
        return output.reshape(self.num_outputs)

    def target(self, y: ArrayLike) -> Array:
        """The target of one example; `ValueError` for a batch of them or a one-hot code."""
        if jnp.shape(y) != self.target_shape:
            what = "a number" if self.target_shape == () else f"of the shape {self.target_shape}"
            raise ValueError(
                f"{self.title} takes one target, {what}, got the shape {jnp.shape(y)}. "
                f"For a batch use jax.vmap(likelihood.log_prob)(outputs, y)."
            )
        return jnp.asarray(y)

    def __repr__(self) -> str:
        return eqx.tree_pformat(self, short_arrays=False)


def entropy(shares: np.ndarray) -> float:
    """`-sum p log p` of the shares of some classes, in nats."""
    present = shares[shares > 0]
    return float(-np.sum(present * np.log(present)))
