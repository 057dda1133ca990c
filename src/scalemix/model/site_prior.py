"""A site together with the structure that stands on it and with its layer."""

import math
from collections.abc import Iterator
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PRNGKeyArray

from scalemix._special import log_normal
from scalemix.mixtures import ScaleMixture
from scalemix.networks.groups import GROUPS, UNIT
from scalemix.networks.placing import expand_scales
from scalemix.networks.sites import Site
from scalemix.structures import Structure

Parametrization = Literal["hierarchical", "expanded"]
SiteScales = dict[str, Array]
"""The scales of one site, by group; or, in variational EM, their squares."""


def check_parametrization(parametrization: str) -> None:
    """Raise `ValueError` for a word that is none of the two."""
    if parametrization not in get_args(Parametrization):
        raise ValueError(
            f"parametrization must be one of {get_args(Parametrization)}, got {parametrization!r}."
        )


class SitePrior(eqx.Module):
    """One site of a model with the structure that stands on it and its layer.

    `model.site_priors` has one for each site. All that a prior says about one weight matrix, and
    that no method of inference need know, is said here.
    """

    site: Site = eqx.field(static=True)
    structure: Structure
    layer: Any

    @property
    def name(self) -> str:
        """The site's name."""
        return self.site.name

    @property
    def weight(self) -> Array:
        """The weight that the layer holds."""
        return getattr(self.layer, self.site.rule.weight)

    @property
    def groups(self) -> dict[str, ScaleMixture]:
        """The mixture of each group of scales."""
        return self.structure.groups

    @property
    def scale_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each group's scales."""
        return {group: GROUPS[group].shape(self.site) for group in self.groups}

    @property
    def num_scales(self) -> dict[str, int]:
        """How many scales each group has."""
        return {group: math.prod(shape) for group, shape in self.scale_shapes.items()}

    @property
    def by_row(self) -> bool:
        """Whether the weights of a row share all their scales."""
        return all(GROUPS[group].by_row for group in self.groups)

    def expand(self, scales: SiteScales) -> Array:
        """The product of all groups' scales, broadcastable against the weight."""
        return expand_scales(self.site, self.layer, scales)

    def expand_rows(self, scales: SiteScales) -> Array:
        """The product of all groups' scales for each row, where groups go `by_row`."""
        product = jnp.ones((self.site.num_rows,), self.weight.dtype)
        for group, scale in scales.items():
            product = product * GROUPS[group].rows(self.site, scale)
        return product

    def sum_rows(self, values: Array) -> Array:
        """The sum over each row of a value for each weight."""
        return UNIT.sum_weights(self.site, self.layer, values)

    def draw(self, shape: tuple[int, ...], keys: Iterator[PRNGKeyArray]) -> SiteScales:
        """Draws of the scales along leading axes of this shape, a key for each group."""
        return {
            group: mixture.sample(
                shape + self.scale_shapes[group], key=next(keys), dtype=self.weight.dtype
            )
            for group, mixture in self.groups.items()
        }

    def sample_weight(
        self, scales: SiteScales, parametrization: Parametrization, key: PRNGKeyArray
    ) -> Array:
        """A weight given its scales: `z` in the expanded form, `w = xi z` in the hierarchical."""
        self._check_proper()
        z = self.structure.scale * jax.random.normal(key, self.site.shape, self.weight.dtype)
        return z if parametrization == "expanded" else z * self.expand(scales)

    def weight_log_prob(
        self, weight: Array, scales: SiteScales, parametrization: Parametrization
    ) -> Array:
        """Log density of each weight given its scales.

        expanded:      `log N(z; 0, s0^2)`
        hierarchical:  `log N(w; 0, s0^2 xi^2)`
        """
        self._check_proper()
        if parametrization == "expanded":
            return log_normal(weight, self.structure.scale)
        deviation = jnp.abs(self.expand(scales)) * self.structure.scale
        # A scale of zero leaves no density but a point mass at zero, which counts as log 1.
        on = deviation > 0
        slab = log_normal(weight, jnp.where(on, deviation, 1.0))
        return jnp.where(on, slab, jnp.where(weight == 0, 0.0, -jnp.inf))

    def penalty(self, parametrization: Parametrization) -> Array:
        """What the prior takes off the log-likelihood of all data, up to a constant.

        expanded:      `sum w^2 / (2 s0^2)`, the marginal-MAP penalty; the noise is in the network
        hierarchical:  `E[xi^-2] sum w^2 / (2 s0^2)`; the noise is in here
        """
        strength = 0.5 / jnp.asarray(self.structure.scale) ** 2
        if parametrization == "hierarchical":
            for mixture in self.groups.values():
                strength = strength * jnp.asarray(mixture.inverse_square_mean, self.weight.dtype)
        return strength * jnp.sum(self.weight**2)

    def _check_proper(self) -> None:
        scale = self.structure.scale
        if not isinstance(scale, Tracer) and np.any(np.isinf(scale)):
            raise ValueError(
                f"The prior on {self.name!r} is flat (scale = inf): it cannot be sampled and has "
                f"no density. Give {type(self.structure).__name__} a finite scale."
            )
