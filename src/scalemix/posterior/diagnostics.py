"""Whether Markov chains have arrived, and how much their samples are worth.

The weights of a network are not identified: units can be swapped and signs turned without changing
the function, so chains that agree about every prediction may disagree about every weight. What
counts is the function; the weights are shown because in linear models, and for scales, they count
as well.
"""

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from scalemix.data.checks import check_inputs, inputs_as_seen
from scalemix.posterior.networks import SampledNetworks
from scalemix.posterior.posterior import Posterior

if TYPE_CHECKING:
    from xarray import Dataset

# Vehtari et al. (2021) want 1.01 of quantities that are reported; networks are let off lightly.
LARGEST_RHAT = 1.05
# Samples that go through the network side by side.
TOGETHER = 64
# Below so many samples a chain there is nothing to compare.
FEWEST_SAMPLES = 4


class ConvergenceWarning(UserWarning):
    """The chains of a fit do not agree, or could not follow the posterior."""


@dataclasses.dataclass(frozen=True)
class Convergence:
    """Rank-normalised split R-hat, and bulk and tail effective sample sizes, of some quantities.

    R-hat is one where chains agree. Not a number where a quantity never changes.
    """

    rhat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray

    def __str__(self) -> str:
        if np.isnan(self.rhat).all():
            return "constant"
        worst = np.nanmax(self.rhat), np.nanmin(self.ess_bulk), np.nanmin(self.ess_tail)
        return "R-hat at most {:.3f}, ESS at least {:.0f} bulk, {:.0f} tail".format(*worst)


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """How the chains of a fit fared. `str` of it is a short report.

    `function` is about the network's outputs at some inputs, `(inputs, outputs)`, and is what
    counts; `weights` (by site) and `scales` (by site and group) are of parameters, which a network
    does not identify. The rest is one number a chain: steps that diverged, the energy's Bayesian
    fraction of missing information (below 0.3 is poor; not a number for MCLMC, which has none),
    and the mean acceptance.
    """

    function: Convergence
    weights: dict[str, Convergence]
    scales: dict[str, dict[str, Convergence]]
    divergences: np.ndarray
    ebfmi: np.ndarray
    acceptance: np.ndarray

    def __str__(self) -> str:
        lines = [f"function: {self.function}"]
        lines += [f"weights of {name}: {found}" for name, found in self.weights.items()]
        lines += [
            f"{group} scales of {name}: {found}"
            for name, groups in self.scales.items()
            for group, found in groups.items()
        ]
        lines.append(f"divergences: {', '.join(map(str, self.divergences))}")
        lines.append(f"E-BFMI: {', '.join(f'{value:.2f}' for value in self.ebfmi)}")
        lines.append(f"acceptance: {', '.join(f'{value:.2f}' for value in self.acceptance)}")
        return "\n".join(lines)


def diagnose(posterior: Posterior, x: Any = None) -> Diagnostics:
    """The diagnostics of a posterior that MCMC sampled, at these inputs or at some of training."""
    networks, recorded = _sampled(posterior), posterior.history.recorded
    inputs = networks.probes if x is None else _as_seen(posterior, x)
    weights, scales = _parameters(networks)
    energy = recorded["energy"].astype(float)
    changes = np.square(np.diff(energy, axis=1)).sum(axis=1)
    spread = np.square(energy - energy.mean(axis=1, keepdims=True)).sum(axis=1)
    return Diagnostics(
        function=_convergence(_outputs(networks, inputs)),
        weights={name: _convergence(value) for name, value in weights.items()},
        scales={n: {g: _convergence(v) for g, v in groups.items()} for n, groups in scales.items()},
        divergences=recorded["diverged"].sum(axis=1),
        ebfmi=changes / spread,
        acceptance=recorded["acceptance"].mean(axis=1),
    )


def warn_if_chains_disagree(posterior: Posterior) -> None:
    """Warn, and say what to do, where chains differ in function space."""
    networks = _sampled(posterior)
    if networks.positions.shape[1] < FEWEST_SAMPLES:
        return
    worst = _worst(_rhat(_outputs(networks, networks.probes)))
    if worst > LARGEST_RHAT:
        warnings.warn(
            f"The chains disagree: R-hat of the network's outputs at training inputs is up to "
            f"{worst:.2f}, and should be below {LARGEST_RHAT}. Predictions average over all "
            f"chains, as an ensemble's do, but are not yet the posterior's. Let chains run longer "
            f"(num_warmup, num_samples, or thin), start them with warm_start=True, or make the "
            f"posterior easier: a smaller network, a prior with lighter tails. "
            f"print(posterior.diagnostics()) says more.",
            ConvergenceWarning,
            stacklevel=5,
        )


def warn_if_diverged(posterior: Posterior) -> None:
    """Warn, and say what to do, where trajectories of NUTS left the posterior."""
    _sampled(posterior)
    energy, diverged = (posterior.history.recorded[name] for name in ("energy", "diverged"))
    # Without an energy there are no trajectories: MCLMC takes a bad step back and goes on.
    if np.isnan(energy).all() or not diverged.any():
        return
    by_chain = ", ".join(map(str, diverged.sum(axis=1).tolist()))
    warnings.warn(
        f"{diverged.sum()} of {diverged.size} transitions after the warm-up diverged (by chain: "
        f"{by_chain}): where the posterior is narrow, steps were too long to follow it, and the "
        f"samples miss a part of it. Take shorter steps (target_acceptance=0.95 or more), use "
        f"parametrization='expanded', or a prior with lighter tails.",
        ConvergenceWarning,
        stacklevel=5,
    )


