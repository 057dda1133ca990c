"""All that is unknown in a model, as one vector without bounds, and the way back.

The unknowns are

- the weights under the prior: `z` in the expanded form, `w = xi z` in the hierarchical one;
- the scales `xi`, in coordinates `u` that may take any value;
- everything else that training adjusts, on which the model puts no prior: biases, norms, weights
  without a prior, the likelihood's noise level. Each of these is given a wide Gaussian, because
  there would be no posterior otherwise.

Discrete scales are not part of the vector: they form a vector of bits beside it.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from scalemix._special import log_normal
from scalemix._types import PyTree
from scalemix.model.model import Model
from scalemix.model.prior import log_prior_terms
from scalemix.model.site_prior import Parametrization
from scalemix.networks.placing import Scales, get_weights, weight_leaves


class Sample(NamedTuple):
    """One sample: the model with its weights `w` in place, and their scales."""

    model: Model
    scales: Scales


class Unknowns(eqx.Module):
    """The coordinates of a model's unknowns, and their prior.

    What the network learns without a prior of its own has a Gaussian of mean zero and standard
    deviation `free_scale`; what the likelihood learns, one of `likelihood_scale`.
    """

    model: Model
    parametrization: Parametrization = eqx.field(static=True)
    free_scale: float = eqx.field(static=True)
    likelihood_scale: float = eqx.field(static=True)

    @property
    def _signed(self) -> bool:
        """Whether the sign of the noise matters; in the hierarchical form only `xi^2` does."""
        return self.parametrization == "expanded"

    def _blank(self, *, discrete: bool) -> Scales:
        """Coordinates at zero of the scales that are discrete, or of those that are not."""
        dtype = bool if discrete else self.model.dtype
        return {
            prior.name: {
                group: jnp.zeros(shape, dtype)
                for group, shape in prior.scale_shapes.items()
                if prior.groups[group].is_discrete == discrete
            }
            for prior in self.model.site_priors
        }

    def form(self) -> tuple[PyTree, Scales]:
        """What the vector consists of: here the model's own values, and scales at zero."""
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
        scales = self._scales(self._with_bits(coordinates, bits))
        model = self.model.with_learned(learned)
        if self.parametrization == "expanded":
            model = model.with_weights(
                {p.name: p.weight * p.expand(scales[p.name]) for p in model.site_priors}
            )
        return Sample(model, scales)

    def _with_bits(self, coordinates: Scales, bits: Array) -> Scales:
        """The coordinates of all scales, continuous and discrete."""
        included = self.unravel_bits(bits)
        return {name: coordinates[name] | included[name] for name in coordinates}

    def _scales(self, coordinates: Scales) -> Scales:
        return {
            prior.name: {
                group: mixture.to_noise(coordinates[prior.name][group], signed=self._signed).astype(
                    self.model.dtype
                )
                for group, mixture in prior.groups.items()
            }
            for prior in self.model.site_priors
        }

    def log_prior(self, position: Array, bits: Array) -> Array:
        """Log density of a position (and log mass of the bits), Jacobians included.

        It has the terms of the model's `log_prior`, with `log p(u)` in place of `log p(xi)`, and
        those of the wide Gaussians on everything else.
        """
        learned, coordinates = self.unravel(position)
        coordinates = self._with_bits(coordinates, bits)
        priors = self.model.site_priors
        scale_log_probs = {
            prior.name: {
                group: mixture.coordinate_log_prob(
                    coordinates[prior.name][group], signed=self._signed
                )
                for group, mixture in prior.groups.items()
            }
            for prior in priors
        }
        weights = get_weights(learned.network, self.model.sites)
        scales = self._scales(coordinates)
        terms = log_prior_terms(priors, weights, scales, scale_log_probs, self.parametrization)
        return sum(terms, start=self._log_prior_of_the_rest(learned))

    def _log_prior_of_the_rest(self, learned: PyTree) -> Array:
        sites = self.model.sites
        rest = eqx.tree_at(
            lambda net: weight_leaves(net, sites), learned.network, replace_fn=lambda _: None
        )
        total = jnp.zeros(())
        for tree, scale in ((rest, self.free_scale), (learned.likelihood, self.likelihood_scale)):
            for leaf in jax.tree.leaves(tree):
                total = total + jnp.sum(log_normal(leaf, scale))
        return total
