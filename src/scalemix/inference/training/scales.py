"""The closed-form scales of variational EM.

With `q(W) = prod N(mu, sigma^2)` and a point mass on the variances, the variances `v` of one site
enter the evidence lower bound through

    -KL[q(W) || N(0, s0^2 v)] + log p(v)

Given the variances of the other groups, those of one group maximise it in closed form.

Under another base than the Gaussian, its density stands in place of `N`. The bound that a Gaussian
with another second moment gives touches it from below, at the variances as they are (`bases.py`
has the moments): closed forms as before, in rounds, none of which lowers the bound.

The updates depend on the weights only through sums over pools. A pool holds the weights that share
all their scales: a row, or one weight where the weights of a row have different scales.
"""

import itertools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix._special import LOG_2PI
from scalemix.mixtures import ScaleMixture
from scalemix.model.site_prior import SitePrior, SiteScales
from scalemix.networks.groups import GROUPS
from scalemix.structures import Structure

Variances = SiteScales
# Half-Cauchy and log-uniform let a variance go to zero. It stops where a weight of this prior is
# nothing to the network but still a number to float32.
FLOOR = 1e-8
# Rounds under a base that is not Gaussian. Under Laplace the logarithm of one group's variances
# comes at least twice as close to the best in each, so that these are all digits of float32. Under
# Student-t it may come closer more slowly: the next step goes on from there.
ROUNDS = 24


def best_variances(
    prior: SitePrior, mean: Array, log_deviation: Array, variances: Variances, num_sweeps: int = 1
) -> Variances:
    """The variances of each group that maximise the bound, starting from these."""

    def improve(_: int | Array, variances: Variances) -> Variances:
        moment = moments(prior, mean, log_deviation, variances)
        return optimal_variances(prior, moment, variances, num_sweeps)

    if prior.structure.base.quadratic:
        return improve(0, variances)
    return jax.lax.fori_loop(0, ROUNDS, improve, variances)


def moments(prior: SitePrior, mean: Array, log_deviation: Array, variances: Variances) -> Array:
    """The sum over each pool of `(mu^2 + sigma^2) / s0^2`, or of what another base has for it."""
    scale = _scale(prior, variances)
    total = _pool(prior, prior.structure.base.moment(mean, jnp.exp(log_deviation), scale))
    return total / jnp.asarray(prior.structure.scale, mean.dtype) ** 2


def optimal_variances(
    prior: SitePrior, moment: Array, variances: Variances, num_sweeps: int = 1
) -> Variances:
    """The variances of each group that are best for these moments, starting from these.

    One group is solved at once. Several groups multiply, and are improved in turn; a sweep never
    lowers the bound.
    """
    variances = dict(variances)
    sizes = _sizes(prior, moment)
    sweeps = num_sweeps if len(prior.groups) > 1 else 1
    for _ in range(sweeps):
        for group, mixture in prior.groups.items():
            others = {name: v for name, v in variances.items() if name != group}
            given = moment / _of_pools(prior, others)
            best = mixture.optimal_variance(
                _sum_pools(prior, group, given), _sum_pools(prior, group, sizes)
            )
            variances[group] = jnp.maximum(best, FLOOR)
    return variances


def have_maximum(structure: Structure, num_scales: Mapping[str, int]) -> bool:
    """Whether variances have a most probable value, where the groups have so many of them.

    Where two groups multiply, all variances of one can be multiplied by `c` and all of the other
    divided by it, and the weights do not notice. Their density does:

        num_first log p_first(c) + num_second log p_second(1 / c)

    must not rise towards either end. It does for log-uniform scales of units and of the layer: each
    factor `1 / v` rises as `v` falls, and the layer has only one scale to set against many.
    """
    # Two decades far out on either side show whether it rises there.
    near, far = np.array([1e-8, 1e8]), np.array([1e-10, 1e10])

    def height(first: str, second: str, c: np.ndarray) -> np.ndarray:
        one, other = (
            num_scales[group] * np.asarray(_log_prob(structure.groups[group], v), np.float64)
            for group, v in ((first, c), (second, 1 / c))
        )
        return one + other

    return all(
        np.all(height(*pair, far) <= height(*pair, near) + 1e-3)
        for pair in itertools.combinations(structure.groups, 2)
    )


# One program: operations one by one would be ten.
@jax.jit
def _log_prob(mixture: ScaleMixture, variance: Array) -> Array:
    return mixture.hyperprior_log_prob(variance)


def falls_at_zero(prior: SitePrior) -> bool:
    """Whether the bound falls as one variance goes to zero while its weights do not.

    Of K weights that share it, the bound has `-K/2 log v - sum E[energy(w / sqrt(v))] + log p(v)`.
    The energy of a Gaussian or a Laplace base outgrows the logarithms. That of Student-t is itself
    a logarithm, and loses to them where few weights share the variance and the tails are heavy.
    """
    base = prior.structure.base
    if base.quadratic:
        return True
    ones = jnp.ones(prior.site.shape)

    def height(mixture: ScaleMixture, num: Array, v: float) -> float:
        weight = jnp.full((), v**-0.5)
        energy = base.expected_energy(weight, weight)
        return float(mixture.hyperprior_log_prob(v) - num * (energy + 0.5 * jnp.log(v)))

    return all(
        height(mixture, num, 1e-10) <= height(mixture, num, 1e-8) + 1e-3
        for group, mixture in prior.groups.items()
        for num in [jnp.min(_sum_pools(prior, group, _pool(prior, ones)))]
    )


def kl_divergence(
    prior: SitePrior, mean: Array, log_deviation: Array, variances: Variances
) -> Array:
    """`KL[q(W) || p(W | v)]` of one site, a sum over its weights; `p` is `N(0, s0^2 v)`, or that of
    another base. Never less than that where the base's expected energy has no closed form.
    """
    base, scale = prior.structure.base, _scale(prior, variances)
    energy = base.expected_energy(mean / scale, jnp.exp(log_deviation) / scale)
    # -log p(W | v) at zero, less the entropy of q.
    rest = jnp.log(scale) + base.log_normalizer - 0.5 * (1 + LOG_2PI)
    return jnp.sum(energy + rest - log_deviation)


def log_hyperprior(prior: SitePrior, variances: Variances) -> Array:
    """`log p(v)` of one site, a sum over its scales."""
    return sum(
        (jnp.sum(m.hyperprior_log_prob(variances[g])) for g, m in prior.groups.items()),
        start=jnp.zeros(()),
    )


def _scale(prior: SitePrior, variances: Variances) -> Array:
    """`s0 sqrt(v)` of the weights, broadcastable against them."""
    root = jnp.sqrt(prior.expand(variances))
    return jnp.asarray(prior.structure.scale, root.dtype) * root


def _pool(prior: SitePrior, values: Array) -> Array:
    """The sum over each pool of a value for each weight."""
    return prior.sum_rows(values) if prior.by_row else values


def _sizes(prior: SitePrior, moment: Array) -> Array:
    """How many weights are in each pool."""
    return _pool(prior, jnp.ones(prior.site.shape, moment.dtype))


def _of_pools(prior: SitePrior, variances: Variances) -> Array:
    """The product of these groups' variances, for each pool."""
    if prior.by_row:
        return prior.expand_rows(variances)
    return jnp.broadcast_to(prior.expand(variances), prior.site.shape)


def _sum_pools(prior: SitePrior, group: str, values: Array) -> Array:
    """The sum, over the pools that share each scale of the group, of a value for each pool."""
    kind = GROUPS[group]
    if prior.by_row:
        return kind.sum_rows(prior.site, values)
    return kind.sum_weights(prior.site, values)
