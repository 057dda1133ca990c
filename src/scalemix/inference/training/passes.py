"""The likelihood of a batch under Gaussian weights, estimated by noisy passes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix._random import side_key
from scalemix._types import PyTree
from scalemix.data.batches import Batch
from scalemix.inference.training.objectives import lower_bound
from scalemix.model.model import Model
from scalemix.networks.gaussians import (
    Noise,
    Uses,
    draw_noise,
    find_uses,
    gaussian_weights,
    run_with_weights,
)
from scalemix.networks.rows import in_training, mean_state, row_keys, train_rows

Learned = tuple[PyTree, dict[str, Array]]
"""A tree of what the model learns, means in place of weights; and deviations by site."""

# What passes have of their own, and what they share.
OF_EACH: Any = Noise(0, 0, None)  # pyright: ignore[reportArgumentType]


def expected_log_likelihood(
    learned: Learned,
    model: Model,
    network_state: PyTree,
    batch: Batch,
    num_draws: int,
    key: PRNGKeyArray,
) -> tuple[Array, PyTree]:
    """`E_q log p(y | x, W)` per datum, and the network's state after the batch.

    Draws come in pairs of opposite noise: half the random numbers, which on a CPU cost as much as
    the products, and the errors of a pair cancel in part.
    """
    dtype = batch.weight.dtype
    signs = jnp.array([1.0, -1.0] if num_draws % 2 == 0 else [1.0], dtype)
    num_pairs, num_rows = num_draws // len(signs), len(batch.y)

    def current(means: PyTree) -> Model:
        return model.with_learned(means).with_state(network_state)

    network = in_training(current(learned[0]).network)
    uses = find_uses(network, model.sites, batch.x, key)
    noise = draw_noise(uses, (num_pairs, num_rows), key)
    noise = jax.tree.map(lambda leaf: leaf.astype(dtype), noise)
    # A pair has the network's own noise in common, as it has the prior's but for its sign.
    keys = row_keys(network, side_key(key), (num_pairs, num_rows))

    def of_pass(
        learned: Learned, noise: Noise, keys: PRNGKeyArray | None, sign: Array
    ) -> tuple[Array, PyTree]:
        """The log-likelihood of each row, and the state after them."""
        means, deviations = learned
        trained = in_training(current(means).network)

        def one(pass_one: Callable[..., Any], noise: Noise, sign: Array, y: Array) -> Array:
            weights = gaussian_weights(trained, model.sites, uses, deviations, noise, sign)
            output = pass_one(
                lambda *given: run_with_weights(trained, model.sites, weights, *given)
            )
            return current(means).likelihood.log_prob(output, y)

        return train_rows(
            one, trained, batch.x, keys, noise, sign, batch.y, in_axes=(OF_EACH, None, 0)
        )

    if num_draws > 1 and _fill_products(uses):

        def fit_of_pair(learned: Learned, own: tuple[Any, Any, Any]) -> tuple[Array, PyTree]:
            normals, own_signs, keys = own
            noise_of_pair = Noise(normals, own_signs, noise.shared)

            def fit_of(learned: Learned, sign: Array) -> tuple[Array, PyTree]:
                values, state = of_pass(learned, noise_of_pair, keys, sign)
                return lower_bound(values[None], batch.weight, total=batch.total), state

            return mean_one_by_one(fit_of, learned, signs)

        of_pairs = noise.normals, noise.signs, keys
        fit, states = mean_one_by_one(fit_of_pair, learned, of_pairs)
        return fit, mean_state(states, 2)

    def of_signs(noise: Noise, keys: PRNGKeyArray | None) -> tuple[Array, PyTree]:
        return jax.vmap(lambda sign: of_pass(learned, noise, keys, sign))(signs)

    # A pair alone goes without an axis of pairs: gradients are summed over signs, and on a CPU
    # XLA's sum beside an axis of length one takes as long as all the rest of a step.
    if num_pairs == 1:
        normals, own, keys = jax.tree.map(lambda leaf: leaf[0], (noise.normals, noise.signs, keys))
        values, states = of_signs(Noise(normals, own, noise.shared), keys)
    else:
        values, states = jax.vmap(of_signs, in_axes=(OF_EACH, 0))(noise, keys)
    values = values.reshape(num_draws, num_rows)
    fit = lower_bound(values, batch.weight, total=batch.total)
    return fit, mean_state(states, 1 if num_pairs == 1 else 2)


def _fill_products(uses: Uses) -> bool:
    """Whether the examples of one pass are enough to keep a processor busy.

    They are where weights act at many places of an example at once. Then passes go one after the
    other, each with its gradient, and take the memory of one. At the steps of a loop, and where
    weights act once, an example is one row of a product: passes go side by side.
    """
    return bool(uses.often) and not uses.in_loops


def mean_one_by_one(
    function: Callable[[PyTree, PyTree], tuple[Array, PyTree]], learned: PyTree, passes: PyTree
) -> tuple[Array, PyTree]:
    """The mean of `function(learned, one_pass)` over passes, and what else it gives for each.

    The gradient of a pass is computed right behind it, so that what it needs to know of the pass
    is gone before the next one. Gradients with respect to anything else are refused by JAX.
    """
    num_passes = len(jax.tree.leaves(passes)[0])
    if num_passes == 1:
        value, other = function(learned, jax.tree.map(lambda leaf: leaf[0], passes))
        return value, jax.tree.map(lambda leaf: leaf[None], other)

    @jax.custom_vjp
    def mean(learned: PyTree) -> tuple[Array, PyTree]:
        values, others = jax.lax.map(lambda given: function(learned, given), passes)
        return jnp.mean(values), others

    def forward(learned: PyTree) -> tuple[tuple[Array, PyTree], PyTree]:
        def step(total: PyTree, given: PyTree) -> tuple[PyTree, tuple[Array, PyTree]]:
            result, slope = jax.value_and_grad(function, has_aux=True)(learned, given)
            return jax.tree.map(jnp.add, total, slope), result

        zeros = jax.tree.map(jnp.zeros_like, learned)
        total, (values, others) = jax.lax.scan(step, zeros, passes)
        return (jnp.mean(values), others), jax.tree.map(lambda leaf: leaf / num_passes, total)

    def backward(slope: PyTree, cotangents: tuple[Array, PyTree]) -> tuple[PyTree]:
        return (jax.tree.map(lambda leaf: cotangents[0].astype(leaf.dtype) * leaf, slope),)

    mean.defvjp(forward, backward)
    return mean(learned)
