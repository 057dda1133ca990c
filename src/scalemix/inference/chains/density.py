"""The log density that samplers sample from."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from scalemix.data.batches import Data
from scalemix.model.model import Model
from scalemix.model.unknowns import Unknowns
from scalemix.networks.layouts import in_columns


def row_log_likelihoods(model: Model, outputs: Array, data: Data) -> Array:
    """Each row's `log p(y | x, W)`, times its weight."""
    values = jax.vmap(model.likelihood.log_prob)(outputs, data.y)
    # Padding has weight zero, and zero times anything, finite or not, must be zero here.
    return jnp.where(data.weight > 0, values, 0.0) * data.weight


def network_outputs(model: Model, data: Data) -> Array:
    """The network's output for each row."""
    return jax.vmap(in_columns(model.network))(data.x)


def log_likelihood(unknowns: Unknowns, data: Data, position: Array, bits: Array) -> Array:
    """`sum_n log p(y_n | x_n, W)`, the sum over all data: this is the one place where N enters."""
    model = unknowns.place(position, bits).model
    return jnp.sum(row_log_likelihoods(model, network_outputs(model, data), data))


def log_density(unknowns: Unknowns, data: Data, position: Array, bits: Array) -> Array:
    """Log density of the unknowns and the data together: likelihood, prior and Jacobians."""
    likelihood = log_likelihood(unknowns, data, position, bits)
    return likelihood + unknowns.log_prior(position, bits)
