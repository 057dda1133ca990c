"""Puts Gaussian weights into a network: the weights it holds are the means.

The deviations stand beside it, by site. A pass draws pre-activations in place of weights (local
reparametrization): a product with Gaussian weights is Gaussian, with mean `h mu` and variance
`h^2 sigma^2`, so each example has weights of its own for the price of a second product.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from scalemix.networks.placing import put_weights, replace_layers, with_weight
from scalemix.networks.sites import Site

# Under the root, so that a unit that is off has a finite gradient.
TINY = 1e-16


def put_gaussians(
    network: PyTree,
    sites: tuple[Site, ...],
    deviations: dict[str, Array],
    key: PRNGKeyArray,
    sign: Array | float = 1.0,
) -> PyTree:
    """The network with pre-activations drawn at every site: one pass of one example.

    A sign of minus one turns all the noise around: a draw just as likely.
    """
    keys = dict(zip(sites, jax.random.split(key, len(sites)), strict=True))

    def change(site: Site, layer: Any) -> Any:
        deviation = deviations[site.name]
        if site.rule.scale_input is None:
            # The layer is no plain product with this weight: the weight itself is drawn.
            drawn = _draw(getattr(layer, site.rule.weight), deviation * sign, keys[site])
            return with_weight(layer, site, drawn)
        return GaussianLayer(layer, deviation**2, keys[site], sign, site)

    return replace_layers(network, sites, change)


def draw_network(
    network: PyTree, sites: tuple[Site, ...], deviations: dict[str, Array], key: PRNGKeyArray
) -> PyTree:
    """The network with weights drawn at every site: one function, for any number of examples."""
    keys = jax.random.split(key, len(sites))
    weights = {
        site.name: _draw(site.weight(network), deviations[site.name], subkey)
        for site, subkey in zip(sites, keys, strict=True)
    }
    return put_weights(network, sites, weights)


def _draw(mean: Array, deviation: Array, key: PRNGKeyArray) -> Array:
    return mean + deviation * jax.random.normal(key, mean.shape, mean.dtype)


class GaussianLayer(eqx.Module):
    """A layer with Gaussian weights, whose output is drawn."""

    layer: Any
    variance: Array
    key: PRNGKeyArray
    sign: Array | float
    site: Site = eqx.field(static=True)

    def __call__(self, x: Array, *args: Any, **kwargs: Any) -> Array:
        mean = self.layer(x, *args, **kwargs)
        rule = self.site.rule
        spread = with_weight(self.layer, self.site, self.variance)
        if getattr(spread, rule.bias, None) is not None:
            spread = eqx.tree_at(
                lambda node: getattr(node, rule.bias), spread, replace_fn=jnp.zeros_like
            )
        deviation = jnp.sqrt(spread(x * x, *args, **kwargs) + TINY)
        noise = jax.random.normal(self.key, mean.shape, mean.dtype)
        return mean + deviation * (self.sign * noise)
