"""Which hyperpriors let the EM step set a variance to zero."""

from typing import Any

import jax
import numpy as np

from scalemix.mixtures import Exponential, Gamma, HalfCauchy, InverseGamma, LogUniform
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict
from scalemix.reproduce.figures.drawing import COLOURS, canvas

SETTINGS = (0.01, 1.0, 100.0)
COUNTS = (1, 2, 10, 1000)
SHAPES = (0.5, 1.0, 2.0, 5.0)
# Both parameters of the inverse gamma.
LIMITS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)


def measure(effort: float) -> Numbers:
    """Updates at moment zero, and those of an inverse gamma whose parameters go to zero."""
    moments = np.linspace(0, 5, 51)
    with jax.enable_x64(True):

        def largest(build: Any) -> float:
            updates = [build(s).optimal_variance(0.0, k) for s in SETTINGS for k in COUNTS]
            return float(max(updates))

        gamma = {
            f"{shape:g}, {count}": float(Gamma(shape, 1.0).optimal_variance(0.0, count))
            for shape in SHAPES
            for count in COUNTS
        }
        target = np.asarray(LogUniform().optimal_variance(moments, 1))
        limit = [np.asarray(InverseGamma(a, a).optimal_variance(moments, 1)) for a in LIMITS]
        return {
            "log_uniform": largest(lambda _: LogUniform()),
            "half_cauchy": largest(HalfCauchy),
            "exponential": largest(Exponential),
            "gamma": gamma,
            "inverse_gamma": float(
                min(InverseGamma(a, a).optimal_variance(0.0, k) for a in SETTINGS for k in COUNTS)
            ),
            "limit": [float(np.max(np.abs(curve - target))) for curve in limit],
        }


def judge(numbers: Numbers) -> list[Verdict]:
    """Two families reach zero as claimed, and two more."""
    limit = numbers["limit"]
    # K >= 2 shape - 2, by counting.
    expected = {
        name: int(name.split(", ")[1]) >= 2 * float(name.split(", ")[0]) - 2
        for name in numbers["gamma"]
    }
    gamma_as_said = all((v == 0) == expected[name] for name, v in numbers["gamma"].items())
    zero = sum(v == 0 for v in numbers["gamma"].values())
    others = numbers["exponential"] > 0 and zero == 0
    return [
        Verdict(
            numbers["log_uniform"] == 0 and numbers["half_cauchy"] == 0,
            "Log-uniform and half-Cauchy set a variance to zero where the moment is zero, whatever "
            "the prior's scale and however many weights share it.",
        ),
        Verdict(
            others,
            "Only these two do so. "
            + (
                "No other closed form reaches zero."
                if others
                else "The exponential, which the paper does not consider, does so as well, and "
                "the gamma "
                + (
                    "where at least `2 shape - 2` weights share the variance"
                    if gamma_as_said
                    else "at some settings"
                )
                + f" ({zero} of {len(expected)} settings here)."
            ),
        ),
        Verdict(
            numbers["inverse_gamma"] > 0 and limit[-1] < 1e-3 and sorted(limit)[::-1] == limit,
            f"The inverse gamma never does, but tends to the log-uniform as both its parameters go "
            f"to zero: the largest difference between the two updates is {limit[0]:.2g} at "
            f"parameters of {LIMITS[0]:g} and {limit[-1]:.1e} at {LIMITS[-1]:g}.",
        ),
    ]


def draw(numbers: Numbers) -> Any:
    """The updates close to zero."""
    figure, ((axis,),) = canvas(1, 1, 6, 3.8)
    moments = np.geomspace(1e-4, 10, 101)
    families = [
        LogUniform(), HalfCauchy(1.0), Exponential(1.0), Gamma(2.0, 1.0), InverseGamma(3.0, 3.0),
        InverseGamma(0.01, 0.01),
    ]  # fmt: skip
    for family, colour in zip(families, COLOURS, strict=False):
        axis.loglog(moments, family.optimal_variance(moments, 1), label=repr(family), color=colour)
    axis.set_xlabel(r"$\mu^2 + \sigma^2$ of one weight")
    axis.set_ylabel(r"optimal variance $v^*$")
    axis.legend(frameon=False, fontsize="small")
    return figure


ZEROS = Claim(
    name="zeros",
    title="Which hyperpriors switch off under EM",
    source="Section 5.3",
    statement=(
        "Only the log-uniform and the half-Cauchy hyperprior let the EM update be zero where the "
        "weights are, at any setting of the prior's scale. The inverse gamma does so only in the "
        "limit where both its parameters go to zero."
    ),
    method=(
        f"The updates at moment zero, for scales {', '.join(f'{s:g}' for s in SETTINGS)} and "
        f"{', '.join(map(str, COUNTS))} weights that share one. The gamma has a rate of one, "
        f"and shapes {', '.join(f'{s:g}' for s in SHAPES)}."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
)
