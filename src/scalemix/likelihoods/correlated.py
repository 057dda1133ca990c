"""Several real targets for each example, whose noise goes together."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix.likelihoods._base import Likelihood
from scalemix.likelihoods._dispersed import LocationScale
from scalemix.likelihoods.independent import Independent


class Correlated(Independent):
    """Several real targets for each example, whose noise is correlated.

    Each target alone is what it is under `Independent`. Together they are multivariate Gaussian or
    Student-t, with correlations that are learned, the same ones for all examples. `log_probs` has
    for each target the log density given the targets before it.

    Parameters
    ----------
    likelihood : Gaussian or StudentT
        The likelihood of one target.
    num_targets : int
        How many targets there are, two or more.
    strength : float, default 1.0
        One, or zero for targets that are independent after all: with both as candidates, held-out
        rows can decide.

    Examples
    --------
    >>> both = sx.likelihoods.Correlated(sx.likelihoods.Gaussian(), 2)
    >>> both.correlation()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """

    summary: ClassVar[str] = "several targets, whose noise goes together"
    learned: ClassVar[tuple[str, ...]] = ("raw",)

    raw: Array
    strength: Real

    def __init__(self, likelihood: Likelihood, num_targets: int, strength: ArrayLike = 1.0):
        super().__init__(likelihood, num_targets)
        if not isinstance(likelihood, LocationScale) or num_targets < 2:
            raise ValueError(
                f"Correlated takes Gaussian or StudentT noise of two targets or more; got "
                f"{likelihood.title} and {num_targets}. For other kinds there is Independent."
            )
        self.strength = as_parameter(strength)
        require((self.strength == 0) | (self.strength == 1), f"strength is 0 or 1, got {strength}.")
        self.raw = jnp.zeros(self.learned_shape({"num_targets": num_targets}), jnp.float32)

    @classmethod
    def learned_shape(cls, static: dict[str, int]) -> tuple[int, ...]:
        num = static["num_targets"]
        return (num * (num - 1) // 2,)

    def learnable(self) -> Likelihood:
        return eqx.tree_at(lambda part: part.raw, super().learnable(), True)

    @property
    def title(self) -> str:
        return f"Correlated({self.likelihood.title}, {self.num_targets})"

    def in_words(self) -> str:
        return super().in_words() + ", correlated"

    def correlation(self) -> Array:
        """The correlations of the noise, `(num_targets, num_targets)`."""
        lower = self._factor()
        return jnp.where(as_array(self.strength) > 0, lower @ lower.T, jnp.eye(self.num_targets))

    def _factor(self) -> Array:
        """The Cholesky factor of the correlations: a lower triangle whose rows have length one."""
        num = self.num_targets
        rows = jnp.eye(num, dtype=self.raw.dtype).at[np.tril_indices(num, -1)].set(self.raw)
        return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)

    def log_probs(self, output: Array, y: ArrayLike) -> Array:
        errors = self._each(lambda one, out, at: one.error(out, at), output, self.target(y))
        scales = self._each(lambda one, out: one.scale(out), output)
        lower = self._factor().astype(errors.dtype)
        freed = solve_triangular(lower, errors, lower=True)
        # Of the first target, of the first two together, and so on.
        one: LocationScale = self.likelihood  # pyright: ignore[reportAssignmentType]
        number = jnp.arange(1, self.num_targets + 1).astype(errors.dtype)
        heights = jax.vmap(one.joint_log_prob)(jnp.cumsum(freed**2), number)
        heights = heights - jnp.cumsum(jnp.log(scales) + jnp.log(jnp.diag(lower)))
        together = jnp.diff(heights, prepend=jnp.zeros_like(heights[:1]))
        return jnp.where(as_array(self.strength) > 0, together, super().log_probs(output, y))

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        means, scales = self.mean(output), self._each(lambda one, out: one.scale(out), output)
        one: LocationScale = self.likelihood  # pyright: ignore[reportAssignmentType]
        free = one.joint_sample(self.num_targets, means.dtype, key=key)
        together = means + scales * (self._factor().astype(means.dtype) @ free)
        alone = super().sample(output, key=key)
        return jnp.where(as_array(self.strength) > 0, together, alone)
