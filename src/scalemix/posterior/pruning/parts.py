"""Dense layers as plain arrays, with all that is believed of them, to be cut and reassembled."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix._types import PyTree
from scalemix.model.assembly import assemble
from scalemix.model.model import Model
from scalemix.networks import MLP, ResNet
from scalemix.networks.groups import GROUPS
from scalemix.posterior.networks import Beside, Networks
from scalemix.structures import Structure

ADVICE = (
    "prune(mask_only=True) works for any network: it sets the weights of what is off to zero and "
    "leaves the shapes alone."
)


@dataclasses.dataclass(frozen=True)
class Part:
    """A dense layer. Its weight is (outputs, rows), as in Equinox."""

    weight: np.ndarray
    mean: np.ndarray
    """The weight's mean under its noise; without noise, the weight itself."""
    bias: np.ndarray | None
    structure: Structure | None
    deviation: np.ndarray | None
    variances: dict[str, np.ndarray]

    @property
    def reaches(self) -> np.ndarray:
        """Which weights are not certainly zero, so that something can pass."""
        reaches = self.weight != 0
        return reaches if self.deviation is None else reaches | (self.deviation != 0)

    def take(self, *, rows: Any = slice(None), outputs: Any = slice(None)) -> "Part":
        """The layer with these rows and outputs alone."""

        def cut(matrix: np.ndarray) -> np.ndarray:
            return matrix[outputs][:, rows]

        return dataclasses.replace(
            self,
            weight=cut(self.weight),
            mean=cut(self.mean),
            bias=None if self.bias is None else self.bias[outputs],
            deviation=None if self.deviation is None else cut(self.deviation),
            variances={g: GROUPS[g].take(v, rows, outputs) for g, v in self.variances.items()},
        )

    def fold(self, constant: np.ndarray) -> "Part":
        """The layer with a constant input moved into its bias, at the mean weights."""
        added = (self.mean.astype(np.float64) @ constant).astype(self.weight.dtype)
        if not added.any():
            return self
        return dataclasses.replace(self, bias=added if self.bias is None else self.bias + added)

    def only(self, rows: np.ndarray | None = None, outputs: np.ndarray | None = None) -> "Part":
        """The layer with all weights set to zero except those of these rows and outputs."""
        keep = np.ones(self.weight.shape, self.weight.dtype)
        keep = keep if rows is None else keep * rows.astype(keep.dtype)
        keep = keep if outputs is None else keep * outputs.astype(keep.dtype)[:, None]
        deviation = None if self.deviation is None else self.deviation * keep
        return dataclasses.replace(
            self, weight=self.weight * keep, mean=self.mean * keep, deviation=deviation
        )

    def response(self, activation: Callable[[Array], Array]) -> np.ndarray:
        """What the activation makes of the bias alone."""
        bias = np.zeros(len(self.weight), self.weight.dtype) if self.bias is None else self.bias
        return np.asarray(activation(jnp.asarray(bias)), np.float64)


Parts = dict[str, Part]
"""The layers of one network, by name, in order."""


def check_network(model: Model) -> None:
    """Raise `ValueError` unless units can be taken out of networks of this kind."""
    problem = _problem(model.network)
    if model.frozen:
        problem = f"of this one some arrays are frozen ({', '.join(model.frozen)}) and stay whole"
    if problem:
        raise ValueError(
            f"prune takes units and layers out of scalemix.networks.MLP and ResNet, and of "
            f"equinox.nn.MLP; {problem}. {ADVICE}"
        )


def _problem(network: PyTree) -> str | None:
    if type(network) not in (MLP, ResNet, eqx.nn.MLP):
        return f"this network is a {type(network).__name__}"
    if isinstance(network, eqx.nn.MLP):
        plain = eqx.nn.MLP(1, 1, 1, 1, key=jax.random.key(0))
        if network.scan:
            return "this MLP keeps its layers stacked (scan=True)"
        if network.final_activation not in (plain.final_activation, jax.nn.identity):
            return "this MLP has a final_activation"
    for name, layer in layers_of(network).items():
        if type(layer) is not eqx.nn.Linear:
            return f"layer {name!r} of this network is a {type(layer).__name__}, not a Linear"
    if not _acts_on_each_unit(network.activation):
        return "the activation of this one has weights of its own, or mixes units"
    return None


