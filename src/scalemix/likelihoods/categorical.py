"""Several classes, numbered from zero."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix.likelihoods._base import Likelihood, entropy


class Categorical(Likelihood):
    """Several classes, numbered from zero: `y ~ Categorical(softmax(output))`.

    Parameters
    ----------
    num_classes : int
        How many classes there are, two or more; the network has as many outputs.

    Examples
    --------
    >>> likelihood = sx.likelihoods.Categorical(4)
    >>> likelihood.num_outputs
    4
    >>> likelihood.mean(jnp.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    summary: ClassVar[str] = "a probability for each class"
    discrete = True
    ordered = False
    num_classes: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not isinstance(self.num_classes, int) or self.num_classes < 2:
            raise ValueError(
                f"Categorical takes a whole number of classes, two or more; "
                f"got {self.num_classes!r}."
            )

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    @property
    def mean_shape(self) -> tuple[int, ...]:
        return (self.num_classes,)

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        # A class that does not exist has no mass; indexing alone would give a neighbour's.
        y = self.target(y)
        hit = jnp.arange(self.num_classes, dtype=y.dtype) == y
        return jax.nn.logsumexp(jnp.where(hit, jax.nn.log_softmax(self.one(output)), -jnp.inf))

    def mean(self, output: Array) -> Array:
        return jax.nn.softmax(self.one(output))

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        raise ValueError("Classes have no order, so they have no quantiles and no intervals.")

    def variance(self, output: Array) -> Array:
        probability = jax.nn.softmax(self.one(output))
        return probability * (1 - probability)

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        return jax.random.categorical(key, self.one(output))

    def constant_log_prob(self, y: np.ndarray, weight: np.ndarray) -> float | None:
        return -entropy(np.bincount(y.astype(int), weights=weight) / np.sum(weight))
