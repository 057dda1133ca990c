"""What the samples of chains say: outputs, weights, scales and all else, by chain and sample."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix.networks.placing import weight_leaves
from scalemix.posterior.networks import SampledNetworks
from scalemix.posterior.posterior import Posterior

# Samples that go through the network side by side.
TOGETHER = 64


@eqx.filter_jit
def _by_sample(networks: SampledNetworks, function: Any) -> Any:
    """`function(sample)` of every sample, on leading axes (chains, samples)."""
    num_chains, num_samples = networks.positions.shape[:2]

    def one(place: Array) -> Any:
        return function(networks.sample(place // num_samples, place % num_samples))

    values = jax.lax.map(one, jnp.arange(num_chains * num_samples), batch_size=TOGETHER)
    return jax.tree.map(lambda v: v.reshape(num_chains, num_samples, *v.shape[1:]), values)


class _OutputsAt(eqx.Module):
    x: Any

    def __call__(self, sample: Any) -> Array:
        return jax.vmap(sample.model.network)(self.x)


def outputs(networks: SampledNetworks, x: Any) -> np.ndarray:
    """The network's outputs at these inputs, `(chains, samples, inputs, ...)`."""
    return np.asarray(_by_sample(networks, _OutputsAt(x)))


def _weights_and_scales(sample: Any) -> Any:
    return sample.model.weights, sample.scales


def parameters(networks: SampledNetworks) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The weights by site, and the scales by site and group."""
    return jax.tree.map(np.asarray, _by_sample(networks, _weights_and_scales))


def _without_weights(sample: Any) -> Any:
    sites = sample.model.sites
    learned = eqx.filter(sample.model, sample.model.learnable())
    network = eqx.tree_at(
        lambda net: weight_leaves(net, sites), learned.network, replace_fn=lambda _: None
    )
    return network, learned.likelihood


def others(networks: SampledNetworks) -> dict[str, np.ndarray]:
    """All that was learned besides the weights under the prior, by name."""
    network, likelihood = _by_sample(networks, _without_weights)
    named = {}
    for prefix, tree in (("", network), ("likelihood", likelihood)):
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
            named[f"{prefix}{jax.tree_util.keystr(path)}".lstrip(".")] = np.asarray(leaf)
    return named


def inclusion_probabilities(posterior: Posterior) -> dict[str, dict[str, np.ndarray]]:
    """`p(xi = on | data)` of each Bernoulli scale, by site and group."""
    networks = posterior.networks.chains()
    if not networks.unknowns.num_bits:
        raise ValueError(
            "No scale of this model is either on or off: inclusion probabilities are those of "
            "Bernoulli mixtures, such as ARD(Bernoulli(0.5))."
        )
    flat = networks.bits.reshape(networks.num_samples, -1)
    shares = jnp.mean(flat, axis=0, dtype=networks.positions.dtype)
    form = networks.unknowns.unravel_bits(networks.bits[0, 0])
    return _split_like(form, np.asarray(shares))


def _split_like(tree: Any, values: np.ndarray) -> Any:
    leaves, treedef = jax.tree.flatten(tree)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    pieces = np.split(values, ends)
    shaped = [piece.reshape(leaf.shape) for piece, leaf in zip(pieces, leaves, strict=True)]
    return {name: groups for name, groups in jax.tree.unflatten(treedef, shaped).items() if groups}
