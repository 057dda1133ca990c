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


def moments(
    structure: Structure, site: Site, layer: Any, mean: Array, log_deviation: Array
) -> Array:
    """The sum of `(mu^2 + sigma^2) / s0^2` over each pool.

    A pool holds the weights that share all their scales: a row, or one weight where each has a
    scale of its own. All that follows is a matter of pools, which are few.
    """
    total = _pool(structure, site, layer, mean**2 + jnp.exp(log_deviation) ** 2)
    return total / jnp.asarray(structure.scale, mean.dtype) ** 2


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
    sizes = _sizes(structure, site, layer, moment)
    sweeps = num_sweeps if len(structure.groups) > 1 else 1
    for _ in range(sweeps):
        for group, mixture in structure.groups.items():
            others = {name: v for name, v in variances.items() if name != group}
            given = moment / _of_pools(structure, site, layer, others)
            best = mixture.optimal_variance(
                _sum_over(structure, group, site, layer, given),
                _sum_over(structure, group, site, layer, sizes),
            )
            variances[group] = jnp.maximum(best, FLOOR)
    return variances


def have_maximum(structure: Structure, num_rows: int) -> bool:
    """Whether the variances of a site with so many rows have a most probable value.

    Where those of units and of the layer multiply, all of the former can be multiplied by `c` and
    the latter divided by it, and the weights do not notice. Their density does:

        num_rows log p_unit(c) + log p_layer(1 / c)

    must not rise towards either end. It does for log-uniform scales of units: each factor `1 / v`
    rises as `v` falls, and the layer's one scale has no more than its own to set against them.
    """
    groups = structure.groups
    if not {"unit", "layer"} <= groups.keys():
        return True

    def height(c: float) -> float:
        unit, layer = (groups[g].hyperprior_log_prob(v) for g, v in (("unit", c), ("layer", 1 / c)))
        return float(num_rows * unit + layer)

    # Two decades far out on either side tell whether it rises there.
    return all(height(far) <= height(near) + 1e-3 for near, far in ((1e-8, 1e-10), (1e8, 1e10)))


def kl_divergence(
    structure: Structure,
    site: Site,
    layer: Any,
    mean: Array,
    log_deviation: Array,
    variances: Variances,
) -> Array:
    """`KL[q(W) || N(0, s0^2 v)]` of one site, a sum over its weights."""
    moment = moments(structure, site, layer, mean, log_deviation)
    variance = _of_pools(structure, site, layer, variances)
    log_prior = jnp.log(variance) + 2 * jnp.log(jnp.asarray(structure.scale, mean.dtype))
    sizes = _sizes(structure, site, layer, moment)
    return 0.5 * jnp.sum(moment / variance + sizes * (log_prior - 1)) - jnp.sum(log_deviation)


def _each_weight(structure: Structure) -> bool:
    return "weight" in structure.groups


def _pool(structure: Structure, site: Site, layer: Any, values: Array) -> Array:
    """The sum over each pool of a value for each weight."""
    return values if _each_weight(structure) else sum_rows(site, layer, values)


def _sizes(structure: Structure, site: Site, layer: Any, moment: Array) -> Array:
    """How many weights are in each pool."""
    return _pool(structure, site, layer, jnp.ones(site.shape, moment.dtype))


def _of_pools(structure: Structure, site: Site, layer: Any, variances: Variances) -> Array:
    """The product of all groups' variances, for each pool."""
    if _each_weight(structure):
        return jnp.broadcast_to(expand_scales(site, layer, variances), site.shape)
    product = jnp.ones((site.num_rows,), getattr(layer, site.rule.weight).dtype)
    for variance in variances.values():
        product = product * variance
    return product


def _sum_over(structure: Structure, group: str, site: Site, layer: Any, values: Array) -> Array:
    """The sum, over the pools that share each scale of the group, of these values."""
    if group == "layer":
        return jnp.sum(values)
    if group == "unit" and _each_weight(structure):
        return sum_rows(site, layer, values)
    return values


def log_hyperprior(structure: Structure, variances: Variances) -> Array:
    """`log p(v)` of one site, a sum over its scales."""
    return sum(
        (jnp.sum(m.hyperprior_log_prob(variances[g])) for g, m in structure.groups.items()),
        start=jnp.zeros(()),
    )
