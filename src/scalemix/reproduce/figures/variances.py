"""Figure 1b: the variance that EM settles on."""

from pathlib import Path
from typing import Any

import numpy as np

from scalemix.mixtures import (
    Exponential,
    Gamma,
    HalfCauchy,
    InverseGamma,
    LogUniform,
    ScaleMixture,
)
from scalemix.reproduce.figures.drawing import COLOURS, canvas, save
from scalemix.reproduce.plans import Plan

# Several settings of each family.
PANELS: dict[str, tuple[ScaleMixture, ...]] = {
    "inverse gamma": tuple(InverseGamma(a, a) for a in (3.0, 1.0, 0.1, 0.01)),
    "half-Cauchy": tuple(HalfCauchy(s) for s in (3.0, 1.0, 0.3)),
    "exponential": tuple(Exponential(r) for r in (0.3, 1.0, 3.0)),
    "gamma": tuple(Gamma(a, 1.0) for a in (0.5, 1.5, 2.0, 3.0)),
}
LARGEST = 5.0


def draw_variances(folder: Path, plan: Plan, progress: bool | None) -> dict[str, Any]:
    """The update against the second moment of one weight; dotted the log-uniform, everywhere."""
    moment = np.linspace(0, LARGEST, 201).astype(np.float32)
    limit = np.asarray(LogUniform().optimal_variance(moment, 1))
    figure, (axes,) = canvas(1, len(PANELS), 13, 3.4)
    at_zero, from_limit = {}, []
    for axis, (title, mixtures) in zip(axes, PANELS.items(), strict=True):
        for mixture, colour in zip(mixtures, COLOURS, strict=False):
            update = np.asarray(mixture.optimal_variance(moment, 1))
            axis.plot(moment, update, label=repr(mixture).partition("(")[2][:-1], color=colour)
            at_zero[repr(mixture)] = float(update[0])
            if isinstance(mixture, InverseGamma):
                from_limit.append(float(np.max(np.abs(update - limit))))
        axis.plot(moment, limit, ":", color="black", label="log-uniform")
        axis.set_title(title, loc="left", fontsize="medium")
        axis.set_xlabel(r"$\mu^2 + \sigma^2$ of one weight")
        axis.legend(frameon=False, fontsize="x-small")
        axis.set_ylim(0, 4)
    axes[0].set_ylabel(r"optimal variance $v^*$")
    save(figure, folder, "figure1b")
    return {"at_zero": at_zero, "inverse_gamma_from_log_uniform": from_limit}


def describe_variances(numbers: dict[str, Any]) -> str:
    """What the figure shows of the paper's claims about it."""
    distances = numbers["inverse_gamma_from_log_uniform"]
    closing = "✓" if sorted(distances, reverse=True) == distances else "✗"
    families = {}
    for mixture, value in numbers["at_zero"].items():
        families.setdefault(mixture.partition("(")[0], []).append(value == 0)
    always = [name for name, zero in families.items() if all(zero)]
    at_times = [name for name, zero in families.items() if any(zero) and not all(zero)]
    return (
        f"- {closing} The paper: as both parameters of the inverse gamma go to zero it becomes the "
        f"log-uniform, which is dotted in each panel. Here the largest distance between the two "
        f"goes from {distances[0]:.2f} to {distances[-1]:.3f}.\n"
        f"- {'✗' if {*always, *at_times} - {'HalfCauchy'} else '✓'} The paper: only the "
        f"log-uniform and the half-Cauchy are zero at zero. Here that is so at every setting drawn "
        f"for {', '.join(['LogUniform', *always])}, and at some settings for "
        f"{', '.join(at_times) or 'no other'}. [The page of claims](claims.md#zeros) has more."
    )
