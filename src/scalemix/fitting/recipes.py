"""From plain values to a fitted posterior: what estimators and the command line cook from."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from scalemix import mixtures, networks
from scalemix._random import check_key
from scalemix.data.checks import check_weights
from scalemix.fitting.front_door import fit
from scalemix.fitting.stacking import FLOORS, TEMPERATURES, Candidate, fit_stacked
from scalemix.inference.training.em import VariationalEM
from scalemix.inference.training.noise import NoiseTraining, ObjectiveName
from scalemix.inference.training.objectives import OBJECTIVES
from scalemix.inference.training.scales import have_maximum
from scalemix.likelihoods import Categorical, Gaussian, Likelihood, StudentT
from scalemix.mixtures import ScaleMixture
from scalemix.model.model import Model
from scalemix.posterior.posterior import Posterior
from scalemix.structures import ADD, ARD, ARDADD, DropConnect, Structure

__all__ = [
    "MIXTURES",
    "PRIORS",
    "Fitted",
    "Recipe",
    "Trial",
]

Task = Literal["regression", "classification"]
Inference = Literal["em", "noise", "mcmc"]

PRIORS: dict[str, type[Structure]] = {
    "ard": ARD,
    "drop-connect": DropConnect,
    "add": ADD,
    "ard-add": ARDADD,
}
# Each family, with parameters under which a scale is about one: weights of unit spread.
MIXTURES: dict[str, tuple[type[ScaleMixture], dict[str, float]]] = {
    "bernoulli": (mixtures.Bernoulli, {"keep": 0.95}),
    "beta": (mixtures.Beta, {"a": 19.0, "b": 1.0}),
    "exponential": (mixtures.Exponential, {"rate": 1.0}),
    "gamma": (mixtures.Gamma, {"shape": 2.0, "rate": 2.0}),
    "gaussian": (mixtures.Gaussian, {"std": 0.25}),
    "half-cauchy": (mixtures.HalfCauchy, {"scale": 1.0}),
    "inverse-gamma": (mixtures.InverseGamma, {"shape": 3.0, "rate": 3.0}),
    "inverse-nakagami": (mixtures.InverseNakagami, {"shape": 3.0, "spread": 1.0}),
    "log-uniform": (mixtures.LogUniform, {}),
    "rayleigh": (mixtures.Rayleigh, {"scale": math.sqrt(0.5)}),
    "uniform": (mixtures.Uniform, {"low": 0.5, "high": 1.5}),
}
# What "auto" stands for: the closed-form scales of EM suit the one, noise the other.
SUITING: dict[str, str] = {"em": "inverse-gamma", "noise": "bernoulli", "mcmc": "inverse-gamma"}
# Networks in an ensemble, or chains, unless told otherwise.
MEMBERS: dict[str, int] = {"em": 16, "noise": 8, "mcmc": 8}
# From so many rows on, batches are larger and training is longer.
MANY_ROWS = 5000
# Steps of training for fewer and for many rows, unless told otherwise.
STEPS: dict[str, tuple[int, int]] = {"em": (14_000, 17_000), "noise": (8_000, 10_000)}
CHAIN_STEPS, CHAIN_SAMPLES = 4_000, 250
# The least noise of a real target where several are not tried.
ONE_FLOOR = 1e-3


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
class Recipe:
    """Everything that is chosen before the data are seen, in plain values.

    `prior` says who shares a scale: "ard" (units), "drop-connect" (weights), "add" (layers) or
    "ard-add" (units and layers). Layers without a path around them have "ard" in place of the last
    two. `mixture` is the family of the scales: "bernoulli", "half-cauchy" and so on, see
    `MIXTURES`; "auto" is "inverse-gamma", and "bernoulli" for noise training. Parameters that
    `mixture_parameters` does not name have the values of that table.

    `hidden` has the width of each hidden layer, all the same if `residual`. `num_members` networks
    are fitted from different starts, or so many chains run: 16 by EM, else 8. `max_steps` and
    `batch_size` depend on the number of rows unless given; `batch_size` means nothing to MCMC.

    With `inference="em"` the `temperature` of the prior and the `noise_floor` of a real target,
    unless they are numbers, are those of several that explain held-out rows best, tried with
    `num_trial_members` networks each. `objective` and `num_draws` are those of noise training,
    `sampler` that of MCMC.
    """

    task: Task = "regression"
    prior: str = "ard-add"
    mixture: str = "auto"
    mixture_parameters: Mapping[str, float] | None = None
    inference: Inference = "em"
    hidden: tuple[int, ...] = (50, 50)
    residual: bool = True
    num_members: int | None = None
    num_trial_members: int = 4
    max_steps: int | None = None
    batch_size: int | None = None
    learning_rate: float = 1e-2
    temperature: float | Literal["auto"] = "auto"
    noise_floor: float | Literal["auto"] = "auto"
    objective: ObjectiveName = "tail_adaptive"
    num_draws: int = 10
    sampler: Literal["nuts", "mclmc"] = "mclmc"

    def __post_init__(self):
        for name, choices in (
            ("task", ("regression", "classification")),
            ("prior", PRIORS),
            ("mixture", ("auto", *MIXTURES)),
            ("inference", tuple(SUITING)),
            ("objective", OBJECTIVES),
            ("sampler", ("nuts", "mclmc")),
        ):
            value = getattr(self, name)
            if not (isinstance(value, str) and value in choices):
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}.")
        object.__setattr__(self, "hidden", _widths(self.hidden, self.residual))
        for name in ("num_members", "num_trial_members", "max_steps", "batch_size", "num_draws"):
            value = getattr(self, name)
            if value is not None or name not in ("num_members", "max_steps", "batch_size"):
                object.__setattr__(self, name, _whole(name, value))
        for name in ("learning_rate", "temperature", "noise_floor"):
            value = getattr(self, name)
            if isinstance(value, str) and value == "auto" and name != "learning_rate":
                continue
            if not _is_number(value) or not 0 < float(value) < math.inf:
                raise ValueError(f"{name} must be a positive number, got {value!r}.")
        self._check_mixture()

    @property
    def members(self) -> int:
        """How many networks are fitted, or chains run."""
        return MEMBERS[self.inference] if self.num_members is None else self.num_members

    def settings(self, num_rows: int) -> dict[str, Any]:
        """What counts in a fit to so many rows, in values that JSON holds.

        Settings that mean nothing to this inference are left out, and those left open are there
        with what they become.
        """
        name, parameters = self._mixture()
        found = {
            "task": self.task, "inference": self.inference, "prior": self.prior, "mixture": name,
            "mixture_parameters": parameters, "hidden": list(self.hidden),
            "residual": self.residual, "num_members": self.members,
        }  # fmt: skip
        if self.task == "regression":
            # EM tries several; the others have one.
            one = self.inference != "em" and self.noise_floor == "auto"
            found["noise_floor"] = ONE_FLOOR if one else self.noise_floor
        if self.inference == "mcmc":
            return found | {"sampler": self.sampler, "max_steps": self.max_steps or CHAIN_STEPS}
        training = self.training(num_rows)
        found |= {
            "max_steps": training["steps"], "batch_size": training["batch_size"],
            "learning_rate": training["learning_rate"],
        }  # fmt: skip
        if self.inference == "noise":
            return found | {"objective": self.objective, "num_draws": self.num_draws}
        found["temperature"] = self.temperature
        if "auto" in (self.temperature, found.get("noise_floor")):
            found["num_trial_members"] = self.num_trial_members
        return found

    def _check_mixture(self) -> None:
        mixture = self.build_mixture()
        if self.inference == "em" and not has_update(mixture):
            names = [name for name, (kind, given) in MIXTURES.items() if has_update(kind(**given))]
            raise ValueError(
                f"mixture={self.mixture!r} has no closed-form update, which inference='em' needs. "
                f"Use one of {', '.join(names)}, or inference='noise' or 'mcmc'."
            )
        scales = {"unit": self.hidden[0], "layer": 1}
        if self.inference == "em" and not have_maximum(self.build_prior(), scales):
            raise ValueError(
                f"prior={self.prior!r} with mixture={self.mixture!r} has no most probable scales: "
                f"those of units and of layers multiply, and nothing says which of them is large. "
                f"Use prior='ard', or mixture='half-cauchy'."
            )
        if self.inference != "em" and self.mixture == "log-uniform":
            raise ValueError(
                f"mixture='log-uniform' is improper, and inference={self.inference!r} has to "
                f"sample from it. Use inference='em', or mixture='half-cauchy'."
            )

    def build_mixture(self) -> ScaleMixture:
        """The family of scales, with its parameters."""
        name, parameters = self._mixture()
        return MIXTURES[name][0](**parameters)

    def _mixture(self) -> tuple[str, dict[str, float]]:
        """The name of the family and the values of its parameters, or a `ValueError`."""
        name = SUITING[self.inference] if self.mixture == "auto" else self.mixture
        kind, parameters = MIXTURES[name]
        given = dict(self.mixture_parameters or {})
        names = [field.name for field in dataclasses.fields(kind)]
        for key, value in given.items():
            if key not in names:
                takes = f"takes {', '.join(names)}" if names else "has no parameters"
                raise ValueError(f"mixture_parameters: {name!r} {takes}; got {key!r}.")
            if not _is_number(value):
                raise ValueError(f"mixture_parameters: {key} must be a number, got {value!r}.")
        return name, parameters | {key: float(value) for key, value in given.items()}

    def build_network(self, num_inputs: int, num_outputs: int, *, key: PRNGKeyArray) -> PyTree:
        """A network with fresh weights."""
        if self.residual:
            width, depth = self.hidden[0], len(self.hidden)
            return networks.ResNet(num_inputs, num_outputs, width, depth, key=key)
        return networks.MLP(num_inputs, num_outputs, self.hidden, key=key)

    def build_prior(self) -> Structure:
        """The prior of the weights."""
        structure = PRIORS[self.prior]
        if structure in (ADD, ARDADD) and not (self.residual and len(self.hidden) > 1):
            structure = ARD
        return structure(self.build_mixture())

    def build_likelihoods(self, num_classes: int | None) -> list[Likelihood]:
        """The distributions of a target that are tried; the first where one must do."""
        if self.task == "classification":
            return [Categorical(num_classes or 2)]
        if self.inference == "em":
            floors = FLOORS if self.noise_floor == "auto" else (self.noise_floor,)
            return [StudentT(4.0, floor=floor, per_input=True) for floor in floors]
        return [Gaussian(floor=ONE_FLOOR if self.noise_floor == "auto" else self.noise_floor)]

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
        num_rows, num_inputs = _table_shape(x)
        if sample_weight is not None:
            # A row of weight zero is as good as none.
            sample_weight = check_weights(sample_weight, num_rows)
            num_rows = int(np.count_nonzero(sample_weight))
        if self.task == "classification":
            num_classes = _count_classes(y, num_classes)
        network_key, fit_key = jax.random.split(check_key(key, "key"))
        likelihoods = self.build_likelihoods(num_classes)
        num_outputs = likelihoods[0].num_outputs
        network = self.build_network(num_inputs, num_outputs, key=network_key)
        models = [Model(network, self.build_prior(), likelihood) for likelihood in likelihoods]
        shared = {
            "key": fit_key, "sample_weight": sample_weight, "progress": progress,
            "checkpoint": checkpoint, "resume": resume,
        }  # fmt: skip
        if self.inference != "em":
            method = self._noise_training(num_rows) if self.inference == "noise" else self._mcmc()
            return Fitted(fit(models[0], x, y, method, **shared), ())
        temperatures = TEMPERATURES if self.temperature == "auto" else (self.temperature,)
        settings = list(itertools.product(models, temperatures))
        candidates = [
            Candidate(model, VariationalEM(**self.training(num_rows), temperature=temperature))
            for model, temperature in settings
        ]
        if len(candidates) == 1:
            model, method = candidates[0]
            method = dataclasses.replace(method, num_members=self.members)
            return Fitted(fit(model, x, y, method, **shared), ())
        stacked = fit_stacked(
            candidates, x, y, num_members=self.members,
            num_trial_members=self.num_trial_members, **shared,
        )  # fmt: skip
        trials = tuple(
            Trial(
                temperature=temperature,
                noise_floor=getattr(model.likelihood, "floor", None),
                weight=float(stacked.weights[i]),
                score=float(stacked.scores[i]),
                num_members=int(stacked.num_members[i]),
            )
            for i, (model, temperature) in enumerate(settings)
        )
        return Fitted(stacked.posterior, trials)

    def training(self, num_rows: int) -> dict[str, Any]:
        """Steps, batches and rate for so many rows."""
        many = num_rows > MANY_ROWS
        steps = self.max_steps or STEPS[self.inference][many]
        return {
            "steps": steps,
            "batch_size": self.batch_size or (128 if many else 64),
            "learning_rate": self.learning_rate,
            # Often enough for a bar that moves, seldom enough to cost nothing.
            "chunk_steps": min(500, steps),
        }

    def _noise_training(self, num_rows: int) -> NoiseTraining:
        return NoiseTraining(
            self.objective, num_draws=self.num_draws, num_members=self.members,
            **self.training(num_rows),
        )  # fmt: skip

    def _mcmc(self) -> Any:
        # Chains need packages that not everyone has.
        from scalemix.inference.chains.mcmc import MCMC

        steps = self.max_steps or CHAIN_STEPS
        thin = max(1, steps // 2 // CHAIN_SAMPLES)
        return MCMC(
            num_chains=self.members,
            num_warmup=max(1, steps // 2),
            num_samples=max(1, steps // 2 // thin),
            thin=thin,
            sampler=self.sampler,
            warm_start=True,
            learning_rate=self.learning_rate,
        )


def _widths(hidden: Any, residual: bool) -> tuple[int, ...]:
    try:
        widths = tuple(hidden)
    except TypeError:
        widths = (hidden,)
    if not widths:
        raise ValueError("hidden must have the width of one hidden layer or more, got none.")
    widths = tuple(_whole("Each width of hidden", width) for width in widths)
    if residual and len(set(widths)) > 1:
        raise ValueError(
            f"hidden={widths}: the layers of a residual network are of one width. Make them so, "
            f"or pass residual=False."
        )
    return widths


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
    return int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def has_update(mixture: ScaleMixture) -> bool:
    """Whether variational EM can use the family."""
    try:
        mixture.optimal_variance(1.0, 1)
    except ValueError:
        return False
    return True


def _table_shape(x: Any) -> tuple[int, int]:
    shape = np.shape(x)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"x must be a table with one row or more and one column or more, got the shape {shape}."
        )
    return shape


def _count_classes(y: Any, num_classes: int | None) -> int:
    y = np.asarray(y)
    if y.dtype.kind not in "biu" or y.size == 0 or y.min() < 0:
        raise ValueError(
            f"y must be classes numbered from 0, as whole numbers; got the type {y.dtype}."
        )
    count = int(y.max()) + 1 if num_classes is None else num_classes
    if count < 2:
        raise ValueError("y holds one class only: there is nothing to tell apart.")
    if y.max() >= count:
        raise ValueError(f"y holds the class {y.max()}, and num_classes={count}.")
    return count
