"""What a network wants of whoever calls it, and what that rules out."""

import inspect
from typing import Any

import equinox as eqx
import jax

from scalemix._types import PyTree
from scalemix.networks.calling import CalledNetwork, has_mode, state_of

BATCH_AXIS = "batch"


def check_density(network: PyTree) -> None:
    """Raise `ValueError` unless the output is a function of weights and input alone."""
    if not isinstance(network, CalledNetwork):
        return
    if is_random(network):
        raise ValueError(
            "call takes a key without a default, so the network's output is random, and its "
            "weights have no density that MCMC could sample. Give key a default (key=None): it is "
            "then left out, and dropout is off."
        )
    layers = jax.tree.leaves(network.wrapped_network, is_leaf=has_mode)
    modes = [layer.inference for layer in layers if has_mode(layer)]
    # Only layers of Equinox can say, by their mode, that the state stays as it is.
    if network.state is not None and not (modes and all(modes)):
        raise ValueError(
            "The network has a state that passes through it change, such as the statistics of a "
            "BatchNorm, and MCMC samples weights under one state. Fit it by VariationalEM or "
            "NoiseTraining; or fix the state of a trained network: eqx.nn.inference_mode(network)."
        )


def is_random(network: PyTree) -> bool:
    """Whether the network has noise of its own in prediction too."""
    return isinstance(network, CalledNetwork) and network.always_noisy


def reads_batch(network: PyTree) -> bool:
    """Whether the output for an example may depend on the others of its batch."""
    return state_of(network) is not None


def batch_axis(network: PyTree) -> str:
    """The name of the axis along which a batch lies, as the network's norms call it."""
    norms = jax.tree.leaves(network, is_leaf=_is_norm)
    names = {str(n.axis_name) for n in norms if _is_norm(n)}
    if len(names) > 1:
        raise ValueError(
            f"BatchNorms of the network average over axes of different names: "
            f"{', '.join(sorted(names))}. Give all of them one axis_name."
        )
    return next(iter(names), BATCH_AXIS)


def how_to_call(network: PyTree) -> str:
    """How a network that cannot be called as `network(x)` gets the key or the state that it wants.

    Empty if it wants neither, or has a call of its own.
    """
    if isinstance(network, CalledNetwork):
        return ""
    layers = jax.tree.leaves(network, is_leaf=lambda node: _is_noisy(node) or has_mode(node))
    asked = [p.name for p in _parameters(network) if p.default is p.empty]
    wanting = {
        "key": [type(layer).__name__ for layer in layers if _is_noisy(layer)],
        "state": [type(layer).__name__ for layer in layers if has_mode(layer)],
    }
    wanting = {
        what: ", ".join(dict.fromkeys(names)) or "The network"
        for what, names in wanting.items()
        if names or what in asked
    }
    # A state alone is handed to the network without being told how.
    cure = {
        ("key",): "call=lambda net, x, key=None: net(x, key=key)",
        ("state",): "state=state",
        (
            "key",
            "state",
        ): "call=lambda net, x, state, key=None: net(x, state, key=key), state=state",
    }.get(tuple(wanting))
    if cure is None:
        return ""
    who = " and ".join(f"{names} wants a {what}" for what, names in wanting.items())
    first = " eqx.nn.make_with_state gives the first state." if "state" in wanting else ""
    return (
        f"{who}: say Model(..., {cure}), for a network whose __call__ takes it and hands it on to "
        f"its layers.{first}"
    )


def _parameters(network: PyTree) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(network).parameters.values())
    except (TypeError, ValueError):
        return []


def _is_noisy(node: Any) -> bool:
    # Attention has a dropout, whose rate is zero unless it is told: such a one wants no key.
    return isinstance(node, eqx.nn.Dropout) and not node.inference and node.p != 0


def _is_norm(node: Any) -> bool:
    return isinstance(node, eqx.nn.BatchNorm)
