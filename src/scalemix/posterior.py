"""What a fit returns."""

import abc
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._random import check_key
from scalemix.model import Model
from scalemix.networks.gaussians import draw_network
from scalemix.networks.placing import expand_scales
from scalemix.predictive import Drawn, Predictive, Regime
from scalemix.scaling import Scaling
from scalemix.unknowns import Sample, Unknowns

if TYPE_CHECKING:
    from scalemix.diagnostics import Diagnostics
    from scalemix.pruning import Pruned
    from scalemix.relevance import Relevance


class History(NamedTuple):
    """How the fit went. For an ensemble every array has a leading axis, the members."""

    objective: np.ndarray
    """Each step's objective, per datum."""
    score: np.ndarray
    """The held-out log-likelihood per datum after each chunk; empty if nothing was held out."""
    recorded: dict[str, np.ndarray]
    """What was recorded on request, one entry a chunk."""


class WeightMoments(NamedTuple):
    """For each weight of a site: mean, variance, and the variance that its prior gives it."""

    mean: Array
    variance: Array
    prior_variance: Array


class Networks(eqx.Module):
    """Networks that can be drawn: the part of a posterior that predictions are made of.

    It holds nothing but what a draw needs, so that posteriors of one kind share compiled code.
    """

    model: Model
    """What was learned: the network's weights, the likelihood's noise."""

    @property
    def default_draws(self) -> int:
        """How many draws a prediction takes if nothing is said."""
        return 100

    @abc.abstractmethod
    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        """The network of one draw, and the likelihood that goes with it."""

    @abc.abstractmethod
    def weight_moments(self) -> dict[str, WeightMoments]:
        """What is believed of each weight, by site."""