def _acts_on_each_unit(activation: Any) -> bool:
    if any(eqx.is_array(leaf) for leaf in jax.tree.leaves(activation)):
        return False
    values = jnp.linspace(-2.0, 2.0, 7)
    try:
        together, each = activation(values), jax.vmap(activation)(values)
    except Exception:
        # Whatever someone else's function raises where it wants another shape.
        return False
    return together.shape == values.shape and bool(jnp.allclose(together, each, atol=1e-5))


def layers_of(network: PyTree) -> dict[str, Any]:
    """The layers of a network of a known kind, by the names of their sites."""
    if isinstance(network, ResNet):
        blocks = {f"blocks.{i}": block for i, block in enumerate(network.blocks)}
        return {"first": network.first, **blocks, "last": network.last}
    return {f"layers.{i}": layer for i, layer in enumerate(network.layers)}


def take_apart(networks: Networks) -> Parts:
    """The layers of one network."""
    moments, beside = networks.weight_moments(), networks.beside()
    parts = {}
    for name, layer in layers_of(networks.model.network).items():
        weight = np.asarray(layer.weight)
        # A layer without a prior has nothing but its weight.
        deviation, variances = beside.get(name, Beside(None, {}))
        parts[name] = Part(
            weight=weight,
            mean=np.asarray(moments[name].mean) if name in moments else weight,
            bias=None if layer.bias is None else np.asarray(layer.bias),
            structure=networks.model.structures.get(name),
            deviation=None if deviation is None else np.asarray(deviation),
            variances={group: np.asarray(values) for group, values in variances.items()},
        )
    return parts


def put_together(parts: Parts, like: Networks) -> Networks:
    """Networks of the same kind as `like`, made of these layers."""
    network, ends = like.model.network, [*layers_of(like.model.network).values()]
    sizes = {"in": ends[0].in_features, "out": ends[-1].out_features}
    names = [*parts]
    layers = [
        _linear(
            part,
            sizes["in"] if name == names[0] and sizes["in"] == "scalar" else part.weight.shape[1],
            sizes["out"] if name == names[-1] else part.weight.shape[0],
        )
        for name, part in parts.items()
    ]
    if isinstance(network, ResNet):
        fields = {"first": layers[0], "blocks": tuple(layers[1:-1]), "last": layers[-1]}
    else:
        # An Equinox MLP has one width for all layers; ours need not.
        network = eqx.filter_eval_shape(
            MLP, 1, 1, 1, 0, activation=network.activation, key=jax.random.key(0)
        )
        fields = {"layers": tuple(layers)}
    network = eqx.tree_at(
        lambda net: [getattr(net, f) for f in fields], network, [*fields.values()]
    )
    under = {name: part for name, part in parts.items() if part.structure is not None}
    structures: Any = {name: part.structure for name, part in under.items()}
    model = assemble(network, structures, like.model.likelihood)
    return like.rebuilt(model, {name: _beside(part) for name, part in under.items()})


def _beside(part: Part) -> Beside:
    return Beside(
        None if part.deviation is None else jnp.asarray(part.deviation),
        {group: jnp.asarray(values) for group, values in part.variances.items()},
    )


def _linear(part: Part, in_size: Any, out_size: Any) -> eqx.nn.Linear:
    layer = eqx.filter_eval_shape(
        eqx.nn.Linear, in_size, out_size, use_bias=part.bias is not None, key=jax.random.key(0)
    )
    layer = eqx.tree_at(lambda node: node.weight, layer, jnp.asarray(part.weight))
    if part.bias is None:
        return layer
    return eqx.tree_at(lambda node: node.bias, layer, jnp.asarray(part.bias))
