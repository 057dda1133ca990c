"""A site together with the structure that stands on it and with its layer."""

import math
from collections.abc import Iterator
from typing import Literal, get_args

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PRNGKeyArray

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
    weight: Array
    """The weight that the network holds."""

    @property
    def name(self) -> str:
        """The site's name."""
        return self.site.name

    @property
    def groups(self) -> dict[str, ScaleMixture]:
        """The mixture of each group of scales."""
        return self.structure.groups

    @property
    def scale_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each group's scales."""
        return {group: GROUPS[group].full_shape(self.site) for group in self.groups}

    @property
    def num_scales(self) -> dict[str, int]:
        """How many scales each group has."""
        return {group: math.prod(shape) for group, shape in self.scale_shapes.items()}

    @property
    def by_row(self) -> bool:
        """Whether the weights of a row share all their scales."""
        return all(GROUPS[group].by_row for group in self.groups)

    def expand(self, scales: SiteScales) -> Array:
        """The product of these groups' scales, broadcastable against the weight."""
        return expand_scales(self.site, scales, self.weight.dtype)

    def expand_rows(self, scales: SiteScales) -> Array:
        """The product of all groups' scales for each row, where groups go `by_row`."""
        product = jnp.ones((*self.site.stack, self.site.num_rows), self.weight.dtype)
        for group, scale in scales.items():
            product = product * GROUPS[group].vector(self.site, scale)
        return product

    def sum_rows(self, values: Array) -> Array:
        """The sum over each row of a value for each weight."""
        return UNIT.sum_weights(self.site, values)

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
        base = self.structure.base.sample(self.site.shape, key=key, dtype=self.weight.dtype)
        z = self.structure.scale * base
        return z if parametrization == "expanded" else z * self.expand(scales)

    def weight_log_prob(
        self, weight: Array, scales: SiteScales, parametrization: Parametrization
    ) -> Array:
        """Log density of each weight given its scales.

        expanded:      `log p(z / s0) - log s0`
        hierarchical:  `log p(w / (s0 xi)) - log(s0 xi)`

        `p` is the density of the base, `N(0, 1)` unless the structure says otherwise.
        """
        self._check_proper()
        base, scale = self.structure.base, self.structure.scale
        if parametrization == "expanded":
            return base.log_prob(weight / scale) - jnp.log(scale)
        scale = jnp.abs(self.expand(scales)) * scale
        # A scale of zero leaves no density but a point mass at zero, which counts as log 1.
        on = scale > 0
        safe = jnp.where(on, scale, 1.0)
        slab = base.log_prob(weight / safe) - jnp.log(safe)
        return jnp.where(on, slab, jnp.where(weight == 0, 0.0, -jnp.inf))

    def penalty(self, parametrization: Parametrization) -> Array:
        """What the prior takes off the log-likelihood of all data, up to a constant.

        expanded:      `sum -log p(w / s0)`, under a Gaussian base `sum w^2 / (2 s0^2)`: the
                       marginal-MAP penalty; the noise is in the network
        hierarchical:  `E[xi^-2] sum w^2 / (2 s0^2)`; the noise is in here
        """
        penalty = jnp.sum(self.structure.base.energy(self.weight / self.structure.scale))
        if parametrization == "hierarchical":
            self.check_hierarchical()
            for mixture in self.groups.values():
                penalty = penalty * jnp.asarray(mixture.inverse_square_mean, self.weight.dtype)
        return penalty

    def weight_variance(self, squares: Array) -> Array:
        """The variance of each weight given the squares of its scales, as `expand` has them."""
        unit = jnp.asarray(self.structure.scale, self.weight.dtype) ** 2
        variance = squares * unit * jnp.asarray(self.structure.base.variance, self.weight.dtype)
        return jnp.broadcast_to(variance, self.site.shape)

    def check_variance(self) -> None:
        """Raise `ValueError` if weights have no variance, whatever their scales."""
        base = self.structure.base
        if not np.all(np.isfinite(base.variance)):
            raise ValueError(
                f"The base of the prior on {self.name!r}, {base!r}, has no variance, so that its "
                f"weights have none to compare. Give StudentT a df above 2."
            )

    def check_hierarchical(self) -> None:
        """Raise `ValueError` if the hierarchical penalty has no closed form under this base."""
        base = self.structure.base
        if not base.quadratic:
            raise ValueError(
                f"The hierarchical objective needs a Gaussian first level, for which the mean over "
                f"the noise is E[xi^-2] w^2; the base of the prior on {self.name!r} is {base!r}. "
                f"Use another objective, VariationalEM or MCMC."
            )

    def _check_proper(self) -> None:
        scale = self.structure.scale
        if not isinstance(scale, Tracer) and np.any(np.isinf(scale)):
            raise ValueError(
                f"The prior on {self.name!r} is flat (scale = inf): it cannot be sampled and has "
                f"no density. Give {type(self.structure).__name__} a finite scale."
            )
