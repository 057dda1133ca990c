"""From plain values to a fitted posterior: `Recipe`, which all front doors for tables use."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from scalemix._random import check_key
from scalemix.data.values import check_table, check_weights, count_classes
from scalemix.fitting import building
from scalemix.fitting.building import MIXTURES, PRIORS
from scalemix.fitting.candidates import TEMPERATURES, Candidate, default_candidates
from scalemix.fitting.front_door import fit
from scalemix.fitting.settings import CHAIN_STEPS, ONE_FLOOR, RecipeSettings
from scalemix.fitting.stacking import fit_stacked
from scalemix.inference.training.em import VariationalEM
from scalemix.likelihoods import Likelihood
from scalemix.mixtures import ScaleMixture
from scalemix.model.model import Model
from scalemix.posterior.posterior import Posterior
from scalemix.structures import Structure

__all__ = [
    "MIXTURES",
    "PRIORS",
    "Fitted",
    "Recipe",
    "Trial",
]


class Trial(NamedTuple):
    """A setting that was tried on held-out rows, and how it fared."""

    temperature: float
    noise_floor: float | None
    """The least noise scale, in standard deviations of the target; `None` for classes."""
    weight: float
    """Its share of the mixture that explains the held-out rows best."""
    score: float
    """Its log-likelihood per held-out row; not a number where there were too few to try."""
    num_members: int
    """How many members of the ensemble have this setting."""


class Fitted(NamedTuple):
    """A posterior, and what was tried on the way to it; nothing where nothing was open."""

    posterior: Posterior
    trials: tuple[Trial, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(RecipeSettings):
    """Everything that is chosen before the data are seen, in plain values."""

    def __post_init__(self):
        super().__post_init__()
        building.check_mixture(self)

    def build_mixture(self) -> ScaleMixture:
        """The family of scales, with its parameters."""
        return building.build_mixture(self)

    def build_prior(self) -> Structure:
        """The prior of the weights."""
        return building.build_prior(self)

    def build_network(self, num_inputs: int, num_outputs: int, *, key: PRNGKeyArray) -> PyTree:
        """A network with fresh weights."""
        return building.build_network(self, num_inputs, num_outputs, key=key)

    def build_likelihoods(self, num_classes: int | None) -> list[Likelihood]:
        """The distributions of a target that are tried; the first where one must do."""
        return building.build_likelihoods(self, num_classes)

    def settings(self, num_rows: int) -> dict[str, Any]:
        """What counts in a fit to so many rows, in values that JSON holds.

        Settings that mean nothing to this inference are left out, and those left open are there
        with what they become.
        """
        counting = {
            "task": self.task, "inference": self.inference, "prior": self.prior,
            "mixture": self.mixture_name, "mixture_parameters": building.mixture_parameters(self),
            "hidden": list(self.hidden), "residual": self.residual,
            "num_members": self.ensemble_size,
        }  # fmt: skip
        if self.task == "regression":
            # EM tries several; the others have one.
            one = self.inference != "em" and self.noise_floor == "auto"
            counting["noise_floor"] = ONE_FLOOR if one else self.noise_floor
        if self.inference == "mcmc":
            return counting | {"sampler": self.sampler, "max_steps": self.max_steps or CHAIN_STEPS}
        training = self.training(num_rows)
        counting |= {
            "max_steps": training["steps"], "batch_size": training["batch_size"],
            "learning_rate": training["learning_rate"],
        }  # fmt: skip
        if self.inference == "noise":
            return counting | {"objective": self.objective, "num_draws": self.num_draws}
        counting["temperature"] = self.temperature
        if "auto" in (self.temperature, counting.get("noise_floor")):
            counting["num_trial_members"] = self.num_trial_members
        return counting

    def fit(
        self,
        x: Any,
        y: Any,
        *,
        key: PRNGKeyArray,
        num_classes: int | None = None,
        sample_weight: Any = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> Fitted:
        """The posterior that this recipe makes of a table and a target.

        Classes are whole numbers from 0; there are as many as the largest says, unless
        `num_classes` does. The rest is as in `scalemix.fit`.
        """
        num_rows, num_inputs = check_table(x)
        if sample_weight is not None:
            # A row of weight zero is as good as none.
            sample_weight = check_weights(sample_weight, num_rows)
            num_rows = int(np.count_nonzero(sample_weight))
        if self.task == "classification":
            num_classes = count_classes(y, num_classes)
        network_key, fit_key = jax.random.split(check_key(key, "key"))
        likelihoods = self.build_likelihoods(num_classes)
        network = self.build_network(num_inputs, likelihoods[0].num_outputs, key=network_key)
        shared = {
            "key": fit_key, "sample_weight": sample_weight, "progress": progress,
            "checkpoint": checkpoint, "resume": resume,
        }  # fmt: skip
        if self.inference != "em":
            model = Model(network, self.build_prior(), likelihoods[0])
            method = building.build_method(self, num_rows)
            return Fitted(fit(model, x, y, method, **shared), ())
        candidates = default_candidates(
            network, self.build_prior(), VariationalEM(**self.training(num_rows)), likelihoods,
            TEMPERATURES if self.temperature == "auto" else (self.temperature,),
        )  # fmt: skip
        if len(candidates) == 1:
            model, method = candidates[0]
            method = dataclasses.replace(method, num_members=self.ensemble_size)
            return Fitted(fit(model, x, y, method, **shared), ())
        stacked = fit_stacked(
            candidates, x, y, num_members=self.ensemble_size,
            num_trial_members=self.num_trial_members, **shared,
        )  # fmt: skip
        fared = zip(candidates, stacked.weights, stacked.scores, stacked.num_members, strict=True)
        return Fitted(stacked.posterior, tuple(_trial(*one) for one in fared))


def _trial(candidate: Candidate, weight: float, score: float, num_members: int) -> Trial:
    method: Any = candidate.method
    return Trial(
        temperature=method.temperature,
        noise_floor=getattr(candidate.model.likelihood, "floor", None),
        weight=float(weight),
        score=float(score),
        num_members=int(num_members),
    )
