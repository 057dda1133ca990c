"""All that is unknown in a model, as one vector without bounds, and the way back.

The unknowns are the weights under the prior (`z` in the expanded form, `w = xi z` in the
hierarchical one), the scales `xi` in coordinates `u` that may take any value, and everything else
that training adjusts, which the model's prior says nothing about: biases, norms, weights without a
prior, the likelihood's noise level. Those are given wide Gaussians, without which there would be
no posterior. Bernoulli scales are discrete, and stand beside the vector as a vector of bits.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from scalemix._parameters import Real, as_array
from scalemix._special import log_normal
from scalemix.mixtures import Bernoulli, Gaussian, ScaleMixture
from scalemix.model.model import Model
from scalemix.model.prior import Parametrization
from scalemix.networks.placing import Scales, expand_scales


class Sample(NamedTuple):
    """One sample: the model with its weights `w` in place, and the scales they have."""

    model: Model
    scales: Scales


class Unknowns(eqx.Module):
    """The coordinates of a model's unknowns, and the prior of them.

    `free_scale` is the standard deviation of what the network learns without a prior of its own,
    `likelihood_scale` that of what the likelihood learns; both are around zero.
    """

    model: Model
    parametrization: Parametrization = eqx.field(static=True)
    free_scale: float = eqx.field(static=True)
    likelihood_scale: float = eqx.field(static=True)

    def groups(self, *, discrete: bool) -> dict[str, dict[str, ScaleMixture]]:
        """The mixtures whose scales are discrete, or those whose are not, by site and group."""
        return {
            site.name: {
                group: mixture
                for group, mixture in self.model.structures[site.name].groups.items()
                if isinstance(mixture, Bernoulli) == discrete
            }
            for site in self.model.sites
        }

    def _blank(self, *, discrete: bool) -> Scales:
        shapes, dtype = self.model.scale_shapes, next(iter(self.model.weights.values())).dtype
        return {
            name: {g: jnp.zeros(shapes[name][g], bool if discrete else dtype) for g in groups}
            for name, groups in self.groups(discrete=discrete).items()
        }

    def form(self) -> tuple[PyTree, Scales]:
        """What the vector is made of: the values of the model itself, scales at zero."""
        return eqx.filter(self.model, self.model.learnable()), self._blank(discrete=False)

    def unravel(self, position: Array) -> tuple[PyTree, Scales]:
        """What is learned, and the coordinates of the continuous scales."""
        return ravel_pytree(self.form())[1](position)

    def unravel_bits(self, bits: Array) -> Scales:
        """The inclusion variables, by site and group."""
        return ravel_pytree(self._blank(discrete=True))[1](bits)

    @property
    def num_bits(self) -> int:
        """How many scales are discrete."""
        return sum(leaf.size for leaf in jax.tree.leaves(self._blank(discrete=True)))

    def place(self, position: Array, bits: Array) -> Sample:
        """The model and the scales that a position stands for."""
        learned, coordinates = self.unravel(position)
        scales = self._scales(coordinates, bits)
        model = self.model.with_learned(learned)
        if self.parametrization == "expanded":
            model = model.with_weights(
                {
                    site.name: site.weight(model.network)
                    * expand_scales(site, site.layer(model.network), scales[site.name])
                    for site in model.sites
                }
            )
        return Sample(model, scales)

    def _scales(self, coordinates: Scales, bits: Array) -> Scales:
        included = self.unravel_bits(bits)
        scales: Scales = {}
        for name, structure in self.model.structures.items():
            scales[name] = {}
            for group, mixture in structure.groups.items():
                if isinstance(mixture, Bernoulli):
                    on = included[name][group]
                    dtype = next(iter(self.model.weights.values())).dtype
                    scales[name][group] = jnp.where(on, mixture.value, 0.0).astype(dtype)
                else:
                    u = coordinates[name][group]
                    scales[name][group] = to_noise(mixture, u, self.parametrization)
        return scales

    def log_prior(self, position: Array, bits: Array) -> Array:
        """Log density of a position (and log mass of the bits), Jacobians included.

        expanded:      `sum log N(z; 0, s0^2)      + sum log p(u)`
        hierarchical:  `sum log N(w; 0, s0^2 xi^2) + sum log p(u)`
        """
        learned, coordinates = self.unravel(position)
        scales = self._scales(coordinates, bits)
        model = self.model
        total = self._log_prior_of_the_rest(learned)
        for site in model.sites:
            structure, weight = model.structures[site.name], site.weight(learned.network)
            deviation = as_array(structure.scale)
            if self.parametrization == "hierarchical":
                noise = expand_scales(site, site.layer(model.network), scales[site.name])
                deviation = jnp.abs(noise) * deviation
            total = total + jnp.sum(log_normal(weight, deviation))
            for group, mixture in structure.groups.items():
                if isinstance(mixture, Bernoulli):
                    density = mixture.log_prob(scales[site.name][group])
                else:
                    u = coordinates[site.name][group]
                    density = coordinate_log_prob(mixture, u, self.parametrization)
                total = total + jnp.sum(density)
        return total

    def _log_prior_of_the_rest(self, learned: PyTree) -> Array:
        sites = self.model.sites
        rest = eqx.tree_at(
            lambda net: [site.weight(net) for site in sites], learned.network,
            replace_fn=lambda _: None,
        )  # fmt: skip
        total = jnp.zeros(())
        for tree, scale in ((rest, self.free_scale), (learned.likelihood, self.likelihood_scale)):
            for leaf in jax.tree.leaves(tree):
                total = total + jnp.sum(log_normal(leaf, scale))
        return total


# Coordinates of one mixture's noise. Positive noise is `exp(u)`, bounded noise runs along a
# sigmoid, and noise of either sign is `mean + std u`, unless its sign does not matter because only
# `xi^2` has a say: then its magnitude is `exp(u)`.


def to_noise(mixture: ScaleMixture, u: Array, parametrization: Parametrization) -> Array:
    """The noise at these coordinates."""
    low, high = mixture.support
    if isinstance(mixture, Gaussian) and parametrization == "expanded":
        return mixture.mean + mixture.std * u
    if _is_infinite(high):
        return jnp.exp(u)
    # Weights divided by noise of zero would be infinite.
    return low + (high - low) * jnp.maximum(jax.nn.sigmoid(u), jnp.finfo(u.dtype).eps ** 4)


def to_coordinate(mixture: ScaleMixture, noise: Array, parametrization: Parametrization) -> Array:
    """The coordinates of this noise: the inverse of `to_noise`, but for a sign that is lost."""
    low, high = mixture.support
    if isinstance(mixture, Gaussian) and parametrization == "expanded":
        return (noise - mixture.mean) / mixture.std
    tiny = jnp.finfo(noise.dtype).tiny
    if _is_infinite(high):
        return jnp.log(jnp.maximum(jnp.abs(noise), tiny))
    eps = jnp.finfo(noise.dtype).eps
    share = jnp.clip((noise - low) / (high - low), tiny, 1 - eps)
    return jnp.log(share) - jnp.log1p(-share)


def coordinate_log_prob(mixture: ScaleMixture, u: Array, parametrization: Parametrization) -> Array:
    """Log density of the coordinates: `log p(xi) + log |dxi / du|`."""
    if not _is_infinite(mixture.support[1]):
        return mixture.logit_log_prob(u)
    noise = to_noise(mixture, u, parametrization)
    if isinstance(mixture, Gaussian):
        if parametrization == "expanded":
            return mixture.log_prob(noise) + jnp.log(mixture.std)
        return jnp.logaddexp(mixture.log_prob(noise), mixture.log_prob(-noise)) + u
    return mixture.log_prob(noise) + u


def _is_infinite(end: Real) -> bool:
    return isinstance(end, float) and math.isinf(end)
