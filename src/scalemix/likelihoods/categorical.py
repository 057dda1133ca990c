"""Several classes, numbered from zero."""

import equinox as eqx
import jax
import jax.numpy as jnp

from scalemix.likelihoods._base import Likelihood


class Categorical(Likelihood):
    """`y ~ Categorical(softmax(output))` over `num_classes` classes."""

    num_classes: int = eqx.field(static=True)

    def __check_init__(self):
        if self.num_classes < 2:
            raise ValueError(f"Categorical needs two classes or more, got {self.num_classes}.")

    @property
    def num_outputs(self) -> int:
        return self.num_classes

    def log_prob(self, output, y):
        # A class that does not exist has no mass; indexing alone would give a neighbour's.
        y = jnp.asarray(y)
        hit = jnp.arange(self.num_classes, dtype=y.dtype) == y
        return jax.nn.logsumexp(jnp.where(hit, jax.nn.log_softmax(output), -jnp.inf))

    def mean(self, output):
        return jax.nn.softmax(output)

    def variance(self, output):
        probability = jax.nn.softmax(output)
        return probability * (1 - probability)

    def sample(self, output, *, key):
        return jax.random.categorical(key, output)
