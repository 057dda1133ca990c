"""Warnings about chains that a fit has just run."""

import numpy as np

from scalemix._warnings import warn
from scalemix.posterior.diagnostics import samples
from scalemix.posterior.diagnostics.convergence import FEWEST_SAMPLES, find_rhat
from scalemix.posterior.posterior import Posterior

# Vehtari et al. (2021) ask for 1.01 of quantities that are reported. Networks rarely get there, and
# their predictions are of use before they do.
LARGEST_RHAT = 1.05


class ConvergenceWarning(UserWarning):
    """The chains of a fit do not agree, or could not follow the posterior.

    Examples
    --------
    >>> import warnings
    >>> from scalemix.posterior.diagnostics import ConvergenceWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConvergenceWarning)
    ...     # a fit by MCMC here raises where its chains disagree
    """


def warn_if_chains_disagree(posterior: Posterior) -> None:
    """Warn, and say what to do, where chains differ in function space."""
    networks = posterior.networks.chains()
    if networks.positions.shape[1] < FEWEST_SAMPLES:
        return
    rhat = find_rhat(samples.outputs(networks, networks.probes))
    worst = float(np.nanmax(rhat)) if np.isfinite(rhat).any() else 1.0
    if worst > LARGEST_RHAT:
        warn(
            f"The chains disagree: R-hat of the network's outputs at training inputs is up to "
            f"{worst:.2f}, and should be below {LARGEST_RHAT}. Predictions average over all "
            f"chains, as an ensemble's do, but are not yet the posterior's. What helps, as far as "
            f"it is not done already: chains that run longer (a larger num_warmup, num_samples or "
            f"thin), better starts (warm_start=True, which is the default, or a method of "
            f"training), and a posterior that is easier to sample (a smaller network, a prior with "
            f"lighter tails). print(posterior.diagnostics()) says more.",
            ConvergenceWarning,
        )


def warn_if_diverged(posterior: Posterior) -> None:
    """Warn, and say what to do, where trajectories of NUTS left the posterior."""
    # Only chains have steps that can diverge.
    posterior.networks.chains()
    energy, diverged = (posterior.history.recorded[name] for name in ("energy", "diverged"))
    # Without an energy there are no trajectories: MCLMC takes a bad step back and goes on.
    if np.isnan(energy).all() or not diverged.any():
        return
    by_chain = ", ".join(map(str, diverged.sum(axis=1).tolist()))
    warn(
        f"{diverged.sum()} of {diverged.size} transitions after the warm-up diverged (by chain: "
        f"{by_chain}): where the posterior is narrow, steps were too long to follow it, and the "
        f"samples miss a part of it. What helps, as far as it is not done already: shorter steps "
        f"(a target_acceptance of 0.95 or more), parametrization='expanded', or a prior with "
        f"lighter tails.",
        ConvergenceWarning,
    )
