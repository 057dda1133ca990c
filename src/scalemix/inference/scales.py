"""The closed-form scales of variational EM.

With `q(W) = prod N(mu, sigma^2)` and a point mass on the variances, the part of the evidence lower
bound that the variances `v` of one site have a say in is

    -KL[q(W) || N(0, s0^2 v)] + log p(v)

A group's variances, those of the other groups given, maximise it in closed form.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from scalemix.networks.placing import expand_scales, sum_rows
from scalemix.networks.sites import Site
from scalemix.structures import Structure

Variances = dict[str, Array]
# Half-Cauchy and log-uniform let a variance go to zero. It stops where a weight of this prior is
# nothing to the network but still a number to float32.
FLOOR = 1e-8


def moments(structure: Structure, mean: Array, deviation: Array) -> Array:
    """`(mu^2 + sigma^2) / s0^2` for each weight."""
    return (mean**2 + deviation**2) / jnp.asarray(structure.scale, mean.dtype) ** 2


def optimal_variances(
    structure: Structure,
    site: Site,
    layer: Any,
    moment: Array,
    variances: Variances,
    num_sweeps: int = 1,
) -> Variances:
    """The variances of each group that maximise the bound, from these on.

    One group: in one go. Several groups multiply, and are improved in turn; a sweep never lowers
    the bound.
    """
    variances = dict(variances)
    sweeps = num_sweeps if len(structure.groups) > 1 else 1
    for _ in range(sweeps):
        for group, mixture in structure.groups.items():
            others = {name: v for name, v in variances.items() if name != group}
            given = moment / expand_scales(site, layer, others)
            best = mixture.optimal_variance(
                _sum_over(group, site, layer, given),
                _sum_over(group, site, layer, jnp.ones_like(moment)),
            )
            variances[group] = jnp.maximum(best, FLOOR)
    return variances


def _sum_over(group: str, site: Site, layer: Any, values: Array) -> Array:
    """The sum, over the weights that share each scale of the group, of these values."""
    if group == "weight":
        return values
    if group == "layer":
        return jnp.sum(values)
    return sum_rows(site, layer, values)


def kl_divergence(
    structure: Structure,
    site: Site,
    layer: Any,
    mean: Array,
    deviation: Array,
    variances: Variances,
) -> Array:
    """`KL[q(W) || N(0, s0^2 v)]` of one site, a sum over its weights."""
    variance = jnp.broadcast_to(expand_scales(site, layer, variances), site.shape)
    ratio = moments(structure, mean, deviation) / variance
    log_prior = jnp.log(variance) + 2 * jnp.log(jnp.asarray(structure.scale, mean.dtype))
    return 0.5 * jnp.sum(ratio - 1 + log_prior - 2 * jnp.log(deviation))


def log_hyperprior(structure: Structure, variances: Variances) -> Array:
    """`log p(v)` of one site, a sum over its scales."""
    return sum(
        (jnp.sum(m.hyperprior_log_prob(variances[g])) for g, m in structure.groups.items()),
        start=jnp.zeros(()),
    )
