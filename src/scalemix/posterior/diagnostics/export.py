"""Samples for ArviZ."""

from typing import Any

from scalemix.posterior.diagnostics import samples
from scalemix.posterior.diagnostics.convergence import load_arviz
from scalemix.posterior.posterior import Posterior

# What each recorded statistic is called in ArviZ. Files of early versions have no log density, and
# what they have instead is divided by the number of rows.
ARVIZ_NAMES = {
    "log_density": "lp",
    "diverged": "diverging",
    "energy": "energy",
    "acceptance": "acceptance_rate",
    "num_gradients": "n_steps",
}


def to_arviz(posterior: Posterior) -> Any:
    """The samples as the installed ArviZ holds them; see `Posterior.to_arviz`."""
    az = load_arviz()
    networks, recorded = posterior.networks.chains(), posterior.history.recorded
    weights, scales = samples.parameters(networks)
    values = dict(weights)
    values |= {f"{n}.{g}": value for n, groups in scales.items() for g, value in groups.items()}
    values |= samples.others(networks)
    thin = recorded["energy"].shape[1] // networks.positions.shape[1]
    statistics = {
        ARVIZ_NAMES[name]: series[:, thin - 1 :: thin]
        for name, series in recorded.items()
        if name in ARVIZ_NAMES
    }
    if hasattr(az, "InferenceData"):
        return az.from_dict(posterior=values, sample_stats=statistics)
    return az.from_dict({"posterior": values, "sample_stats": statistics})
