"""Networks that are not called as `network(x)`: with a key, with a state, on several inputs."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import DTypeLike, PRNGKeyArray

from scalemix._types import PyTree

# What `call` may ask for by name, besides the network and the input.
EXTRAS = ("key", "state", "training")


class CalledNetwork(eqx.Module):
    """A network and how it is called on one example. `with_call` makes it.

    Calling it on an input gives its output in prediction.

    Attributes
    ----------
    wrapped_network : PyTree
        The network itself. Names of layers and arrays are those that they have in it.
    state : PyTree
        What a pass in training changes besides learning, such as running statistics; or `None`.
    key : PRNG key or None
        The key of its own noise, where a draw has given it one.
    function : callable
        How it is called.
    extras : tuple of str
        What the function takes besides the network and the input.
    always_noisy : bool
        Whether the function takes a key in prediction too.
    in_training : bool
        Whether a call is one of training, and gives the output and the state after it.

    Examples
    --------
    >>> first = sx.networks.with_call(net, lambda net, inputs: net(inputs["table"]))
    >>> first({"table": x[0].astype(np.float32)}).shape
    ()
    """

    wrapped_network: PyTree
    state: PyTree
    key: PRNGKeyArray | None
    function: Callable[..., Any] = eqx.field(static=True)
    extras: tuple[str, ...] = eqx.field(static=True)
    # Whether a key has no default, so that prediction draws one too.
    always_noisy: bool = eqx.field(static=True)
    in_training: bool = eqx.field(static=True, default=False)

    def __call__(self, x: PyTree, key: PRNGKeyArray | None = None) -> Any:
        """The output; in training, the output and the state after it."""
        given: dict[str, Any] = {"training": self.in_training, "state": _copy(self.state)}
        if self.in_training:
            network, given["key"] = self.wrapped_network, key
        else:
            network = _settle(self.wrapped_network, everything=not self.always_noisy)
            if self.always_noisy:
                # Until a draw gives it a key of its own, any will do.
                given["key"] = jax.random.key(0) if self.key is None else self.key
        arguments = {name: given[name] for name in self.extras if name in given}
        output = self.function(network, x, **arguments)
        state = None
        if "state" in self.extras:
            output, state = _split(output)
        return (output, state) if self.in_training else output


def with_call(
    network: PyTree, call: Callable[..., Any] | None = None, *, state: PyTree = None
) -> CalledNetwork:
    """A network that is called in a way of its own.

    `Model(network, ..., call=call, state=state)` does the same. By itself it is of use where a
    network is asked for, as by `scalemix.load`.

    Parameters
    ----------
    network : PyTree
        Any network, or any tree of layers.
    call : callable, optional
        `(network, x, ...) -> output` for one example. Whatever of `key`, `state` and `training` is
        among its parameters is given to it by name:

        - `key`: a key for this example, in training. A `key` with a default is left out in
          prediction; then the network is in inference mode (`eqx.nn.inference_mode`), so that its
          dropout layers are off. A `key` without a default is given in prediction too, one for
          each network that is drawn, and dropout stays on.
        - `state`: the state. The function then returns the output and the new state. In prediction
          layers with a state are in inference mode, and the new state is dropped.
        - `training`: whether this is training.

        By default, `network(x, state)`.
    state : PyTree, optional
        The first state, such as that of `eqx.nn.make_with_state`. Gradients do not reach it. It
        must come out of a pass the same for all examples of a batch, whose axis is called "batch"
        or as a `BatchNorm` in the network calls it.

    Returns
    -------
    CalledNetwork
        A network that is called as `network(x)`.

    Raises
    ------
    ValueError
        If the function takes something else, or a state without there being one.

    Examples
    --------
    A network with dropout of its own, which is off in prediction:

    >>> dropout = eqx.nn.Sequential([net.layers[0], eqx.nn.Dropout(0.5), net.layers[-1]])
    >>> network = sx.networks.with_call(dropout, lambda net, x, key=None: net(x, key=key))
    >>> network(x[0].astype(np.float32)).shape
    ()
    """
    if call is None:
        call = _call_with_state
    if not callable(call):
        raise ValueError(f"call must be a function (network, x) -> output; got {call!r}.")
    extras, always_noisy = _read_parameters(call)
    if ("state" in extras) != (state is not None):
        raise ValueError(
            "call takes a state, and there is none: pass the first one as state=."
            if state is None
            else "There is a state, and call does not take it: call=lambda net, x, state: ..."
        )
    inner = [n for n in jax.tree.leaves(network, is_leaf=is_called) if is_called(n)]
    if inner and (extras or any(each.extras for each in inner)):
        raise ValueError(
            "The network has a call of its own, to which no key, state or training would get "
            "through. Put with_call around the network itself, and compute_in around that: "
            "networks.compute_in(networks.with_call(net, call), dtype)."
        )
    return CalledNetwork(network, state, None, call, extras, always_noisy)


def compute_in(network: PyTree, dtype: DTypeLike) -> CalledNetwork:
    """The network computing in another type of number, such as bfloat16.

    Parameters
    ----------
    network : PyTree
        Any network. Its weights stay in their own type, in which they also learn.
    dtype : dtype
        The type that inputs and weights are cast to on each call. The output is cast back.

    Returns
    -------
    CalledNetwork
        A network that is called as `network(x)`.

    Examples
    --------
    >>> half = sx.networks.compute_in(net, jnp.bfloat16)
    >>> half(x[0].astype(np.float32)).dtype
    dtype('float32')
    """
    kind = np.dtype(dtype)
    if isinstance(network, CalledNetwork):
        return dataclasses.replace(network, function=_InType(kind, network.function))
    return with_call(network, _InType(kind, _call_plain))


@dataclasses.dataclass(frozen=True)
class _InType:
    """A call with inputs and weights in one type. Calls in the same type are the same program."""

    dtype: np.dtype
    function: Callable[..., Any]

    def __call__(self, network: PyTree, x: PyTree, **given: Any) -> Any:
        own = [leaf.dtype for leaf in jax.tree.leaves(network) if eqx.is_inexact_array(leaf)]
        before = _copy(given.get("state"))
        result = self.function(_cast(network, self.dtype), _cast(x, self.dtype), **given)
        output, state = _split(result) if "state" in given else (result, None)
        output = _cast(output, own[0]) if own else output
        if "state" not in given:
            return output
        # The state stays in its own type, as weights do.
        return output, jax.tree.map(lambda new, old: new.astype(old.dtype), state, before)


def state_of(network: PyTree) -> PyTree:
    """What training changes besides learning; `None` for most networks."""
    return network.state if isinstance(network, CalledNetwork) else None


def with_state(network: PyTree, state: PyTree) -> PyTree:
    """The network with this state in place of its own."""
    if not isinstance(network, CalledNetwork):
        return network
    return dataclasses.replace(network, state=state)


def _call_plain(network: PyTree, x: PyTree) -> Any:
    return network(x)


def _call_with_state(network: PyTree, x: PyTree, state: PyTree) -> tuple[Any, PyTree]:
    return network(x, state)


def _read_parameters(call: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """Which extras a function takes, and whether it takes a key without a default."""
    parameters = list(inspect.signature(call).parameters.values())
    variadic = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    beside = [p for p in parameters[2:] if p.kind not in variadic]
    unknown = [p.name for p in beside if p.name not in EXTRAS and p.default is p.empty]
    if len(parameters) < 2 or unknown:
        raise ValueError(
            f"call takes a network, one example, and by name any of {', '.join(EXTRAS)}; got a "
            f"function of ({', '.join(p.name for p in parameters)})."
        )
    extras = tuple(p.name for p in beside if p.name in EXTRAS)
    return extras, any(p.name == "key" and p.default is p.empty for p in beside)


def _settle(network: PyTree, *, everything: bool) -> PyTree:
    """The network in inference mode; or only its layers with a state, so that dropout stays on."""
    if everything:
        return eqx.nn.inference_mode(network)

    return jax.tree.map(
        lambda node: eqx.nn.inference_mode(node) if has_mode(node) else node,
        network,
        is_leaf=has_mode,
    )


def is_called(node: Any) -> bool:
    """Whether this is a network with a call of its own."""
    return isinstance(node, CalledNetwork)


def has_mode(node: Any) -> bool:
    """Whether this is a layer with a state, in training or in inference mode."""
    return isinstance(node, eqx.nn.StatefulLayer) and hasattr(node, "inference")


def _copy(state: PyTree) -> PyTree:
    # A state of Equinox is invalid once another has been made of it.
    return jax.tree.map(lambda leaf: leaf, state)


def _split(output: Any) -> tuple[Any, PyTree]:
    if not (isinstance(output, tuple) and len(output) == 2):
        raise ValueError(
            f"call takes a state, so it must return (output, state); it returned a "
            f"{type(output).__name__}."
        )
    return output


def _cast(tree: PyTree, dtype: DTypeLike) -> PyTree:
    def cast(leaf: Any) -> Any:
        is_number = eqx.is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, dtype) if is_number else leaf

    return jax.tree.map(cast, tree)
