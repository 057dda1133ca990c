"""Several targets of one kind for each example."""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix.likelihoods._base import Likelihood
from scalemix.likelihoods._wrapper import Wrapper


class Independent(Wrapper):
    """Several targets of one kind for each example, independent given the network's output.

    They share the network, and so its relevance table. What the likelihood learns, such as a noise
    level, each target has for itself. The network's outputs come target by target: for
    `Gaussian(per_input=True)` they are the mean and the noise of the first target, then those of
    the second. `log_prob` is that of all targets together; everything else has one entry for each.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood of one target. Where it learns an array, such as the noise level of
        `Gaussian(scale=...)`, that may have one start for each target.
    num_targets : int
        How many targets there are, one or more; `y` has the shape `(rows, num_targets)`.

    Examples
    --------
    >>> both = sx.likelihoods.Independent(sx.likelihoods.Gaussian(), 2)
    >>> both.num_outputs
    2
    >>> network = sx.networks.MLP(3, 2, 8, 1, key=key)
    >>> several = sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), both)
    >>> fitted = sx.fit(
    ...     several, x, np.stack([y, -y], axis=1), sx.VariationalEM(steps=20), key=key
    ... )
    >>> fitted.predict(x).mean.shape
    (40, 2)
    """

    summary: ClassVar[str] = "several targets, each with noise of its own"
    likelihood: Likelihood
    num_targets: int = eqx.field(static=True)

    def __init__(self, likelihood: Likelihood, num_targets: int):
        if not isinstance(likelihood, Likelihood) or likelihood.target_shape:
            raise ValueError(
                f"Independent takes the likelihood of one target, such as Gaussian(); got "
                f"{likelihood!r}."
            )
        if not isinstance(num_targets, int) or isinstance(num_targets, bool) or num_targets < 1:
            raise ValueError(
                f"Independent takes a whole number of targets, one or more; got {num_targets!r}."
            )

        def for_each(start: Array) -> Array:
            # A file holds arrays that are for each target, and perhaps for each member, already.
            if start.ndim and start.shape[-1] != num_targets:
                raise ValueError(
                    f"Independent with {num_targets} targets takes one start for all of them or "
                    f"one for each; got the shape {start.shape}."
                )
            return start if start.ndim else jnp.full((num_targets,), start)

        learned, fixed = eqx.partition(likelihood, likelihood.learnable())
        self.likelihood = eqx.combine(jax.tree.map(for_each, learned), fixed)
        self.num_targets = num_targets

    @property
    def num_outputs(self) -> int:
        return self.num_targets * self.likelihood.num_outputs

    @property
    def noise_outputs(self) -> tuple[int, ...]:
        each, num = self.likelihood.noise_outputs, self.likelihood.num_outputs
        return tuple(target * num + place for target in range(self.num_targets) for place in each)

    @property
    def target_shape(self) -> tuple[int, ...]:
        return (self.num_targets,)

    @property
    def mean_shape(self) -> tuple[int, ...]:
        return (self.num_targets, *self.likelihood.mean_shape)

    @property
    def title(self) -> str:
        return f"Independent({self.likelihood.title}, {self.num_targets})"

    def in_words(self) -> str:
        return f"{self.num_targets} targets, each as {self.likelihood.in_words()}"

    def _each(self, function: Callable[..., Array], output: Array, *by_target: Array) -> Array:
        """`function(likelihood, output, ...)` of each target."""
        outputs = self.one(output).reshape(self.num_targets, self.likelihood.num_outputs)
        learned, fixed = eqx.partition(self.likelihood, self.likelihood.learnable())
        return jax.vmap(lambda own, *rest: function(eqx.combine(own, fixed), *rest))(
            learned, outputs, *by_target
        )

    def log_probs(self, output: Array, y: ArrayLike) -> Array:
        return self._each(lambda one, out, at: one.log_prob(out, at), output, self.target(y))

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        return jnp.sum(self.log_probs(output, y))

    def possible(self, y: np.ndarray) -> np.ndarray:
        return self.likelihood.possible(y)

    def has_density(self, y: np.ndarray) -> np.ndarray:
        return self.likelihood.has_density(y)

    def score(self, output: Array, y: ArrayLike) -> Array:
        return self._each(lambda one, out, at: one.score(out, at), output, self.target(y))

    def leverage(self, output: Array) -> Array:
        return self._each(lambda one, out: one.leverage(out), output)

    def mean(self, output: Array) -> Array:
        return self._each(lambda one, out: one.mean(out), output)

    def variance(self, output: Array) -> Array:
        return self._each(lambda one, out: one.variance(out), output)

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        return self._each(lambda one, out, at: one.cdf(out, at), output, self.target(y))

    def sf(self, output: Array, y: ArrayLike) -> Array:
        return self._each(lambda one, out, at: one.sf(out, at), output, self.target(y))

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        keys = jax.random.split(key, self.num_targets)
        return self._each(lambda one, out, own: one.sample(out, key=own), output, keys)

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        each = [self.likelihood.constant_log_prob(column, weight) for column in np.asarray(y).T]
        known = [value for value in each if value is not None]
        return sum(known) if len(known) == len(each) else None
