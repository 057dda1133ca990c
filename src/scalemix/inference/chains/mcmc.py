"""Markov chain Monte Carlo: samples from the posterior itself, as many as wanted."""

import dataclasses
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._parameters import as_plain_numbers
from scalemix._random import side_key, stack_keys
from scalemix._types import PyTree
from scalemix.data.batches import Data, stack
from scalemix.data.rows import take_rows
from scalemix.data.values import is_number
from scalemix.inference.chains import gibbs
from scalemix.inference.chains import loop as chains_loop
from scalemix.inference.chains.chain import Chain, ChainState
from scalemix.inference.chains.density import log_density
from scalemix.inference.chains.sampler import Sampler, Transition
from scalemix.inference.chains.starts import climb, from_expanded, start
from scalemix.inference.driver import Control
from scalemix.inference.method import Inferred, Method, Outcome, Problem
from scalemix.inference.side_by_side import stack_fits, take
from scalemix.inference.training.jobs import ensemble_jobs, run_jobs
from scalemix.inference.training.settings import Training
from scalemix.model.model import Model
from scalemix.model.site_prior import Parametrization
from scalemix.model.unknowns import Unknowns
from scalemix.networks.demands import check_density
from scalemix.posterior.diagnostics import warn_if_chains_disagree, warn_if_diverged
from scalemix.posterior.networks import SampledNetworks
from scalemix.posterior.posterior import History, Posterior

# Training inputs at which chains are compared.
NUM_PROBES = 50

