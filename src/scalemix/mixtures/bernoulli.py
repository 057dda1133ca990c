"""Bernoulli noise: dropout; the spike-and-slab prior."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, DTypeLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix._random import are_below
from scalemix._special import inside, log_normal
from scalemix.mixtures._base import ScaleMixture


class Bernoulli(ScaleMixture):
    """`xi = value` with probability `keep`, else zero: dropout, spike-and-slab weights.

    With the default `value=1` the noise is plain, as in the paper: its mean is `keep`. Dropout as
    usually coded is inverted, `xi = 1 / keep`, so that its mean is one; that is
    `Bernoulli(0.9).inverted()`. The two differ by a factor in the weights: a network with weights
    `w` under plain noise is the network with weights `keep * w` under inverted noise.

    Parameters
    ----------
    keep : float
        The probability of keeping a unit, in (0, 1]. A drop rate `p` is `keep = 1 - p`.
    value : float, default 1.0
        The noise of a kept unit.

    Examples
    --------
    >>> sx.Bernoulli(0.8).mean
    0.8
    >>> sx.Bernoulli(0.8).inverted()
    Bernoulli(keep=0.8, value=1.25)
    """

    keep: Real = eqx.field(converter=as_parameter)
    value: Real = eqx.field(default=1.0, converter=as_parameter)

    def __check_init__(self) -> None:
        require(
            (self.keep > 0) & (self.keep <= 1),
            f"Bernoulli: keep is the probability of keeping a unit and must lie in (0, 1], "
            f"got {self.keep}. A drop rate p is keep = 1 - p.",
        )
        require(self.value > 0, f"Bernoulli: value must be positive, got {self.value}.")

    def inverted(self) -> "Bernoulli":
        """The same keep probability in the inverted convention: kept units are worth 1 / keep."""
        return Bernoulli(self.keep, 1 / self.keep)

    def plain(self) -> "Bernoulli":
        """The same keep probability in the plain convention: kept units are worth one."""
        return Bernoulli(self.keep)

    @property
    def is_discrete(self) -> bool:
        return True

    def to_noise(self, u: Array, *, signed: bool = True) -> Array:
        """The noise of units that are on, where `u` is true, or off."""
        return jnp.where(u, self.value, 0.0)

    def to_coordinate(self, noise: Array, *, signed: bool = True) -> Array:
        return noise != 0

    def coordinate_log_prob(self, u: Array, *, signed: bool = True) -> Array:
        return self.log_prob(self.to_noise(u))

    def sample(
        self, shape: tuple[int, ...] = (), *, key: PRNGKeyArray, dtype: DTypeLike = float
    ) -> Array:
        # Integers compared: finer than a uniform float32 and cheaper, for dropout is a hot path.
        threshold = jnp.minimum(jnp.asarray(self.keep * 2.0**32, jnp.float32), 4294967040.0)
        kept = are_below(threshold.astype(jnp.uint32), key, shape) | (self.keep >= 1)
        return jnp.where(kept, self.value, 0.0).astype(dtype)

    def log_prob(self, noise: ArrayLike) -> Array:
        return self._log_mass(as_array(noise), self.value)

    def variance_log_prob(self, variance: ArrayLike) -> Array:
        return self._log_mass(as_array(variance), self.value**2)

    def _log_mass(self, x: Array, kept_value: Real) -> Array:
        # A kept value may have been rounded on its way here.
        kept = jnp.abs(x - kept_value) <= 8 * jnp.finfo(x.dtype).eps * kept_value
        on_zero = inside(x == 0, jnp.log1p(-self.keep))
        return jnp.where(kept, jnp.log(self.keep), on_zero)

    @property
    def spike_mass(self) -> Real:
        """The probability that a weight is exactly zero."""
        return 1 - self.keep

    def marginal_log_prob(self, weight: ArrayLike, scale: ArrayLike = 1.0) -> Array:
        """Log density of the slab, `keep * N(w; 0, ...)`; the spike's mass is `spike_mass`."""
        slab = self.value * as_array(scale)
        return jnp.log(self.keep) + log_normal(as_array(weight), slab)

    @property
    def mean(self) -> Real:
        return self.keep * self.value

    @property
    def second_moment(self) -> Real:
        return self.keep * self.value**2

    @property
    def inverse_square_mean(self) -> Real:
        return jnp.where(self.keep < 1, jnp.inf, self.value**-2)
