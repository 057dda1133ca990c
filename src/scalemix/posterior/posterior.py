"""What a fit returns."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._random import check_key, side_key
from scalemix.data.checks import check_inputs, inputs_as_seen
from scalemix.data.scaling import Scaling
from scalemix.model.model import Model
from scalemix.posterior.networks import Ensemble, Networks
from scalemix.posterior.predictive import Predictive, Regime

if TYPE_CHECKING:
    from scalemix.posterior.diagnostics import Diagnostics
    from scalemix.posterior.pruning import Pruned
    from scalemix.posterior.relevance import Relevance


class History(NamedTuple):
    """How the fit went. For an ensemble every array has a leading axis, the members."""

    objective: np.ndarray
    """Each step's objective, per datum."""
    score: np.ndarray
    """The held-out log-likelihood per datum after each chunk; empty if nothing was held out."""
    recorded: dict[str, np.ndarray]
    """What was recorded on request, one entry a chunk."""


class Posterior(eqx.Module):
    """What is believed about a network after the data.

    `networks` draws from what is still uncertain; `model` holds what was learned.
    """

    networks: Networks | Ensemble
    scaling: Scaling
    history: History
    key: PRNGKeyArray
    """The key of predictions that are given none, so that they too are repeatable."""
    score_spread: float = 1.0
    """The spread of normal scores on rows held out, by which intervals are calibrated; one where
    none were."""

    @property
    def model(self) -> Model:
        """The model with what was learned in it; of an ensemble, that of the first member."""
        return self.networks.model

    @property
    def members(self) -> "list[Posterior]":
        """The posteriors that predictions mix: those of an ensemble, or this one."""
        if not isinstance(self.networks, Ensemble):
            return [self]
        return [
            Posterior(
                self.networks.member(i),
                self.scaling,
                jax.tree.map(lambda values, i=i: values[i], self.history),
                side_key(self.key, i),
            )
            for i in range(self.networks.num_members)
        ]

    def predict(
        self, x: Any, *, num_draws: int | None = None, key: PRNGKeyArray | None = None
    ) -> Predictive:
        """The predictive distribution of the targets of some inputs.

        Nothing is computed yet, and whatever is asked of the result is computed in blocks of rows:
        memory is bounded whatever the numbers of rows and draws. Inputs and results are on the
        scale of the data that were fitted. An ensemble's draws go round its members.
        """
        num_draws = self.networks.default_draws if num_draws is None else num_draws
        if num_draws < 1:
            raise ValueError(f"num_draws must be at least 1, got {num_draws}.")
        key = self.key if key is None else check_key(key, "key")
        networks = self.networks
        regime = Regime(
            networks, self.model.likelihood, self.scaling, key, self.score_spread,
            networks.num_places,
        )  # fmt: skip
        seen = inputs_as_seen(check_inputs(x, self.model), self.model, self.scaling)
        return Predictive(regime, seen, num_draws)

    def save(self, path: str | Path, *, metadata: dict[str, Any] | None = None) -> None:
        """Write the posterior to one file, which `scalemix.load` reads.

        Any earlier file is replaced at once, and survives if this fails. `metadata` is a dict of
        what JSON holds, for `scalemix.storage.read` to give back. A network that is no
        `scalemix.networks.MLP` or `ResNet`, or has an activation that is not in `jax.nn`, is saved
        without its code: `load` then asks for `network=`, one of the same class and sizes.
        """
        # Files know posteriors, so this one looks for them only when asked.
        from scalemix.posterior.storage import write

        write(path, self, metadata)

    def relevance(self, *, threshold: float = 0.01) -> "Relevance":
        """How much each input, hidden unit and layer matters, and which are switched off."""
        from scalemix.posterior.relevance import find_relevance

        return find_relevance(self, threshold)

    def prune(
        self,
        x: Any = None,
        *,
        threshold: float = 0.01,
        tolerance: float | None = None,
        mask_only: bool = False,
        drop_inputs: bool = False,
    ) -> "Pruned":
        """A smaller posterior, without the units and layers that are off, and a report.

        What is off at this threshold is what `relevance` says. With `tolerance` it goes in order of
        relevance, and only as long as the predictive mean at `x` changes by no more than that,
        in units of its spread over the rows; `threshold=inf` then makes a candidate of everything.
        What removed parts add whatever the input goes into the biases that remain.

        Inputs that are off are still taken, and ignored; with `drop_inputs` the network takes only
        the columns `report.inputs`. Units are taken out of `scalemix.networks.MLP` and `ResNet` and
        of `equinox.nn.MLP`, which becomes the former. Any other network can have the weights of
        what is off set to zero: `mask_only`.
        """
        from scalemix.posterior.pruning import prune

        return prune(
            self, x, threshold=threshold, tolerance=tolerance, mask_only=mask_only,
            drop_inputs=drop_inputs,
        )  # fmt: skip

    # What follows is of posteriors that MCMC sampled; a `ValueError` says so of others. Imported
    # here, because diagnostics stand above the posterior that they are made of.

    def diagnostics(self, x: Any = None) -> "Diagnostics":
        """Whether the chains agree, in the function (at `x`, or some training inputs) and in the
        weights, which a network does not identify. See `scalemix.posterior.diagnostics`.
        """
        from scalemix.posterior.diagnostics import diagnose

        return diagnose(self, x)

    def to_arviz(self) -> Any:
        """The samples and each step's statistics as an ArviZ `InferenceData`.

        Weights are those of the network, which sees inputs and targets as `scaling` makes them.
        """
        from scalemix.posterior.diagnostics import to_arviz

        return to_arviz(self)

    def inclusion_probabilities(self) -> dict[str, dict[str, np.ndarray]]:
        """The posterior probability of each Bernoulli scale to be on, by site and group."""
        from scalemix.posterior.diagnostics import inclusion_probabilities

        return inclusion_probabilities(self)

    def __repr__(self) -> str:
        kind, steps = type(self.networks).__name__, self.history.objective.shape[-1]
        if isinstance(self.networks, Ensemble):
            kind = f"{self.networks.num_members} x {type(self.networks.stacked).__name__}"
        return f"Posterior({self.model!r}, {kind}, after {steps} steps)"
