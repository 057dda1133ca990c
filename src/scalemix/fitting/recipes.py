"""From plain values to a fitted posterior: `Recipe`, which all front doors for tables use."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from scalemix._mesh import mesh_of
from scalemix._random import check_key
from scalemix._types import PyTree
from scalemix.data.input_layout import InputLayout
from scalemix.data.values import check_table, check_weights, count_classes
from scalemix.fitting import building
from scalemix.fitting.building import MIXTURES, PRIORS
from scalemix.fitting.candidates import TEMPERATURES, Candidate, default_candidates
from scalemix.fitting.front_door import fit
from scalemix.fitting.kinds import Mention, SettingError
from scalemix.fitting.settings import CHAIN_STEPS, ONE_FLOOR, RecipeSettings
from scalemix.fitting.stacking import fit_stacked
from scalemix.inference.training.em import VariationalEM
from scalemix.likelihoods import Likelihood
from scalemix.mixtures import ScaleMixture
from scalemix.model.model import Model
from scalemix.networks.mlp import ColumnNumbers
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
    """A combination of settings that was tried on held-out rows, and how it fared.

    Attributes
    ----------
    temperature : float
        The temperature of the prior.
    noise_floor : float or None
        The least noise, in standard deviations of the target; `None` for classes.
    weight : float
        Its share of the mixture that explains the held-out rows best.
    score : float
        Its log-likelihood per held-out row; not a number if there were too few rows to try.
    num_members : int
        How many members of the ensemble have these settings.
    bins : bool or None, default=None
        Whether it reads the bins of columns; `None` where there was nothing to decide.

    Examples
    --------
    >>> from scalemix.recipes import Trial
    >>> Trial(temperature=0.3, noise_floor=0.1, weight=0.6, score=-0.9, num_members=10).weight
    0.6
    """

    temperature: float
    noise_floor: float | None
    weight: float
    score: float
    num_members: int
    bins: bool | None = None


class Fitted(NamedTuple):
    """What a recipe makes of data.

    Attributes
    ----------
    posterior : scalemix.Posterior
        The posterior.
    trials : tuple of Trial
        What was tried on held-out rows; empty if all settings were given.

    Examples
    --------
    >>> from scalemix.recipes import Fitted
    >>> Fitted(post, ()).trials
    ()
    """

    posterior: Posterior
    trials: tuple[Trial, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe(RecipeSettings):
    """Everything that is chosen before the data are seen, in plain values.

    Parameters
    ----------
    task : {"regression", "classification"}, default="regression"
        Whether the target is a number or one of several classes.
    target : {"real", "positive", "count", "share", "time"}, default="real"
        What numbers the target has: any ("real"), above zero ("positive"), whole from zero
        ("count"), strictly between zero and one ("share"), or times that are below zero where they
        were not observed to the end ("time").
    prior : {"ard", "drop-connect", "add", "ard-add"}, default="ard-add"
        Which weights share a scale: those of a unit ("ard"), those of a layer ("add"), both
        ("ard-add"), or none ("drop-connect"). In layers that no path leads around, "add" and
        "ard-add" mean "ard".
    mixture : str, default="auto"
        The family of the scales: bernoulli, beta, exponential, gamma, gaussian, half-cauchy,
        inverse-gamma, inverse-nakagami, log-uniform, rayleigh, uniform, or auto, which is bernoulli
        for noise training and inverse-gamma otherwise.
    mixture_parameters : dict, optional
        Parameters of the family by name, such as keep for Bernoulli scales. The others keep their
        defaults.
    inference : {"em", "noise", "mcmc"}, default="em"
        Variational EM ("em"), training under noise ("noise": dropout and its relatives), or Markov
        chain Monte Carlo ("mcmc").
    hidden : sequence of int, default=(50, 50)
        The width of each hidden layer. All are equal in a residual network.
    residual : bool, default=True
        Whether every hidden layer but the first has a path around it.
    num_members : int, optional
        How many networks the ensemble has; for MCMC, how many chains run. By default 16 for EM, and
        8 otherwise.
    num_trial_members : int, default=4
        How many networks are fitted to try each combination of temperature and noise floor.
    max_steps : int, optional
        Steps of training; for MCMC, steps of each chain, the first half of which adapt the sampler.
        By default 14,000 for EM and 8,000 for noise training (17,000 and 10,000 for more than 5,000
        rows), and 4,000 for MCMC.
    batch_size : int, optional
        Rows in a step of training. By default 64, and 128 for more than 5,000 rows. Chains use all
        rows.
    learning_rate : float, default=0.01
        Where the rate of Adam starts. It falls to zero along a cosine.
    temperature : float or "auto", default="auto"
        How strongly EM weighs the prior; 1 is Bayes' rule. With "auto", held-out rows choose.
    noise_floor : float or "auto", default="auto"
        The least noise of a real target, in standard deviations of it; of other numbers, the
        `floor` of their likelihood. With "auto", held-out rows choose for EM; otherwise it is
        0.001, or the likelihood's own. Classes have no such noise.
    objective : str, default="tail_adaptive"
        What noise training maximises: lower_bound, importance_weighted, truncated, pareto_smoothed,
        tail_adaptive, hierarchical.
    num_draws : int, default=10
        Draws of the noise in each step of noise training.
    sampler : {"nuts", "mclmc"}, default="mclmc"
        The sampler of MCMC.
    devices : int, optional
        How many devices the networks or chains are spread over. By default all there are.

    Raises
    ------
    ValueError
        If a setting has a value that it cannot have, or settings exclude one another.

    Examples
    --------
    >>> from scalemix.recipes import Recipe
    >>> recipe = Recipe(max_steps=20, num_members=2, temperature=1.0, noise_floor=0.1)
    >>> recipe.fit(x, y, key=key).posterior.predict(x).mean.shape
    (40,)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        building.check_mixture(self)

    @property
    def can_choose_bins(self) -> bool:
        """Whether held-out rows can decide if networks read bins."""
        return building.scales_by_column(self)

    def build_mixture(self) -> ScaleMixture:
        """The family of scales, with its parameters.

        Returns
        -------
        scalemix.mixtures.ScaleMixture
            The family that `mixture` names.

        Examples
        --------
        >>> from scalemix.recipes import Recipe
        >>> Recipe(mixture="half-cauchy").build_mixture()
        HalfCauchy(scale=1)
        """
        return building.build_mixture(self)

    def build_prior(self) -> Structure:
        """The prior of the weights.

        Returns
        -------
        scalemix.structures.Structure
            The structure that `prior` names, with the mixture in it.

        Examples
        --------
        >>> from scalemix.recipes import Recipe
        >>> type(Recipe(prior="ard").build_prior()).__name__
        'ARD'
        """
        return building.build_prior(self)

    def build_network(
        self, num_inputs: int | ColumnNumbers, num_outputs: int, *, key: PRNGKeyArray
    ) -> PyTree:
        """A network with fresh weights.

        Parameters
        ----------
        num_inputs : int or pair of sequences of int
            The number of inputs; or, for each input, the number of the column of a table that it
            was made of, and that of the part of a column.
        num_outputs : int
            The number of outputs.
        key : PRNG key
            The source of the weights.

        Returns
        -------
        scalemix.networks.ResNet or scalemix.networks.MLP
            A residual network, or a plain one if `residual` is false.

        Examples
        --------
        >>> from scalemix.recipes import Recipe
        >>> type(Recipe(residual=False).build_network(3, 2, key=key)).__name__
        'MLP'
        """
        return building.build_network(self, num_inputs, num_outputs, key=key)

    def build_likelihoods(
        self, num_classes: int | None, num_targets: int | None = None
    ) -> list[Likelihood]:
        """The distributions of the target that are tried; only EM tries more than one.

        Parameters
        ----------
        num_classes : int or None
            How many classes there are; `None` for a real target.
        num_targets : int, optional
            How many real targets each row has, if it has several.

        Returns
        -------
        list of scalemix.likelihoods.Likelihood
            One likelihood or more.

        Examples
        --------
        >>> from scalemix.recipes import Recipe
        >>> [type(one).__name__ for one in Recipe().build_likelihoods(None)]
        ['StudentT', 'StudentT']
        """
        return building.build_likelihoods(self, num_classes, num_targets)

    def settings(self, num_rows: int) -> dict[str, Any]:
        """The settings that matter in a fit to so many rows, in values that JSON holds.

        Parameters
        ----------
        num_rows : int
            The number of rows.

        Returns
        -------
        dict
            Values by name. Settings that mean nothing to this inference are left out; those that
            were left open have the values that they get.

        Examples
        --------
        >>> from scalemix.recipes import Recipe
        >>> Recipe(inference="noise").settings(300)["max_steps"]
        8000
        """
        counting = {
            "task": self.task, "inference": self.inference, "prior": self.prior,
            "mixture": self.mixture_name, "mixture_parameters": building.mixture_parameters(self),
            "hidden": list(self.hidden), "residual": self.residual,
            "num_members": self.ensemble_size,
        }  # fmt: skip
        if self.task == "regression":
            # EM tries several; the others have one.
            one = self.inference != "em" and self.target == "real" and self.noise_floor == "auto"
            counting["target"] = self.target
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
        layout: InputLayout | None = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
    ) -> Fitted:
        """The posterior that this recipe makes of a table and a target.

        Parameters
        ----------
        x : array-like of shape (rows, columns)
            A table of numbers.
        y : array-like of shape (rows,) or (rows, targets)
            The target: real numbers, or classes as whole numbers from 0. Several real targets are
            fitted by one network, each with its noise.
        key : PRNG key
            The source of all randomness.
        num_classes : int, optional
            How many classes there are. By default as many as the largest of `y` says.
        sample_weight : array-like of shape (rows,), optional
            How many rows each row counts as.
        layout : InputLayout, optional
            What the inputs were made of, where a column of a table became several. The encoders of
            `scalemix.tables` have it.
        progress : bool, optional
            Whether to show a bar. By default only on a terminal.
        checkpoint : str or Path, optional
            A file that keeps the state of the run.
        resume : bool, default=False
            Whether to continue from that file.

        Returns
        -------
        Fitted
            The posterior, and the trials that chose its settings.

        Examples
        --------
        >>> from scalemix.recipes import Recipe
        >>> recipe = Recipe(max_steps=20, num_members=2, temperature=1.0, noise_floor=0.1)
        >>> fitted = recipe.fit(x, y, key=key)
        >>> len(fitted.posterior.members), fitted.trials
        (2, ())
        """
        num_rows, num_inputs = check_table(x)
        if sample_weight is not None:
            # A row of weight zero is as good as none.
            sample_weight = check_weights(sample_weight, num_rows)
            num_rows = int(np.count_nonzero(sample_weight))
        if self.task == "classification":
            num_classes = count_classes(y, num_classes)
        network_key, fit_key = jax.random.split(check_key(key, "key"))
        num_targets = None
        if self.task == "regression" and np.ndim(y) == 2 and np.shape(y)[1] > 1:
            num_targets = np.shape(y)[1]
        likelihoods = self.build_likelihoods(num_classes, num_targets)
        prior = building.build_table_prior(self, layout)
        read = building.inputs_to_read(self, layout, num_inputs)
        network = self.build_network(read, likelihoods[0].num_outputs, key=network_key)
        shared = {
            "key": fit_key, "sample_weight": sample_weight, "progress": progress,
            "checkpoint": checkpoint, "resume": resume, "mesh": self._mesh(),
            "standardize": True if layout is None else layout.scaled,
        }  # fmt: skip
        if self.inference != "em":
            model = Model(network, prior, likelihoods[0])
            method = building.build_method(self, num_rows)
            return Fitted(fit(model, x, y, method, **shared), ())
        candidates = [
            candidate
            for reader in building.ways_to_read(self, network, layout)
            for candidate in default_candidates(
                reader, prior, VariationalEM(**self.training(num_rows)), likelihoods,
                TEMPERATURES if self.temperature == "auto" else (self.temperature,),
            )
        ]  # fmt: skip
        if len(candidates) == 1:
            model, method = candidates[0]
            method = dataclasses.replace(method, num_members=self.ensemble_size)
            return Fitted(fit(model, x, y, method, **shared), ())
        stacked = fit_stacked(
            candidates, x, y, num_members=self.ensemble_size,
            num_trial_members=self.num_trial_members, **shared,
        )  # fmt: skip
        fared = zip(candidates, stacked.weights, stacked.scores, stacked.num_members, strict=True)
        decides = building.may_do_without(self, layout)
        return Fitted(stacked.posterior, tuple(_trial(*one, decides) for one in fared))

    def _mesh(self) -> Mesh | None:
        try:
            return mesh_of(self.devices)
        except ValueError as error:
            raise SettingError(Mention("devices", self.devices), f": {error}") from None


def _trial(
    candidate: Candidate, weight: float, score: float, num_members: int, decides: bool
) -> Trial:
    method: Any = candidate.method
    return Trial(
        temperature=method.temperature,
        noise_floor=getattr(candidate.model.likelihood.innermost, "floor", None),
        weight=float(weight),
        score=float(score),
        num_members=int(num_members),
        bins=building.reads_all(candidate.model.network) if decides else None,
    )