class NoisyNetworks(Networks):
    """One set of weights under noise drawn from its prior."""

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        return Drawn(self.model.with_scales(self.model.draw(key=key)), self.model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        """`w = xi z` under the noise; its prior has settled on nothing but `E[w^2]` itself."""
        found = {}
        for name, z in self.model.weights.items():
            mean = square = jnp.ones((), z.dtype)
            for mixture in self.model.structures[name].groups.values():
                mean = mean * jnp.asarray(mixture.mean, z.dtype)
                square = square * jnp.asarray(mixture.second_moment, z.dtype)
            if not np.isfinite(square):
                raise ValueError(
                    f"The noise on {name!r} has no variance, so that its weights have no signal "
                    f"and noise to compare. Fit this prior by VariationalEM or MCMC."
                )
            moment = square * z**2
            found[name] = WeightMoments(mean * z, moment - (mean * z) ** 2, moment)
        return found


class GaussianNetworks(Networks):
    """An independent Gaussian for each weight, around the means that the model holds.

    `deviations` are their standard deviations, by site; `variances` the scales that the prior
    settled on, by site and group.
    """

    deviations: dict[str, Array]
    variances: dict[str, dict[str, Array]]

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        model = self.model
        network = draw_network(model.network, model.sites, self.deviations, key)
        return Drawn(network, model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        found = {}
        for site in self.model.sites:
            scales = expand_scales(
                site, site.layer(self.model.network), self.variances[site.name]
            ) * jnp.square(jnp.asarray(self.model.structures[site.name].scale))
            found[site.name] = WeightMoments(
                site.weight(self.model.network),
                self.deviations[site.name] ** 2,
                jnp.broadcast_to(scales, site.shape),
            )
        return found


class OneNetwork(Networks):
    """One set of weights and no noise."""

    @property
    def default_draws(self) -> int:
        return 1

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        return Drawn(self.model.network, self.model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        return {
            name: WeightMoments(weight, jnp.zeros_like(weight), weight**2)
            for name, weight in self.model.weights.items()
        }


class SampledNetworks(Networks):
    """Samples from several Markov chains, kept in the coordinates that they were drawn in.

    `positions` are `(chains, samples, unknowns)`, `bits` the inclusion variables beside them, and
    `probes` a few training inputs, as the network sees them, to compare the chains at. The model is
    that of the sample of highest density.
    """

    unknowns: Unknowns
    positions: Array
    bits: Array
    probes: Array

    @property
    def num_samples(self) -> int:
        """All samples of all chains."""
        return self.positions.shape[0] * self.positions.shape[1]

    @property
    def default_draws(self) -> int:
        return min(self.num_samples, 1000)

    def sample(self, chain: int | Array, index: int | Array) -> Sample:
        """The model and the scales of one sample of one chain."""
        return self.unknowns.place(self.positions[chain, index], self.bits[chain, index])

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        num_chains, num_samples = self.positions.shape[:2]
        # Chain by chain, and along each so that any number of draws is spread over all of it.
        place = jnp.asarray(spread_order(num_samples))[index // num_chains % num_samples]
        model = self.sample(index % num_chains, place).model
        return Drawn(model.network, model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        """Over all samples of all chains; the prior's variance is that of the scales sampled."""
        return eqx.filter_jit(_sampled_moments)(self)


def _sampled_moments(networks: SampledNetworks) -> dict[str, WeightMoments]:
    num_chains, num_samples = networks.positions.shape[:2]
    sites = networks.model.sites

    def one(place: Array) -> dict[str, tuple[Array, Array, Array]]:
        model, scales = networks.sample(place // num_samples, place % num_samples)
        found = {}
        for site in sites:
            weight = site.weight(model.network)
            xi = expand_scales(site, site.layer(model.network), scales[site.name])
            deviation = xi * jnp.asarray(model.structures[site.name].scale, weight.dtype)
            found[site.name] = weight, weight**2, jnp.broadcast_to(deviation**2, site.shape)
        return found

    def add(total: Any, place: Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, one(place)), None

    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(one, jnp.int32(0)))
    num = num_chains * num_samples
    total, _ = jax.lax.scan(add, zero, jnp.arange(num, dtype=jnp.int32))
    found = {}
    for name, sums in total.items():
        mean, square, prior = (value / num for value in sums)
        found[name] = WeightMoments(mean, jnp.maximum(square - mean**2, 0.0), prior)
    return found


def spread_order(num: int) -> np.ndarray:
    """The numbers below `num`, each of them once, in an order whose every beginning is spread out.

    That of their binary digits reversed (van der Corput).
    """
    width = max(num - 1, 1).bit_length()
    reversed_digits = [int(f"{i:0{width}b}"[::-1], 2) for i in range(2**width)]
    return np.array([i for i in reversed_digits if i < num], np.int32)


class Ensemble(eqx.Module):
    """Networks of several fits, of which the draws take one after the other.

    `stacked` is one set of networks whose arrays have a leading axis, the members.
    """

    stacked: Networks
    num_members: int = eqx.field(static=True)

    @property
    def model(self) -> Model:
        """The model of the first member."""
        return self.member(0).model

    @property
    def default_draws(self) -> int:
        # As many for each member.
        return self.num_members * math.ceil(self.member(0).default_draws / self.num_members)

    def member(self, index: int | Array) -> Networks:
        """The networks of one member."""
        arrays, static = eqx.partition(self.stacked, eqx.is_array)
        return eqx.combine(jax.tree.map(lambda leaf: leaf[index], arrays), static)

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        return self.member(index % self.num_members)(index // self.num_members, key)


class Posterior(eqx.Module):
    """What is believed about a network after the data.

    `networks` draws from what is still uncertain; `model` holds what was learned.
    """

    networks: Networks | Ensemble
    scaling: Scaling
    history: History
    key: PRNGKeyArray
    """The key of predictions that are given none, so that they too are repeatable."""

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
                jax.random.fold_in(self.key, i),
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
        regime = Regime(self.networks, self.model.likelihood, self.scaling, key)
        return Predictive(regime, check_inputs(x, self.model), num_draws)

    def save(self, path: str | Path, *, metadata: dict[str, Any] | None = None) -> None:
        """Write the posterior to one file, which `scalemix.load` reads.

        Any earlier file is replaced at once, and survives if this fails. `metadata` is a dict of
        what JSON holds, for `scalemix.storage.read` to give back. A network that is no
        `scalemix.networks.MLP` or `ResNet`, or has an activation that is not in `jax.nn`, is saved
        without its code: `load` then asks for `network=`, one of the same class and sizes.
        """
        # Files know posteriors, so this one looks for them only when asked.
        from scalemix.storage import write

        write(path, self, metadata)

    def relevance(self, *, threshold: float = 0.01) -> "Relevance":
        """How much each input, hidden unit and layer matters, and which are switched off."""
        from scalemix.relevance import find_relevance

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
        from scalemix.pruning import prune

        return prune(
            self, x, threshold=threshold, tolerance=tolerance, mask_only=mask_only,
            drop_inputs=drop_inputs,
        )  # fmt: skip

    # What follows is of posteriors that MCMC sampled; a `ValueError` says so of others. Imported
    # here, because diagnostics stand above the posterior that they are made of.

    def diagnostics(self, x: Any = None) -> "Diagnostics":
        """Whether the chains agree, in the function (at `x`, or some training inputs) and in the
        weights, which a network does not identify. See `scalemix.diagnostics`.
        """
        from scalemix.diagnostics import diagnose

        return diagnose(self, x)

    def to_arviz(self) -> Any:
        """The samples and each step's statistics as an ArviZ `InferenceData`."""
        from scalemix.diagnostics import to_arviz

        return to_arviz(self)

    def inclusion_probabilities(self) -> dict[str, dict[str, np.ndarray]]:
        """The posterior probability of each Bernoulli scale to be on, by site and group."""
        from scalemix.diagnostics import inclusion_probabilities

        return inclusion_probabilities(self)

    def __repr__(self) -> str:
        kind, steps = type(self.networks).__name__, self.history.objective.shape[-1]
        if isinstance(self.networks, Ensemble):
            kind = f"{self.networks.num_members} x {type(self.networks.stacked).__name__}"
        return f"Posterior({self.model!r}, {kind}, after {steps} steps)"


def check_inputs(x: Any, model: Model) -> np.ndarray:
    """Inputs as an array that the model's network takes row by row, or a `ValueError`."""
    columns = list(getattr(x, "columns", []))
    if columns:
        text = [
            name for name, kind in zip(columns, x.dtypes, strict=True) if kind.kind not in "biuf"
        ]
        if text:
            raise ValueError(
                f"Column {text[0]!r} of x holds no plain numbers ({x.dtypes[text[0]]}). Encode or "
                f"drop it first."
            )
    x = np.asarray(x)
    if x.dtype.kind not in "biuf":
        raise ValueError(f"x must be real numbers, got the type {x.dtype}.")
    if x.ndim == 0:
        raise ValueError("x must hold examples along its first axis, got a single number.")
    dtype = next(iter(model.weights.values())).dtype
    # Whole numbers are measurements, unless the network takes nothing else (an embedding).
    problem = _refusal(model, x.shape[1:], dtype)
    if problem is None:
        x = x.astype(dtype)
    elif x.dtype.kind in "iu" and _refusal(model, x.shape[1:], x.dtype) is None:
        return x
    else:
        raise ValueError(
            f"The network does not take an example of shape {x.shape[1:]}, a row of x, which has "
            f"the shape {x.shape}. It says: {problem}"
        )
    if not np.isfinite(x).all():
        where = np.argwhere(~np.isfinite(x))[0]
        place = f"row {where[0]}" + (f", column {where[1]}" if x.ndim == 2 else "")
        raise ValueError(f"x is not finite at {place}. Remove or impute such values first.")
    return x


def _refusal(model: Model, shape: tuple[int, ...], dtype: Any) -> str | None:
    """What the network says against an example of this shape and type, if anything."""
    try:
        eqx.filter_eval_shape(
            model.network, jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
        )
    except Exception as error:
        lines = str(error).strip().splitlines()
        return lines[0] if lines else type(error).__name__
    return None
