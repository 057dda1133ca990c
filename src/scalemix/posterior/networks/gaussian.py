"""A Gaussian for each weight."""

from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix.model.model import Model
from scalemix.model.site_prior import SitePrior
from scalemix.networks.gaussians import draw_network
from scalemix.networks.placing import check_by_site
from scalemix.posterior.networks._base import Arrays, Beside, Drawn, Networks, WeightMoments


class GaussianNetworks(Networks):
    """An independent Gaussian for each weight, around the means that the model holds."""

    deviations: dict[str, Array]
    """The standard deviation of each weight, by site."""
    variances: dict[str, dict[str, Array]]
    """The scales that the prior settled on, as variances, by site and group."""

    method: ClassVar[str] = "variational EM"
    summary: ClassVar[str] = (
        "Variational EM: each weight has a mean and a standard deviation, learned together with "
        "the scales of the prior, which are solved for in closed form. Predictions average over "
        "weights drawn from what was learned."
    )
    moment_label: ClassVar[str] = r"$\mu^2 + \sigma^2$"
    obstacle_to_pruning: ClassVar[str | None] = None

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        model = self.model
        network = draw_network(model.network, model.sites, self.deviations, key)
        return Drawn(network, model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        priors = self.model.site_priors
        for prior in priors:
            prior.check_variance()
        return _moments(priors, self.deviations, self.variances)

    def second_moments(self) -> dict[str, np.ndarray]:
        return {
            name: square + np.asarray(self.deviations[name], np.float64) ** 2
            for name, square in super().second_moments().items()
        }

    def beside(self) -> dict[str, Beside]:
        return {
            name: Beside(deviation, self.variances[name])
            for name, deviation in self.deviations.items()
        }

    def rebuilt(self, model: Model, beside: dict[str, Beside]) -> "GaussianNetworks":
        deviations = {
            name: each.deviation for name, each in beside.items() if each.deviation is not None
        }
        variances = {name: each.variances for name, each in beside.items()}
        return GaussianNetworks(model, deviations, variances)

    def to_arrays(self) -> Arrays:
        return {"deviations": self.deviations, "variances": self.variances}

    @classmethod
    def from_arrays(cls, model: Model, arrays: Arrays, lead: tuple[int, ...]) -> "GaussianNetworks":
        shapes = {
            "deviations": {site.name: lead + site.shape for site in model.sites},
            "variances": {
                site: {group: lead + shape for group, shape in groups.items()}
                for site, groups in model.scale_shapes.items()
            },
        }
        check_by_site(arrays, shapes, "The arrays")
        for name, weight in model.weights.items():
            beside = arrays["deviations"][name], *arrays["variances"][name].values()
            if any(array.dtype != weight.dtype for array in beside):
                raise ValueError(f"the weights of {name!r} and their deviations differ in type.")
        return cls(model, **arrays)


@eqx.filter_jit
def _moments(
    priors: Sequence[SitePrior],
    deviations: dict[str, Array],
    variances: dict[str, dict[str, Array]],
) -> dict[str, WeightMoments]:
    return {
        prior.name: WeightMoments(
            prior.weight,
            deviations[prior.name] ** 2,
            prior.weight_variance(prior.expand(variances[prior.name])),
        )
        for prior in priors
    }
