"""Puts Gaussian weights into a network: the weights it holds are the means.

The deviations stand beside it, by site. A pass draws pre-activations in place of weights (local
reparametrization): a product with Gaussian weights is Gaussian, with mean `h mu` and variance
`h^2 sigma^2`, so each example has weights of its own for the price of a second product.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray, PyTree

from scalemix.networks.placing import put_weights, replace_layers, with_weight
from scalemix.networks.sites import Site

# Under the root, so that a unit that is off has a finite gradient.
TINY = 1e-16


def noise_sizes(network: PyTree, sites: tuple[Site, ...], x: Array) -> dict[str, int]:
    """How many random numbers each site takes in one pass of one example."""
    sizes = {site.name: 0 for site in sites}

    def change(site: Site, layer: Any) -> Any:
        def see(drawn: Array) -> None:
            # A layer that is called twice has one draw for both.
            sizes[site.name] = max(sizes[site.name], drawn.size)

        if site.rule.scale_input is None:
            see(getattr(layer, site.rule.weight))
            return layer
        return _SeenLayer(layer, see, site)

    jax.eval_shape(replace_layers(network, sites, change), x)
    return sizes


def put_gaussians(
    network: PyTree,
    sites: tuple[Site, ...],
    deviations: dict[str, Array],
    noise: dict[str, Array],
) -> PyTree:
    """The network with pre-activations drawn at every site: one pass of one example.

    `noise` is standard normal, for each site as many numbers as `noise_sizes` says.
    """

    def change(site: Site, layer: Any) -> Any:
        deviation = deviations[site.name]
        if site.rule.scale_input is None:
            # The layer is no plain product with this weight: the weight itself is drawn.
            mean = getattr(layer, site.rule.weight)
            drawn = mean + deviation * noise[site.name].reshape(mean.shape)
            return with_weight(layer, site, drawn)
        return GaussianLayer(layer, deviation**2, noise[site.name], site)

    return replace_layers(network, sites, change)


def draw_network(
    network: PyTree, sites: tuple[Site, ...], deviations: dict[str, Array], key: PRNGKeyArray
) -> PyTree:
    """The network with weights drawn at every site: one function, for any number of examples."""
    keys = jax.random.split(key, len(sites))
    weights = {
        site.name: site.weight(network)
        + deviations[site.name] * jax.random.normal(subkey, site.shape, site.weight(network).dtype)
        for site, subkey in zip(sites, keys, strict=True)
    }
    return put_weights(network, sites, weights)


class GaussianLayer(eqx.Module):
    """A layer with Gaussian weights, whose output is drawn."""

    layer: Any
    variance: Array
    noise: Array
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
        return mean + deviation * self.noise[: mean.size].reshape(mean.shape)


class _SeenLayer(eqx.Module):
    layer: Any
    see: Callable[[Array], None] = eqx.field(static=True)
    site: Site = eqx.field(static=True)

    def __call__(self, x: Array, *args: Any, **kwargs: Any) -> Array:
        output = self.layer(x, *args, **kwargs)
        self.see(output)
        return output
