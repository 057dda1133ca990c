"""How the chains of a fit fared."""

import dataclasses
from typing import Any

import jax
import numpy as np

from scalemix.data.checks import check_inputs, inputs_as_seen
from scalemix.posterior.diagnostics import samples
from scalemix.posterior.diagnostics.convergence import Convergence, find_convergence
from scalemix.posterior.posterior import Posterior


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """How the chains of a fit fared. `Posterior.diagnostics` makes it; `print` shows a report.

    Attributes
    ----------
    function : Convergence
        Of the network's outputs at some inputs, `(inputs, outputs)`. This is what counts.
    weights : dict of str to Convergence
        Of each weight, by site. A network does not identify its weights: chains that agree about
        the function may disagree about them.
    scales : dict of str to dict of str to Convergence
        Of each scale, by site and group.
    divergences : numpy.ndarray
        For each chain, how many steps diverged.
    ebfmi : numpy.ndarray
        For each chain, the energy's Bayesian fraction of missing information. Below 0.3 is poor;
        it is NaN for MCLMC, which has no energy.
    acceptance : numpy.ndarray
        For each chain, the mean acceptance probability.

    Examples
    --------
    >>> from scalemix.posterior.diagnostics import Convergence, Diagnostics
    >>> function = Convergence(np.array([1.01]), np.array([900.0]), np.array([800.0]))
    >>> none, two = np.array([0, 0]), np.array([0.8, 0.9])
    >>> print(Diagnostics(function, {}, {}, none, two, two))
    function: R-hat at most 1.010, ESS at least 900 bulk, 800 tail
    divergences: 0, 0
    E-BFMI: 0.80, 0.90
    acceptance: 0.80, 0.90
    """

    function: Convergence
    weights: dict[str, Convergence]
    scales: dict[str, dict[str, Convergence]]
    divergences: np.ndarray
    ebfmi: np.ndarray
    acceptance: np.ndarray

    def __str__(self) -> str:
        lines = [f"function: {self.function}"]
        lines += [f"weights of {site}: {those}" for site, those in self.weights.items()]
        lines += [
            f"{group} scales of {site}: {those}"
            for site, groups in self.scales.items()
            for group, those in groups.items()
        ]
        lines.append(f"divergences: {', '.join(map(str, self.divergences))}")
        lines.append(f"E-BFMI: {', '.join(f'{value:.2f}' for value in self.ebfmi)}")
        lines.append(f"acceptance: {', '.join(f'{value:.2f}' for value in self.acceptance)}")
        return "\n".join(lines)


def diagnose(posterior: Posterior, x: Any = None) -> Diagnostics:
    """The diagnostics of a posterior that MCMC sampled; see `Posterior.diagnostics`."""
    networks, recorded = posterior.networks.chains(), posterior.history.recorded
    inputs = networks.probes if x is None else _as_seen(posterior, x)
    weights, scales = samples.parameters(networks)
    energy = recorded["energy"].astype(float)
    changes = np.square(np.diff(energy, axis=1)).sum(axis=1)
    spread = np.square(energy - energy.mean(axis=1, keepdims=True)).sum(axis=1)
    return Diagnostics(
        function=find_convergence(samples.outputs(networks, inputs)),
        weights={site: find_convergence(values) for site, values in weights.items()},
        scales={
            site: {group: find_convergence(values) for group, values in groups.items()}
            for site, groups in scales.items()
        },
        divergences=recorded["diverged"].sum(axis=1),
        ebfmi=changes / spread,
        acceptance=recorded["acceptance"].mean(axis=1),
    )


def _as_seen(posterior: Posterior, x: Any) -> Any:
    model = posterior.model
    return jax.device_put(inputs_as_seen(check_inputs(x, model), model, posterior.scaling))