def to_arviz(posterior: Posterior) -> Any:
    """The samples as ArviZ holds them: an `InferenceData`, or in newer versions a `DataTree`.

    The weights `w` of each site, its scales as `site.group`, everything else that was learned by
    its name, and each step's diagnostics. Among these `lp` is the log density of data and unknowns,
    in the coordinates that the chains moved in.
    """
    az = _arviz()
    networks, recorded = _sampled(posterior), posterior.history.recorded
    weights, scales = _parameters(networks)
    samples = dict(weights)
    samples |= {f"{n}.{g}": value for n, groups in scales.items() for g, value in groups.items()}
    samples |= _others(networks)
    thin = recorded["energy"].shape[1] // networks.positions.shape[1]
    # Files of earlier versions have no log density, and what they have of it is divided by N.
    names = {
        "log_density": "lp", "diverged": "diverging", "energy": "energy",
        "acceptance": "acceptance_rate", "num_gradients": "n_steps",
    }  # fmt: skip
    statistics = {
        names[name]: value[:, thin - 1 :: thin] for name, value in recorded.items() if name in names
    }
    if hasattr(az, "InferenceData"):
        return az.from_dict(posterior=samples, sample_stats=statistics)
    return az.from_dict({"posterior": samples, "sample_stats": statistics})


def inclusion_probabilities(posterior: Posterior) -> dict[str, dict[str, np.ndarray]]:
    """`p(xi = on | data)` of each Bernoulli scale, by site and group."""
    networks = _sampled(posterior)
    found = networks.unknowns.unravel_bits(networks.bits[0, 0])
    if not networks.unknowns.num_bits:
        raise ValueError(
            "No scale of this model is either on or off: inclusion probabilities are those of "
            "Bernoulli mixtures, such as ARD(Bernoulli(0.5))."
        )
    flat = networks.bits.reshape(networks.num_samples, -1)
    means = jnp.mean(flat, axis=0, dtype=networks.positions.dtype)
    return _split_like(found, np.asarray(means))


def _split_like(tree: Any, values: np.ndarray) -> Any:
    leaves, treedef = jax.tree.flatten(tree)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = np.split(values, ends)
    shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
    return {name: groups for name, groups in jax.tree.unflatten(treedef, shaped).items() if groups}


def _sampled(posterior: Posterior) -> SampledNetworks:
    if not isinstance(posterior.networks, SampledNetworks):
        raise ValueError(
            "Only a posterior that MCMC sampled has chains: fit with method=scalemix.MCMC()."
        )
    return posterior.networks


def _as_seen(posterior: Posterior, x: Any) -> Array:
    model = posterior.model
    return jnp.asarray(inputs_as_seen(check_inputs(x, model), model, posterior.scaling))


@eqx.filter_jit
def _by_sample(networks: SampledNetworks, function: Any) -> Any:
    """`function(sample)` of every sample, on leading axes (chains, samples)."""
    num_chains, num_samples = networks.positions.shape[:2]

    def one(place: Array) -> Any:
        return function(networks.sample(place // num_samples, place % num_samples))

    found = jax.lax.map(one, jnp.arange(num_chains * num_samples), batch_size=TOGETHER)
    return jax.tree.map(lambda v: v.reshape(num_chains, num_samples, *v.shape[1:]), found)


class _OutputsAt(eqx.Module):
    x: Array

    def __call__(self, sample: Any) -> Array:
        return jax.vmap(sample.model.network)(self.x)


def _outputs(networks: SampledNetworks, x: Array) -> np.ndarray:
    return np.asarray(_by_sample(networks, _OutputsAt(x)))


def _weights_and_scales(sample: Any) -> Any:
    return sample.model.weights, sample.scales


def _parameters(networks: SampledNetworks) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    return jax.tree.map(np.asarray, _by_sample(networks, _weights_and_scales))


def _rest(sample: Any) -> Any:
    sites = sample.model.sites
    learned = eqx.filter(sample.model, sample.model.learnable())
    network = eqx.tree_at(
        lambda net: [site.weight(net) for site in sites], learned.network, replace_fn=lambda _: None
    )
    return network, learned.likelihood


def _others(networks: SampledNetworks) -> dict[str, np.ndarray]:
    network, likelihood = _by_sample(networks, _rest)
    named = {}
    for prefix, tree in (("", network), ("likelihood", likelihood)):
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
            named[f"{prefix}{jax.tree_util.keystr(path)}".lstrip(".")] = np.asarray(leaf)
    return named


def _arviz() -> Any:
    try:
        # The import announces changes of interface to come, which are none of the user's concern.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import arviz
    except ImportError:
        raise ImportError('Diagnostics need arviz: pip install "scalemix[mcmc]"') from None
    return arviz


def _convergence(values: np.ndarray) -> Convergence:
    """Of values `(chains, samples, ...)`."""
    if values.shape[1] < FEWEST_SAMPLES:
        raise ValueError(f"{values.shape[1]} samples a chain are too few to be diagnosed.")
    az, data = _arviz(), _dataset(values)

    def found(statistic: "Dataset") -> np.ndarray:
        return statistic["value"].to_numpy().reshape(values.shape[2:])

    # Quantities that never change divide by their variance, zero.
    with np.errstate(all="ignore"):
        return Convergence(
            _rhat(values),
            found(az.ess(data, method="bulk")),
            found(az.ess(data, method="tail")),
        )


def _rhat(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        found = _arviz().rhat(_dataset(values), method="rank")
    return found["value"].to_numpy().reshape(values.shape[2:])


def _worst(rhat: np.ndarray) -> float:
    return float(np.nanmax(rhat)) if np.isfinite(rhat).any() else 1.0


def _dataset(values: np.ndarray) -> "Dataset":
    import xarray

    flat = values.reshape(*values.shape[:2], -1).astype(float)
    return xarray.Dataset({"value": (("chain", "draw", "quantity"), flat)})
