"""Gibbs updates of the inclusion variables of Bernoulli mixtures."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix.data.batches import Data
from scalemix.inference.chains.density import log_density
from scalemix.model.unknowns import Unknowns


def sweep(
    unknowns: Unknowns,
    data: Data,
    position: Array,
    bits: Array,
    num_updates: int,
    key: PRNGKeyArray,
) -> Array:
    """The inclusion variables after `num_updates` of them, in random order, were drawn anew.

    Each is drawn from its distribution given everything else (Kuo and Mallick):

        log odds = log p(y | xi_r on) p(xi_r on) - log p(y | xi_r off) p(xi_r off)
    """
    order_key, flip_key = jax.random.split(key)
    order = jax.random.permutation(order_key, len(bits))[:num_updates]
    current = log_density(unknowns, data, position, bits)

    def update(carry: tuple[Array, Array], place: tuple[Array, PRNGKeyArray]):
        bits, value = carry
        which, key = place
        flipped = bits.at[which].set(~bits[which])
        other = log_density(unknowns, data, position, flipped)
        # P(flip) = 1 / (1 + p(now) / p(flipped)). Without a density there is no flip.
        flip = jnp.log(jax.random.uniform(key)) < jax.nn.log_sigmoid(
            jnp.where(jnp.isnan(other), -jnp.inf, other - value)
        ).astype(float)
        return (jnp.where(flip, flipped, bits), jnp.where(flip, other, value)), None

    keys = jax.random.split(flip_key, num_updates)
    (bits, _), _ = jax.lax.scan(update, (bits, current), (order, keys))
    return bits
