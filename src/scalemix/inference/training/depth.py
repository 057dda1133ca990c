"""How layers that a prior may switch off come into play: one after the other.

Noise in the weights of many residual layers adds up, and so do their steps. If all layers start
alike they also share the work evenly, and then none of them can be switched off without a loss. So
the l-th of them starts with `1 / l` of the deviation and takes `1 / l` of each step. The first
layers learn as those of a shallow network do, and a later one is taken up as far as those
before it have left something to do. Neither depends on how many more layers there are.
"""

import equinox as eqx
import jax

from scalemix._types import PyTree
from scalemix.model.model import Model
from scalemix.networks.placing import weight_leaves


def places_in_depth(model: Model) -> dict[str, int]:
    """The place of each site among those that can be switched off whole, from one; else one."""
    # By the sites, which keep the network's order. JAX sorts a dict by its names.
    names = [site.name for site in model.sites]
    optional = [name for name in names if model.structures[name].needs_path_around]
    return dict.fromkeys(names, 1) | {name: i for i, name in enumerate(optional, start=1)}


def shares_of_steps(model: Model, means: PyTree) -> PyTree:
    """The share of each step that a learned array takes: the means of weights by their place."""
    places = places_in_depth(model)
    shares = [1 / places[site.name] for site in model.sites for _ in site.parts]
    full = jax.tree.map(lambda _: 1.0, means)
    return eqx.tree_at(lambda m: weight_leaves(m.network, model.sites), full, shares)
