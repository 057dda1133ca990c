"""Rows of weights taken out one by one, while those that stay make up for them.

The prior's signal to noise takes each row by itself: two neighbouring pixels that say the same are
both far above the noise, although either could go. Here the noise is that of a posterior with
correlations. With the second moments C of what a dense layer reads, and those of the slopes G of
the loss with respect to what it puts out, the posterior's precision is about the product of both
(as in K-FAC). A row w of weights then costs `w G w / (C^-1)` of its diagonal, which is what the
loss rises by if the row goes and all others follow: the rule of the optimal brain surgeon
(Hassibi and Stork, 1993).
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix.reproduce.compression.networks import POSITIONS, LeNet5, Network, Rows
from scalemix.reproduce.compression.scores import in_parts

# What is added to the second moments, as a share of their mean, so that they have an inverse.
RIDGE = 1e-5


class Moments(NamedTuple):
    """Second moments at a dense layer, over images."""

    inputs: np.ndarray
    """Of what it reads, and of one, which stands for the bias."""
    slopes: np.ndarray
    """Of the slopes of the loss with respect to what it puts out."""


def shrunk(
    network: Network, images: np.ndarray, most: int, noise: Mapping[str, float], softness: float
) -> Network:
    """The network, narrowed with room to spare, with no more than `most` weights.

    What goes next is what costs least for each weight that is saved: an input of a dense layer, or
    all that is read of a channel. `noise` is that of the refit, under which inputs are seen.
    """
    rows = {site: on.copy() for site, on in network.rows_in_use().items()}
    moments = measure(network, images, softness)
    sites = [site for site in network.sites if site in moments]
    layers = {
        site: _Layer(getattr(network, site), moments[site], rows[site], noise.get(site, 0.0))
        for site in sites
    }
    before = dict(zip(sites[1:], sites, strict=False))
    left = network.count(rows).weights
    while left > most:
        best = None
        for site, group, cost in _candidates(network, layers, rows):
            smaller = rows | {site: rows[site] & ~_mask(group, len(rows[site]))}
            weights = network.count(smaller).weights
            # Room below the limit is of no use.
            price = cost / min(left - weights, left - most)
            if best is None or price < best[0]:
                best = price, site, group, smaller, weights
        if best is None:
            raise ValueError(f"No network of this kind has {most} weights or fewer.")
        _, site, group, rows, left = best
        layers[site].drop(group)
        if site in before:
            layers[before[site]].drop_outputs(group)
    for site, layer in layers.items():
        network = eqx.tree_at(
            lambda n, s=site: (getattr(n, s).weight, getattr(n, s).bias), network,
            (jnp.asarray(layer.weight[:, :-1], jnp.float32),
             jnp.asarray(layer.weight[:, -1], jnp.float32)),
        )  # fmt: skip
    return network.with_rows(rows)


def measure(network: Network, images: np.ndarray, softness: float) -> dict[str, Moments]:
    """The moments of all dense layers; the loss is that of outputs divided by the softness."""
    sums = _sums(network, in_parts(images), jnp.float32(softness))
    return {
        site: Moments(*(np.asarray(part, np.float64) / len(images) for part in parts))
        for site, parts in sums.items()
    }


class _Layer:
    """A dense layer that loses inputs."""

    def __init__(self, layer: eqx.nn.Linear, moments: Moments, on: np.ndarray, noise: float):
        weight = np.column_stack([np.asarray(layer.weight), np.asarray(layer.bias)])
        self.weight: np.ndarray = weight.astype(np.float64)
        values, vectors = np.linalg.eigh(moments.slopes)
        self.root: np.ndarray = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        here = np.append(on, True)
        square = moments.inputs[np.ix_(here, here)]
        power = np.diag(square).copy()
        power[-1] = 0.0
        square += np.diag(noise**2 * power + RIDGE * power.mean())
        # Inputs that are off have no part in the inverse, and none of their weights count.
        self.inverse: np.ndarray = np.zeros((len(here), len(here)))
        self.inverse[np.ix_(here, here)] = np.linalg.inv(square)
        self.weight[:, ~here] = 0.0
        # The weights as the loss sees them: the sum of squares of a column is what it counts for.
        self.seen: np.ndarray = self.root @ self.weight
        self.on: np.ndarray = on.copy()

    def costs(self) -> np.ndarray:
        """What it costs to drop each input by itself, infinite where it is off."""
        costs = np.full(len(self.on), np.inf)
        rise = np.sum(self.seen[:, :-1] ** 2, axis=0)
        costs[self.on] = rise[self.on] / np.diag(self.inverse)[:-1][self.on]
        return costs

    def cost(self, group: np.ndarray) -> float:
        """What it costs to drop these inputs together."""
        seen = self.seen[:, group]
        inner = np.linalg.inv(self.inverse[np.ix_(group, group)])
        return float(np.sum((seen.T @ seen) * inner))

    def drop(self, group: np.ndarray) -> None:
        """Drop these inputs, for which the others make up."""
        follow = np.linalg.solve(self.inverse[np.ix_(group, group)], self.inverse[group])
        for values in (self.weight, self.seen, self.inverse):
            values -= values[:, group] @ follow
            values[:, group] = 0.0
        self.inverse[group] = 0.0
        self.on[group] = False

    def drop_outputs(self, group: np.ndarray) -> None:
        """Leave out what nothing reads any more."""
        self.root[:, group] = 0.0
        self.seen = self.root @ self.weight


def _candidates(
    network: Network, layers: Mapping[str, _Layer], rows: Rows
) -> list[tuple[str, np.ndarray, float]]:
    """Site, inputs and cost of what may go next: the cheapest input of each layer, and channels."""
    candidates = []
    for site, layer in layers.items():
        if layer.on.sum() > 1:
            costs = layer.costs()
            place = int(np.argmin(costs))
            candidates.append((site, np.array([place]), float(costs[place])))
    if isinstance(network, LeNet5):
        layer = layers["dense1"]
        by_channel = rows["dense1"].reshape(-1, POSITIONS)
        if by_channel.any(axis=1).sum() > 1:
            for channel in np.flatnonzero(by_channel.any(axis=1)):
                group = channel * POSITIONS + np.flatnonzero(by_channel[channel])
                candidates.append(("dense1", group, layer.cost(group)))
    return candidates


def _mask(group: np.ndarray, size: int) -> np.ndarray:
    mask = np.zeros(size, bool)
    mask[group] = True
    return mask


# An inverse of what the units for products of matrices round off would be of little use.
_products = functools.partial(jnp.einsum, precision="highest")


@eqx.filter_jit
def _sums(network: Network, parts: Array, softness: Array) -> dict[str, tuple[Array, Array]]:
    """Sums over images of the products of inputs and of slopes, layer by layer."""

    def of_image(x: Array) -> dict[str, tuple[Array, Array]]:
        readings = network.readings(x)

        def output(shifts: dict[str, Array]) -> Array:
            where = lambda n: [getattr(n, site).bias for site in readings]  # noqa: E731
            shifted = [getattr(network, site).bias + shifts[site] for site in readings]
            return eqx.tree_at(where, network, shifted)(x) / softness

        zero = {site: jnp.zeros_like(getattr(network, site).bias) for site in readings}
        shares = jax.nn.softmax(output(zero))
        # Its square is the curvature of the loss, diag(p) - p p'.
        root = jnp.diag(jnp.sqrt(shares)) - jnp.outer(jnp.sqrt(shares), shares)
        slopes = {site: root @ slope for site, slope in jax.jacrev(output)(zero).items()}
        return {site: (jnp.append(readings[site], 1.0), slopes[site]) for site in readings}

    def add(total: dict, part: Array) -> tuple[dict, None]:
        # Padding has no pixel that is on.
        seen = jnp.any(part != 0, axis=(1, 2)).astype(part.dtype)
        values = jax.vmap(of_image)(part)
        new = {
            site: (
                total[site][0] + _products("ni,n,nj->ij", inputs, seen, inputs),
                total[site][1] + _products("nci,n,ncj->ij", slopes, seen, slopes),
            )
            for site, (inputs, slopes) in values.items()
        }
        return new, None

    shapes = jax.eval_shape(of_image, parts[0, 0])

    def square(like: jax.ShapeDtypeStruct) -> Array:
        return jnp.zeros((like.shape[-1], like.shape[-1]), like.dtype)

    return jax.lax.scan(add, jax.tree.map(square, shapes), parts)[0]
