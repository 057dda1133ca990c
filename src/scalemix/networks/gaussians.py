"""Puts Gaussian weights into a network: the weights that it holds are the means.

The deviations are given beside it, by site. In prediction the weights are drawn, one network for
any number of examples. In training each example has weights of its own, and one draw of a weight
holds wherever the network uses it for that example, at the price of a second product:

- A weight that acts once on an example is never drawn. Its product with the data is (local
  reparametrization, `LocalGaussian`), or the part that is looked up of it.
- A weight that acts more often, at each position of a convolution or each step of a sequence, is
  `W = mu + (sigma * eps) * (r s')` with one `eps` for all examples and random signs `r` and `s` of
  each example's own (Flipout, Wen et al. 2018): for each example exactly a draw.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, PRNGKeyArray

from scalemix._random import normals, normals_of, signs
from scalemix._types import PyTree
from scalemix.networks.deferred import (
    Deferred,
    Factored,
    LocalGaussian,
    Lookup,
    Loop,
    Part,
    Probe,
    Term,
    Use,
    holds,
)
from scalemix.networks.placing import put_weights, run_with_weights
from scalemix.networks.rows import row_keys, train_rows
from scalemix.networks.sites import Site


class Uses(NamedTuple):
    """How a network uses its weights on one example."""

    once: dict[str, tuple[int, ...]]
    """The sites whose weights act once, with the shape of the product in which they do, or of the
    part that is taken of them."""
    often: dict[str, Site]
    """All others."""
    in_loops: bool
    """Whether some of these act in loops, such as one over the steps of a sequence."""


def find_uses(
    network: PyTree, sites: tuple[Site, ...], x: PyTree, key: PRNGKeyArray | None = None
) -> Uses:
    """How often each weight acts on an example of a batch `x`, found by tracing the network."""
    seen: dict[str, list[Any]] = {site.name: [] for site in sites}

    def probe(pass_one: Callable[..., Any]) -> Any:
        probes = {
            site.name: Probe(jnp.zeros_like(site.weight(network)), seen[site.name].append)
            for site in sites
        }
        return pass_one(lambda *given: run_with_weights(network, sites, probes, *given))

    keys = None if key is None else row_keys(network, key, jax.tree.leaves(x)[0].shape[:1])
    jax.eval_shape(lambda x, keys: train_rows(probe, network, x, keys), x, keys)
    once = {
        site.name: only.shape
        for site in sites
        if (only := _only(seen[site.name])) is not None
        and (isinstance(only, Part) or _is_one_product(only, site.weight(network).dtype))
    }
    often = {site.name: site for site in sites if site.name not in once}
    in_loops = any(isinstance(use, Loop) for uses in seen.values() for use in uses)
    return Uses(once, often, in_loops)


def _only(uses: list[Any]) -> Use | Part | None:
    # What a lookup makes of the weight is a use of its own.
    acts = [use for use in uses if not isinstance(use, Lookup)]
    return acts[0] if len(acts) == 1 and isinstance(acts[0], Use | Part) else None


def _is_one_product(use: Use, dtype: DTypeLike) -> bool:
    # The data are squared, in their own type.
    return use.product.once and holds(use.product.data.dtype, dtype)


class Noise(NamedTuple):
    """The random numbers of some passes. Each pass has its own `normals` and `signs`; all passes
    share the third.
    """

    normals: Array
    """(..., entries of all products and parts in which weights act once): standard normal."""
    signs: dict[str, dict[int, Array]]
    """For each weight that acts more often and each of its signed axes, one or minus one:
    (..., entries of the axis)."""
    shared: dict[str, Array]
    """Standard normal numbers of the shape of each such weight."""


def draw_noise(uses: Uses, shape: tuple[int, ...], key: PRNGKeyArray) -> Noise:
    """Noise for an array of passes of this shape: examples, or draws of examples."""
    drawn, shared = {}, {}
    if uses.often:
        key, sign_key, shared_key = jax.random.split(key, 3)
        sizes = [math.prod(s) for site in uses.often.values() for s in _signed(site).values()]
        # In pieces at once: a slice of them all would be looked up anew for each entry of the data.
        pieces = iter(_pieces(signs(sign_key, (*shape, sum(sizes))), sizes))
        drawn = {
            name: {axis: next(pieces) for axis in _signed(site)}
            for name, site in uses.often.items()
        }
        sizes = [math.prod(site.shape) for site in uses.often.values()]
        # One draw for all: each is a loop, which takes a while to compile.
        parts = _pieces(normals(shared_key, (sum(sizes),)), sizes)
        shared = {
            name: part.reshape(site.shape)
            for part, (name, site) in zip(parts, uses.often.items(), strict=True)
        }
    return Noise(normals(key, (*shape, sum(map(math.prod, uses.once.values())))), drawn, shared)


def gaussian_weights(
    network: PyTree,
    sites: tuple[Site, ...],
    uses: Uses,
    deviations: dict[str, Array],
    noise: Noise,
    sign: Array,
) -> dict[str, Deferred]:
    """The weights of one pass of one example. With `sign=-1` all its noise has the other sign."""
    means = {site.name: site.weight(network) for site in sites}
    sizes = [math.prod(shape) for shape in uses.once.values()]
    weights: dict[str, Deferred] = {}
    for name, piece in zip(uses.once, _pieces(sign * noise.normals, sizes), strict=True):
        piece = piece.astype(means[name].dtype)
        weights[name] = LocalGaussian(means[name], deviations[name] ** 2, piece)
    for name, site in uses.often.items():
        dtype = means[name].dtype
        own = {
            axis: noise.signs[name][axis].reshape(shape).astype(dtype)
            for axis, shape in _signed(site).items()
        }
        # The sign goes to one axis only: on both it would cancel.
        one = min(own)
        own[one] = sign.astype(dtype) * own[one]
        perturbation = Term(deviations[name] * noise.shared[name].astype(dtype), own)
        weights[name] = Factored((Term(means[name], {}), perturbation), site.num_stacked)
    return weights


def _signed(site: Site) -> dict[int, tuple[int, ...]]:
    """The axes of a weight that have signs, two where there are as many, and the shapes of these.

    Rows and outputs, or tokens, have them: there signs can move to the data and to the output.
    """
    first = [site.axis(along) for along in ("row", "output", "token")]
    axes = dict.fromkeys([*first, *range(len(site.layer_shape))])
    signed = sorted([axis for axis in axes if axis is not None][:2])
    return {axis: (*site.stack, site.layer_shape[axis]) for axis in signed}


def _pieces(values: Array, sizes: list[int]) -> list[Array]:
    return jnp.split(values, np.cumsum(sizes)[:-1], axis=-1) if sizes else []


def draw_network(
    network: PyTree, sites: tuple[Site, ...], deviations: dict[str, Array], key: PRNGKeyArray
) -> PyTree:
    """The network with weights drawn at every site: one function, for any number of examples."""
    means = {site.name: site.weight(network) for site in sites}
    drawn = normals_of(jax.random.split(key, len(sites)), list(means.values()))
    weights = {
        name: mean + deviations[name] * normal
        for (name, mean), normal in zip(means.items(), drawn, strict=True)
    }
    return put_weights(network, sites, weights)
