"""What every distribution over networks gives: draws, moments, a mask, a file entry, a description.

A posterior and all that is made of it ask these questions, and never which class they ask.
"""

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix.likelihoods import Likelihood
from scalemix.model.model import Model
from scalemix.networks.placing import expand_scales
from scalemix.posterior.history import History

if TYPE_CHECKING:
    from scalemix.posterior.networks.sampled import SampledNetworks

Arrays = dict[str, Any]
"""Arrays by name, in dicts that may be nested: what a file holds of networks besides the model."""


class Drawn(NamedTuple):
    """One draw: a network, and the likelihood that it was learned with."""

    network: Any
    likelihood: Likelihood


class WeightMoments(NamedTuple):
    """For each weight of a site: its mean, its variance, and the variance its prior gives it."""

    mean: Array
    variance: Array
    prior_variance: Array


class Beside(NamedTuple):
    """What is believed of one site's weights besides the values that the model holds."""

    deviation: Array | None
    """The standard deviation of each weight; `None` where the weights have none of their own."""
    variances: dict[str, Array]
    """The scales that the prior settled on, by group."""


class AnyNetworks(Protocol):
    """What a posterior asks of its networks, be they of one fit or of an ensemble of fits."""

    @property
    def model(self) -> Model:
        """What was learned; of an ensemble, by its first member."""
        ...

    @property
    def lead(self) -> tuple[int, ...]:
        """The leading axes of all arrays: the number of members of an ensemble, else none."""
        ...

    @property
    def stacked(self) -> "Networks":
        """One set of networks whose arrays have these leading axes."""
        ...

    @property
    def members(self) -> "tuple[Networks, ...]":
        """The networks of each fit."""
        ...

    def with_members(self, members: "Sequence[Networks]") -> "AnyNetworks":
        """As many networks with other values in place of the members."""
        ...

    @property
    def parts(self) -> "tuple[Networks, ...]":
        """The networks in groups within which all draws have the same units.

        A network stays the same when its units change places. Fits, or chains, from different
        starts therefore have units that do not correspond, and moments of weights make sense only
        within a part.
        """
        ...

    def chains(self) -> "SampledNetworks":
        """The samples of Markov chains; `ValueError` where there are none."""
        ...

    def noise(self) -> "Networks":
        """Networks whose draws differ by noise from the prior; `ValueError` where they do not."""
        ...

    @property
    def title(self) -> str:
        """What to call these networks in the `repr` of a posterior."""
        ...

    @property
    def default_draws(self) -> int:
        """How many draws a prediction takes unless it is told."""
        ...

    @property
    def num_places(self) -> int:
        """How many indices stand for something of their own; draws of others repeat these."""
        ...

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        """The network of one draw, and the likelihood that goes with it."""
        ...


class Networks(eqx.Module):
    """The networks of one fit, as `AnyNetworks`. A subclass is one way of not knowing the weights.

    It holds nothing but what a draw needs, so that posteriors of one kind share compiled code.
    """

    model: Model
    """What was learned: the network's weights, the likelihood's noise."""

    method: ClassVar[str] = "a method of its own"
    """How such networks are fitted, in a few words."""
    summary: ClassVar[str] = "Predictions average over networks drawn from the posterior."
    """How the weights were inferred, in a sentence or two for a report."""
    moment_label: ClassVar[str] = "$w^2$"
    """What `second_moments` is, in the notation of a picture."""
    obstacle_to_pruning: ClassVar[str | None] = (
        "its draws have not one set of weights in common. Fit by VariationalEM or NoiseTraining."
    )
    """Why nothing can be pruned from such networks; `None` where it can."""

    @property
    def stacked(self) -> "Networks":
        return self

    @property
    def lead(self) -> tuple[int, ...]:
        return ()

    @property
    def members(self) -> "tuple[Networks, ...]":
        return (self,)

    def with_members(self, members: "Sequence[Networks]") -> AnyNetworks:
        (only,) = members
        return only

    @property
    def example(self) -> Any:
        """The shapes and types of one input, where they are known."""
        return self.model.example

    @property
    def default_draws(self) -> int:
        return 100

    @property
    def num_places(self) -> int:
        return 1

    @property
    def parts(self) -> "tuple[Networks, ...]":
        return (self,)

    def chains(self) -> "SampledNetworks":
        raise ValueError(
            "Only a posterior that MCMC sampled has chains: fit with method=scalemix.MCMC()."
        )

    def noise(self) -> "Networks":
        raise ValueError(
            "Importance weights are those of noise drawn from the prior, which only a fit by "
            "scalemix.NoiseTraining with noise in the network has."
        )

    @property
    def title(self) -> str:
        return type(self).__name__

    @abc.abstractmethod
    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        """The network of one draw, and the likelihood that goes with it."""

    # Moments

    @abc.abstractmethod
    def weight_moments(self) -> dict[str, WeightMoments]:
        """What is believed of each weight, by site."""

    def second_moments(self) -> dict[str, np.ndarray]:
        """The square of each weight, by site, and its variance where it has one of its own."""
        return {name: np.asarray(w, np.float64) ** 2 for name, w in self.model.weights.items()}

    # Pruning

    def beside(self) -> dict[str, Beside]:
        """What stands beside the weights of each site, to be cut together with them."""
        return {site.name: Beside(None, {}) for site in self.model.sites}

    def rebuilt(self, model: Model, beside: dict[str, Beside]) -> "Networks":
        """Networks of the same kind around this model, with this beside its weights."""
        return type(self)(model)

    def masked(self, keep: dict[str, dict[str, np.ndarray]]) -> "Networks":
        """Networks whose weights are certainly zero where what they belong to is not kept.

        `keep` says of each scale of a site, by group, whether its weights stay: a mask has the form
        of scales that are one or zero. A group that is left out stays as it is.
        """
        model, beside = self.model, self.beside()

        def kept(name: str, values: Array) -> Array:
            site = sites[name]
            kept = {g: jnp.asarray(each, values.dtype) for g, each in keep[name].items()}
            return values * expand_scales(site, kept, values.dtype)

        sites = {site.name: site for site in model.sites}
        weights = {name: kept(name, weight) for name, weight in model.weights.items()}
        spared = {
            name: each if each.deviation is None else each._replace(
                deviation=kept(name, each.deviation)
            )
            for name, each in beside.items()
        }  # fmt: skip
        return self.rebuilt(model.with_weights(weights), spared)

    # Files

    def to_arrays(self) -> Arrays:
        """What a file holds of these networks besides the model."""
        return {}

    @classmethod
    def from_arrays(cls, model: Model, arrays: Arrays, lead: tuple[int, ...]) -> Self:
        """The networks of which a file holds these arrays, or a `ValueError`.

        `lead` are the leading axes of all arrays, those of the model included.
        """
        if arrays:
            raise ValueError(f"{cls.__name__} hold no arrays besides the network's.")
        return cls(model)

    def check_history(self, history: History, lead: tuple[int, ...]) -> None:
        """Raise `ValueError` unless a fit of such networks leaves a history like this one."""
        if history.objective.ndim != len(lead) + 1:
            raise ValueError("its history has not one objective for each step.")
        if history.score.ndim != len(lead) + 1:
            raise ValueError("its history has not one score for each chunk.")
