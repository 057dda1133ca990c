"""Modules of Flax NNX as networks."""

import dataclasses
import importlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalemix._types import PyTree
from scalemix.networks.path_rules import PathRule
from scalemix.networks.trees import FunctionNetwork, from_function


def from_nnx(module: Any, *, rules: Sequence[PathRule] | None = None) -> FunctionNetwork:
    """A network from a module of Flax NNX.

    Its parameters become a tree of dicts, under the names that they have in the module:
    `params.layers.0.kernel`. The module itself is never changed. Flax must be installed:
    `pip install flax`.

    Parameters
    ----------
    module : nnx.Module
        A module that takes one example, without a batch axis. Noise comes from the prior: switch
        off dropout of its own by `module.eval()`. Variables other than `nnx.Param`, such as the
        running averages of `nnx.BatchNorm`, are refused.
    rules : sequence of PathRule, optional
        As in `from_function`.

    Returns
    -------
    FunctionNetwork
        A network that is called as `network(x)`.

    Raises
    ------
    ValueError
        If it is no such module, holds state besides its parameters, or has dropout switched on.

    Examples
    --------
    >>> from flax import nnx
    >>> net = sx.networks.from_nnx(nnx.Linear(8, 1, rngs=nnx.Rngs(0)))
    >>> sx.Model(net, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian())
    Model(FunctionNetwork, ARD on 1 sites, Gaussian)
    """
    nnx = _import_nnx()
    if not isinstance(module, nnx.Module) or not callable(module):
        raise ValueError(
            f"from_nnx takes a module of flax.nnx that can be called; got "
            f"{type(module).__name__}. For one of flax.linen, use from_function(lambda params, x: "
            f"module.apply({{'params': params}}, x), params)."
        )
    for path, part in nnx.iter_modules(module):
        if getattr(part, "deterministic", None) is False:
            raise ValueError(
                f"{type(part).__name__} at {_joined(path)!r} is in training mode and draws noise "
                f"of its own. Noise comes from the prior here: switch it off by module.eval()."
            )
    # What is left besides parameters are the keys of layers that draw nothing in this mode.
    form, params, state, keys = nnx.split(module, nnx.Param, nnx.Not(nnx.RngState), ...)
    others = [
        f"{_joined(path)} ({type(value).__name__})" for path, value in nnx.to_flat_state(state)
    ]
    if others:
        raise ValueError(
            f"The module holds state besides its parameters: {', '.join(others)}. A fit infers "
            f"parameters and keeps no other state: use a norm without running averages, such as "
            f"nnx.LayerNorm or nnx.GroupNorm."
        )
    seeds = tuple(_as_bytes(leaf) for leaf in jax.tree.leaves(keys))
    return from_function(_Call(form, keys, seeds), nnx.to_pure_dict(params), rules=rules)


@dataclasses.dataclass(frozen=True)
class _Call:
    """A module as a function of its parameters: equal to that of any other module of its form."""

    form: Any
    keys: Any = dataclasses.field(compare=False)
    seeds: tuple[bytes, ...]
    """The keys once more, in a form that can be compared."""

    def __call__(self, params: PyTree, *args: Any, **kwargs: Any) -> Any:
        nnx = _import_nnx()
        return nnx.merge(self.form, nnx.State(params), self.keys)(*args, **kwargs)


def _as_bytes(leaf: Any) -> bytes:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf).tobytes()


def _import_nnx() -> Any:
    try:
        return importlib.import_module("flax.nnx")
    except ImportError:
        raise ImportError("from_nnx needs Flax: pip install flax.") from None


def _joined(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path)) or "the top"


def flax_advice(network: Any) -> str:
    """What to call on a module of Flax that was given as a network; nothing for anything else."""
    homes = [base.__module__ for base in type(network).__mro__]
    if any(home.startswith("flax.nnx") for home in homes):
        return "A module of Flax NNX becomes a network by scalemix.networks.from_nnx(module)."
    if any(home.startswith("flax.linen") for home in homes):
        return (
            "A module of Flax Linen becomes a network by scalemix.networks.from_function("
            "lambda params, x: module.apply({'params': params}, x), params)."
        )
    return ""