SamplerName = Literal["nuts", "mclmc"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class MCMC(Method, Chain):
    """Sample weights, scales and noise level together, in several chains side by side.

    For every proper prior. The chains on one device, those of all fits of `fit_many` included, step
    together, so that with NUTS they wait for the longest trajectory. Those on other devices go on.
    Needs `pip install "scalemix[mcmc]"`.

    Parameters
    ----------
    num_chains : int, default 4
        The number of chains of each fit.
    num_warmup : int, default 1000
        The number of steps that each chain takes to adapt, of which none is kept.
    num_samples : int, default 1000
        The number of samples that are kept of each chain.
    thin : int, default 1
        Every so many steps after the warm-up one sample is kept.
    sampler : {"nuts", "mclmc"}, default "nuts"
        NUTS is exact and needs no tuning. MCLMC takes many cheap steps, with a bias that
        `energy_tolerance` bounds; it suits networks.
    parametrization : {"expanded", "hierarchical"}, default "expanded"
        Which coordinates chains move in: `z` and `log xi` with `w = xi z`, or `w` and `log xi`. The
        posterior is the same, but the former moves better where data say little. Scales on a
        bounded interval are sampled along a sigmoid.
    warm_start : bool or Training, default True
        Where chains start. `False`: at the network's values, each chain with another order of
        them. `True`: from there uphill, by `warm_start_steps` steps of Adam. A method of training,
        such as `VariationalEM(steps=2000)`: it fits one network for each chain first, each from a
        start of its own, and each chain begins where its fit ended, like the members of a deep
        ensemble.
    warm_start_steps : int, default 1000
        The length of the way uphill with `warm_start=True`.
    learning_rate : float, default 1e-2
        Adam's rate on the way uphill.
    target_acceptance : float, default 0.8
        The acceptance rate that NUTS adapts its step size to. More means shorter steps.
    max_depth : int, default 10
        NUTS makes at most `2 ** max_depth` leaps a step.
    energy_tolerance : float, default 5e-4
        The variance of the error in energy, per unknown, that MCLMC adapts its step size to. Less
        means less bias.
    inclusion_updates : int, optional
        Bernoulli scales are discrete. So many of them are drawn from their exact conditionals
        before each step; all of them unless given.
    free_scale : float, default 1.0
        A posterior needs a prior on everything. Arrays of the network that the model leaves without
        one, such as biases and norms, are given `N(0, free_scale^2)`.
    likelihood_scale : float, default 3.0
        The parameters of the likelihood are given `N(0, likelihood_scale^2)`: the raw noise level,
        before its softplus, on standardised targets.
    chunk_steps : int, default 50
        The number of steps between two looks at the run, where progress is shown and checkpoints
        are written.

    Examples
    --------
    >>> method = sx.MCMC(
    ...     num_chains=2, num_warmup=5, num_samples=3, sampler="mclmc", warm_start=False
    ... )
    >>> post = sx.fit(model, x, y, method, key=key)
    >>> post.networks.positions.shape[:2]
    (2, 3)
    """

    num_chains: int = 4
    num_warmup: int = 1000
    num_samples: int = 1000
    thin: int = 1
    sampler: SamplerName = "nuts"
    parametrization: Parametrization = "expanded"
    warm_start: bool | Training = True
    warm_start_steps: int = 1000
    learning_rate: float = 1e-2
    target_acceptance: float = 0.8
    max_depth: int = 10
    energy_tolerance: float = 5e-4
    inclusion_updates: int | None = None
    free_scale: float = 1.0
    likelihood_scale: float = 3.0
    chunk_steps: int = 50

    def __post_init__(self) -> None:
        as_plain_numbers(self)
        counts = (
            "num_chains", "num_warmup", "num_samples", "thin", "warm_start_steps", "max_depth",
            "chunk_steps", "inclusion_updates",
        )  # fmt: skip
        for name in counts:
            value = getattr(self, name)
            missing = value is None and name == "inclusion_updates"
            if not missing and not (isinstance(value, int) and value > 0):
                raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
        for name in ("learning_rate", "energy_tolerance", "free_scale", "likelihood_scale"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 < value < math.inf):
                raise ValueError(f"{name} must be a positive number, got {value!r}.")
        if not (is_number(self.target_acceptance) and 0 < self.target_acceptance < 1):
            raise ValueError(
                f"target_acceptance must lie in (0, 1), got {self.target_acceptance!r}."
            )
        for name, choices in (
            ("sampler", get_args(SamplerName)),
            ("parametrization", get_args(Parametrization)),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}.")
        start = self.warm_start
        if not isinstance(start, bool | Training):
            raise ValueError(
                f"warm_start must be True, False or a method of training, got {start!r}."
            )
        if isinstance(start, Training) and (start.num_members != 1 or start.validation_fraction):
            raise ValueError(
                "A warm start fits one network for each chain to all rows: leave num_members and "
                "validation_fraction alone."
            )
        for package in ("blackjax", "arviz"):
            require_extra(package)

    def check_model(self, model: Model) -> None:
        """Raise `ValueError` for a prior that is not proper, or has no density in this form."""
        if isinstance(self.warm_start, Training):
            self.warm_start.check_model(model)
        check_density(model.network)
        for name, structure in model.structures.items():
            if not np.isfinite(structure.scale).all():
                raise ValueError(
                    f"The prior on {name!r} is flat (scale = inf), so there is no posterior to "
                    f"sample. Give {type(structure).__name__} a finite scale."
                )
            for mixture in structure.groups.values():
                try:
                    jax.eval_shape(lambda key, m=mixture: m.sample(key=key), jax.random.key(0))
                except ValueError as error:
                    raise ValueError(f"The prior on {name!r}: {error}") from None
                if mixture.is_discrete and self.parametrization == "hierarchical":
                    raise ValueError(
                        f"The prior on {name!r} is Bernoulli: a weight that is switched off has no "
                        f"density in the hierarchical form. Use parametrization='expanded'."
                    )

    @classmethod
    def run(cls, problems: Sequence[Problem], control: Control) -> Outcome:
        method = problems[0].method
        for i, problem in enumerate(problems):
            if problem.method != method:
                raise ValueError(
                    f"Chains that run together have the same settings: method {i} differs from "
                    f"method 0. Fit them apart."
                )
        sets, keys = [p.data for p in problems], stack_keys([p.key for p in problems])
        fits = stack_fits([method] * len(problems), [p.model for p in problems])
        ran = chains_loop.run(
            method, fits.models, stack(sets), np.array([len(data.y) for data in sets]), keys,
            control, method.starts_from_training(problems, control),
        )  # fmt: skip
        sampled = ran.positions, ran.bits, ran.transitions
        inferred = [
            method.inferred(take(fits.models, i), data, *take(sampled, i))
            for i, data in enumerate(sets)
        ]
        return Outcome(inferred, _warn)

    def starts_from_training(
        self, problems: Sequence[Problem], control: Control
    ) -> Callable[[], PyTree] | None:
        """A function that trains models for the chains to start from, if that is asked for.

        The models have two leading axes, fits and chains.
        """
        engine = self.warm_start
        if isinstance(engine, bool):
            return None
        sets = [problem.data for problem in problems]
        shape = len(problems), self.num_chains

        def train() -> PyTree:
            jobs = [
                job
                for i, p in enumerate(problems)
                for job in ensemble_jobs(p.model, engine, i, side_key(p.key), self.num_chains)
            ]
            watched = Control(report=control.report, mesh=control.mesh)
            models = run_jobs(jobs, engine.schedule(sets), sets, control=watched).networks.model
            return jax.tree.map(
                lambda leaf: leaf.reshape(shape + leaf.shape[1:]) if eqx.is_array(leaf) else leaf,
                models,
            )

        return train

    def inferred(
        self, model: Model, data: Data, positions: np.ndarray, bits: np.ndarray, steps: Transition
    ) -> Inferred:
        """What the chains of one fit have sampled, with the best sample as the model."""
        kept = steps.log_density[:, self.num_warmup :][:, self.thin - 1 :: self.thin]
        best = np.unravel_index(kept.argmax(), kept.shape)
        best_sample = jax.device_put((positions[best], bits[best]))
        model = self.unknowns(model).place(*best_sample).model
        probes = take_rows(data.x, np.linspace(0, len(data.y) - 1, NUM_PROBES).astype(int))
        networks = SampledNetworks(
            model, self.unknowns(model), *jax.device_put((positions, bits, probes))
        )
        recorded = {name: v[:, self.num_warmup :] for name, v in steps._asdict().items()}
        return Inferred(
            networks, History(steps.log_density / data.weight.sum(), np.zeros(0), recorded)
        )

    def unknowns(self, model: Model) -> Unknowns:
        """The coordinates that chains move in."""
        scales = float(self.free_scale), float(self.likelihood_scale)
        return Unknowns(model, self.parametrization, *scales)

    def _sampler(self) -> Sampler:
        # BlackJAX is imported only when it is needed.
        if self.sampler == "nuts":
            from scalemix.inference.chains.nuts import NUTS

            return NUTS(self.num_warmup, self.target_acceptance, self.max_depth)
        from scalemix.inference.chains.mclmc import MCLMC

        return MCLMC(self.num_warmup, self.energy_tolerance)

    @property
    def stepping(self) -> "MCMC":
        """The method without what only its beginning and its end depend on."""
        return dataclasses.replace(
            self, num_samples=1, warm_start=False, warm_start_steps=1, learning_rate=1.0
        )

    def init(self, model: Model, data: Data, key: PRNGKeyArray, is_first: Array) -> ChainState:
        """The first state of one chain."""
        unknowns = self.unknowns(model)
        start_key, sampler_key = jax.random.split(key)
        position = start(unknowns, start_key, is_first)
        if self.warm_start is True:
            position = climb(unknowns, data, position, self.warm_start_steps, self.learning_rate)
        position = from_expanded(unknowns, position)
        bits = jnp.ones(unknowns.num_bits, bool)
        state = self._sampler().init(
            lambda p: log_density(unknowns, data, p, bits), position, sampler_key
        )
        return ChainState(state, bits)

    def step(
        self, state: ChainState, model: Model, data: Data, index: Array, key: PRNGKeyArray
    ) -> tuple[ChainState, Transition]:
        """One step of one chain: inclusion variables first, then everything else."""
        unknowns, sampler = self.unknowns(model), self._sampler()
        inner, bits = state
        gibbs_key, key = jax.random.split(key)
        if unknowns.num_bits:
            num = min(self.inclusion_updates or unknowns.num_bits, unknowns.num_bits)
            bits = gibbs.sweep(unknowns, data, inner.chain.position, bits, num, gibbs_key)

        def logdensity_fn(position: Array) -> Array:
            return log_density(unknowns, data, position, bits)

        if unknowns.num_bits:
            inner = sampler.refresh(logdensity_fn, inner)
        inner, transition = sampler.step(logdensity_fn, inner, index, key)
        return ChainState(inner, bits), transition


def _warn(posteriors: Sequence[Posterior]) -> None:
    for posterior in posteriors:
        warn_if_chains_disagree(posterior)
        warn_if_diverged(posterior)


def require_extra(package: str) -> None:
    """Raise `ImportError` with the remedy unless the package is installed."""
    if importlib.util.find_spec(package) is None:
        raise ImportError(f'MCMC needs {package}: pip install "scalemix[mcmc]"')
