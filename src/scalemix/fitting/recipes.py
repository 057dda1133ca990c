"""From plain values to a fitted posterior: `Recipe`, which all front doors for tables use."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._random import check_key, side_key, split_apart
from scalemix._types import PyTree
from scalemix.data.input_layout import InputLayout
from scalemix.data.values import check_table, check_weights, count_classes
from scalemix.fitting import building
from scalemix.fitting.building import MIXTURES, PRIORS
from scalemix.fitting.front_door import fit
from scalemix.fitting.settings import ONE_FLOOR, RecipeSettings
from scalemix.fitting.stacking import can_hold_out, fit_stacked
from scalemix.fitting.tried import Trial, build_candidates, mesh_for, trials_of, warn_of_few
from scalemix.fitting.unknown_levels import with_unknown_levels
from scalemix.likelihoods import Likelihood
from scalemix.mixtures import ScaleMixture
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

    @staticmethod
    def to_table(posterior: Posterior, trials: tuple[Trial, ...] = ()) -> "Fitted":
        """The same, with cells far outside the table drawn in: tables have mistakes in them."""
        scaling = posterior.scaling._replace(draws_in=True)
        return Fitted(eqx.tree_at(lambda p: p.scaling, posterior, scaling), trials)


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
        for noise training and inverse-gamma otherwise. With auto, the first layer of EM has
        half-Cauchy scales by column instead, where columns became several inputs. A family that is
        named holds for all layers.
    mixture_parameters : dict, optional
        Parameters of the family by name, such as keep for Bernoulli scales. The others keep their
        defaults.
    inference : {"em", "noise", "mcmc"}, default="em"
        Variational EM ("em"), training under noise ("noise": dropout and its relatives), or Markov
        chain Monte Carlo ("mcmc").
    hidden : sequence of int, optional
        The width of each hidden layer. All are equal in a residual network. By default 50 and 50,
        and 16 and 16 for MCMC.
    residual : bool, optional
        Whether every hidden layer but the first has a path around it. By default so, except for
        MCMC.
    num_members : int, optional
        How many networks the ensemble has; for MCMC, how many chains run. By default 16 for EM with
        up to 20,000 rows, and 8 otherwise.
    num_trial_members : int, optional
        How many networks are fitted to try each combination of settings that held-out rows choose
        among. Each holds out another quarter of the rows. By default 2, and 1 for more than 20,000
        rows.
    max_steps : int, optional
        Steps of training; for MCMC, steps of each chain, the first half of which adapt the sampler.
        By default 8,000, and 10,000 for more than 5,000 rows; 3,200 for MCMC; for EM 4,000 with up
        to 500 rows, 6,000 with up to 1,000, and 4,000 with more than 20,000, whose batches are
        larger; for EM with classes 4,000, and 5,000 for 5,000 to 20,000 rows.
    batch_size : int, optional
        Rows in a step of training. By default 64; 128 for more than 5,000 rows; and 512 for EM with
        more than 20,000. Chains use all rows.
    learning_rate : float, optional
        Where the rate of Adam starts. It falls to zero along a cosine. By default 0.01; for EM 0.02
        with up to 500 rows and no classes, and 0.003 with classes and more than 20,000 rows.
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

    def can_choose_bins(self, num_rows: int) -> bool:
        """Whether held-out rows, which choose among other settings, can decide on bins as well.

        Parameters
        ----------
        num_rows : int
            The number of rows to train on, of which some would be held out.

        Returns
        -------
        bool
            Whether the recipe tries settings, and there are enough rows to try them on.

        Examples
        --------
        >>> from scalemix.recipes import Recipe
        >>> Recipe().can_choose_bins(30), Recipe().can_choose_bins(300)
        (False, True)
        """
        able = self.tries_settings and building.can_read_columns(self)
        return able and can_hold_out(num_rows)

    @property
    def can_look_up(self) -> bool:
        """Whether networks look up the weights of a column of many words by their position.

        Its weights then share a scale, in variational EM with the mixture left open. Other fits
        need an input for each word.

        Examples
        --------
        >>> from scalemix.recipes import Recipe
        >>> Recipe().can_look_up, Recipe(inference="noise").can_look_up
        (True, False)
        """
        return building.can_read_columns(self)

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
        num_inputs : int, or two or three sequences of int
            The number of inputs; or, for each input, the number of the column of a table that it
            was made of, that of the part of a column, and how many levels it is the position of.
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
            Values by name, from which the same recipe is made again. Settings that mean nothing to
            this inference are left out; those that were left open have the values that they get.
            An open `mixture` stays "auto", which is more than a family.

        Examples
        --------
        >>> from scalemix.recipes import Recipe
        >>> Recipe(inference="noise").settings(300)["max_steps"]
        8000
        """
        counting = {
            "task": self.task, "inference": self.inference, "prior": self.prior,
            "mixture": self.mixture, "mixture_parameters": building.mixture_parameters(self),
            "hidden": list(self.widths), "residual": self.has_paths,
        }  # fmt: skip
        if self.task == "regression":
            # EM tries several; the others have one.
            one = self.inference != "em" and self.target == "real" and self.noise_floor == "auto"
            counting["target"] = self.target
            counting["noise_floor"] = ONE_FLOOR if one else self.noise_floor
        plan = self.plan(num_rows)
        counting |= {
            "num_members": plan.num_members, "max_steps": plan.steps,
            "learning_rate": plan.learning_rate,
        }  # fmt: skip
        if self.inference == "mcmc":
            # The rate is that of the warm start.
            return counting | {"sampler": self.sampler}
        counting["batch_size"] = plan.batch_size
        if self.inference == "noise":
            return counting | {"objective": self.objective, "num_draws": self.num_draws}
        counting["temperature"] = self.temperature
        if self.tries_settings:
            counting["num_trial_members"] = plan.num_trial_members
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
        network_key, fit_key = split_apart(check_key(key, "key"), 2)
        num_targets = None
        if self.task == "regression" and np.ndim(y) == 2 and np.shape(y)[1] > 1:
            num_targets = np.shape(y)[1]
        warn_of_few(num_rows)
        candidates = build_candidates(
            self, num_rows, num_inputs, num_classes, num_targets, layout, network_key
        )
        if layout is not None and layout.levels.any():
            x = with_unknown_levels(x, layout, sample_weight, side_key(fit_key))
        shared = {
            "key": fit_key, "sample_weight": sample_weight, "progress": progress,
            "checkpoint": checkpoint, "resume": resume, "mesh": mesh_for(self),
            "standardize": True if layout is None else layout.scaled,
        }  # fmt: skip
        if len(candidates) == 1:
            model, method = candidates[0]
            return Fitted.to_table(fit(model, x, y, method, **shared))
        plan = self.plan(num_rows)
        stacked = fit_stacked(
            candidates, x, y, num_members=plan.num_members,
            num_trial_members=plan.num_trial_members, trial_share=plan.trial_share, **shared,
        )  # fmt: skip
        trials = trials_of(self, candidates, layout, *stacked[1:])
        return Fitted.to_table(stacked.posterior, trials)
