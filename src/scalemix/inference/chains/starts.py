"""Where chains start: at different values, and from there uphill.

A chain that starts far from where the posterior's mass lies spends its warm-up on the way there.
An optimiser is quicker. It climbs in the expanded form, whose log density has maxima. That of the
hierarchical form has none: it grows without bound as a scale and its weights shrink together.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PRNGKeyArray

from scalemix.data.batches import Data
from scalemix.inference.chains.density import network_outputs
from scalemix.model.unknowns import Unknowns
from scalemix.networks.placing import put_weights

# Where the most probable coordinate of a scale is looked for.
FARTHEST, NUM_TRIED = 20.0, 801
# How far apart starts are in the coordinates of the scales.
JITTER = 0.3


def expanded(unknowns: Unknowns) -> Unknowns:
    """The same unknowns in the expanded form."""
    return dataclasses.replace(unknowns, parametrization="expanded")


def start(unknowns: Unknowns, key: PRNGKeyArray, is_first: Array) -> Array:
    """A position in the expanded form.

    The first chain has the network's own values. Other chains have the same values in another
    order, which is another draw from whatever distribution they came from. Scales are near the
    prior's most probable ones.
    """
    model = unknowns.model
    value_key, scale_key = jax.random.split(key)
    learned, coordinates = unknowns.form()
    # One sort shuffles all arrays: by the number of the array first, then at random.
    flat, unravel = ravel_pytree(learned)
    sizes = np.array([leaf.size for leaf in jax.tree.leaves(learned)])
    numbers = jnp.asarray(np.repeat(np.arange(len(sizes)), sizes), flat.dtype)
    order = jnp.argsort(numbers + jax.random.uniform(value_key, flat.shape, flat.dtype))
    learned = unravel(jnp.where(is_first, flat, flat[order]))
    network = learned.network
    weights = {}
    for prior in model.site_priors:
        noise = {}
        for group, u in coordinates[prior.name].items():
            mixture = prior.groups[group]
            scale_key, jitter_key = jax.random.split(scale_key)
            tried = jnp.linspace(-FARTHEST, FARTHEST, NUM_TRIED, dtype=u.dtype)
            density = mixture.coordinate_log_prob(tried)
            middle = tried[jnp.nanargmax(density)]
            u = middle + JITTER * jax.random.normal(jitter_key, u.shape, u.dtype)
            coordinates[prior.name][group] = u
            noise[group] = mixture.to_noise(u)
        # The product of weight and scale is then the value that the network came with.
        acting = prior.expand(noise)
        weights[prior.name] = prior.site.weight(network) / jnp.where(acting == 0, 1.0, acting)
    network = put_weights(network, model.sites, weights)
    learned = eqx.tree_at(lambda m: m.network, learned, network)
    return ravel_pytree((learned, coordinates))[0]


def climb(
    unknowns: Unknowns, data: Data, position: Array, num_steps: int, learning_rate: float
) -> Array:
    """A position in the expanded form near a maximum of the density, by so many steps of Adam."""
    optimizer = optax.adam(optax.cosine_decay_schedule(learning_rate, num_steps))
    target = expanded(unknowns)
    bits = jnp.ones(unknowns.num_bits, bool)
    slope = jax.grad(lambda p: _height(target, data, p, bits))

    def step(_, carry):
        position, state, best = carry
        # Optax counts steps in integers and multiplies floats by them.
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimizer.update(-slope(position), state)
        position = position + updates
        # A step to where nothing is finite ends the climb at the last good position.
        return position, state, jnp.where(jnp.all(jnp.isfinite(position)), position, best)

    return jax.lax.fori_loop(0, num_steps, step, (position, optimizer.init(position), position))[2]


def _height(unknowns: Unknowns, data: Data, position: Array, bits: Array) -> Array:
    """The log density, changed so that no row is given up as noise.

    Where the network puts out the noise of each input, the nearest maximum of the density may be
    one that calls rows noisy because they are hard to fit. Rows are therefore weighted by the
    square of their noise scale, held constant, and pull at the mean as they would under one noise
    level (Seitzer et al. 2022).
    """
    model = unknowns.place(position, bits).model
    outputs = network_outputs(model, data)
    values = jax.vmap(model.likelihood.log_probs)(outputs, data.y)
    leverage = jax.lax.stop_gradient(jax.vmap(model.likelihood.leverage)(outputs))
    weight = data.weight.reshape(-1, *[1] * (values.ndim - 1))
    mean = jnp.sum(weight * leverage, axis=0, keepdims=True) / jnp.sum(weight)
    # Padding has weight zero, and zero times anything, finite or not, must be zero here.
    values = jnp.where(weight > 0, values, 0.0) * weight * leverage / mean
    return jnp.sum(values) + unknowns.log_prior(position, bits)


def from_expanded(unknowns: Unknowns, position: Array) -> Array:
    """The same point in the parametrization of these unknowns."""
    if unknowns.parametrization == "expanded":
        return position
    source = expanded(unknowns)
    sample = source.place(position, jnp.ones(0, bool))
    learned = eqx.filter(sample.model, sample.model.learnable())
    coordinates = {
        name: {
            # In the hierarchical form only the square of the noise matters.
            group: mixture.to_coordinate(sample.scales[name][group], signed=False)
            for group, mixture in structure.groups.items()
        }
        for name, structure in unknowns.model.structures.items()
    }
    return ravel_pytree((learned, coordinates))[0]
