"""Passes over the rows of a batch: their keys, and the network's state after them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from scalemix._types import PyTree
from scalemix.networks.calling import CalledNetwork, is_called
from scalemix.networks.demands import batch_axis, is_random


def in_training(network: PyTree) -> PyTree:
    """The network as training calls it; most networks know no difference."""
    if not isinstance(network, CalledNetwork):
        return network
    return dataclasses.replace(network, in_training=True)


def train_rows(
    run: Callable[..., Any],
    network: PyTree,
    x: PyTree,
    keys: PRNGKeyArray | None,
    *by_row: Any,
    in_axes: tuple[Any, ...] = (),
) -> tuple[Any, PyTree]:
    """The outputs of a batch in training, and the network's state after it.

    `run(pass_one, *of_row)` gives whatever comes of one row, where `pass_one(called)` is the output
    of a network that is called as `network` is: itself, or the same under noise.
    """

    def one(x: PyTree, key: PRNGKeyArray | None, *of_row: Any) -> tuple[Any, PyTree]:
        states: list[PyTree] = []

        def pass_one(called: Callable[..., Any]) -> Any:
            if not isinstance(network, CalledNetwork):
                return called(x)
            output, state = called(x, key)
            states.append(state)
            return output

        result = run(pass_one, *of_row)
        return result, states[-1] if states else None

    axes = in_axes or (0,) * len(by_row)
    mapped = jax.vmap(one, in_axes=(0, 0, *axes), out_axes=(0, None), axis_name=batch_axis(network))
    try:
        return mapped(x, keys, *by_row)
    except ValueError as error:
        if "out_axes" not in str(error):
            raise
        raise ValueError(
            "The state that comes out of call differs between the examples of a batch. Average it "
            f"over them, as eqx.nn.BatchNorm does: jax.lax.pmean(value, {batch_axis(network)!r})."
        ) from error


def row_keys(network: PyTree, key: PRNGKeyArray, shape: tuple[int, ...]) -> PRNGKeyArray | None:
    """A key for each pass in training, where the network takes one."""
    if isinstance(network, CalledNetwork) and "key" in network.extras:
        return jax.random.split(key, shape)
    return None


def seed(drawn: PyTree, key: PRNGKeyArray) -> PyTree:
    """A drawn network, itself or within another, with its own noise drawn as well.

    It is a function then, with the same noise at every input.
    """

    def seeded(node: Any) -> Any:
        return dataclasses.replace(node, key=key) if is_random(node) else node

    return jax.tree.map(seeded, drawn, is_leaf=is_called)


def mean_state(states: PyTree, num_axes: int) -> PyTree:
    """One state for those of several passes, along so many first axes: their mean.

    Counters and flags are the same in all of them.
    """
    for _ in range(num_axes):
        states = jax.tree.map(
            lambda leaf: leaf.mean(0) if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf[0],
            states,
        )
    return states
