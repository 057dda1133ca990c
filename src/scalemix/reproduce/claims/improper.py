"""Which priors leave a posterior that can be normalised, and which are heavy and peaked."""

import jax
import numpy as np

from scalemix.mixtures import HalfCauchy, InverseGamma, LogUniform, Rayleigh, ScaleMixture
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict

ENDS = (1e-2, 1e-4, 1e-8, 1e-16)
# The likelihood of a weight: an estimate with its error.
ESTIMATE, ERROR = 0.5, 0.5
FAMILIES: dict[str, ScaleMixture] = {
    "log-uniform": LogUniform(),
    "half-Cauchy": HalfCauchy(1.0),
    "inverse gamma": InverseGamma(3.0, 3.0),
    "Rayleigh": Rayleigh(1.0),
}


def measure(effort: float) -> Numbers:
    """The mass of the posterior above ever smaller weights, and slopes at both ends."""
    numbers: Numbers = {}
    with jax.enable_x64(True):
        for name, family in FAMILIES.items():

            def log_density(w: np.ndarray, family: ScaleMixture = family) -> np.ndarray:
                return np.asarray(family.marginal_log_prob(w))

            masses = []
            for end in ENDS:
                t = np.linspace(np.log(end), np.log(10.0), 20_001)
                w = np.exp(t)
                logs = log_density(w) - 0.5 * ((w - ESTIMATE) / ERROR) ** 2 + t
                masses.append(float(np.trapezoid(np.exp(logs), t)))
            at = np.array([1e-12, 1e-9, 1e3, 1e4])
            low0, low1, high0, high1 = log_density(at)
            numbers[name] = {
                "mass": masses,
                "rise_to_zero": float(low0 - low1),
                "fall": float((high1 - high0) / np.log(10.0)),
            }
    return numbers


def judge(numbers: Numbers) -> list[Verdict]:
    """Proper posteriors, heavy tails, and poles."""

    def grows(name: str) -> bool:
        masses = numbers[name]["mass"]
        return masses[-1] - masses[-2] > 0.1 * masses[-2]

    uniform = numbers["log-uniform"]
    student, horseshoe = numbers["inverse gamma"], numbers["half-Cauchy"]
    return [
        Verdict(
            grows("log-uniform") and not any(grows(n) for n in FAMILIES if n != "log-uniform"),
            f"Under the log-uniform prior the posterior has no finite mass: that above 1e-4, 1e-8 "
            f"and 1e-16 is {', '.join(f'{m:.1f}' for m in uniform['mass'][1:])}. Under horseshoe, "
            f"Student-t and Laplace priors it is finite.",
        ),
        Verdict(
            student["fall"] > -10 and horseshoe["fall"] > -10,
            f"Student-t and horseshoe have heavy tails: they fall as powers, "
            f"{student['fall']:.1f} and {horseshoe['fall']:.1f}, where the log-uniform falls as "
            f"{uniform['fall']:.1f}.",
        ),
        Verdict(
            horseshoe["rise_to_zero"] > 0.1 and student["rise_to_zero"] > 0.1,
            f"Both shrink strongly near the origin, as the log-uniform does. The horseshoe has a "
            f"pole there: its log density rises by {horseshoe['rise_to_zero']:.2f} from 1e-9 to "
            f"1e-12. The Student-t is flat: {student['rise_to_zero']:.2f}.",
        ),
    ]


IMPROPER = Claim(
    name="improper",
    title="Proper posteriors, heavy tails",
    source="Section 6, on the log-uniform prior of variational dropout",
    statement=(
        "The log-uniform prior of variational dropout leads to an improper posterior; scale "
        "mixtures are not open to this criticism. Many of them, such as Student-t and horseshoe, "
        "share its heavy tails and its strong shrinkage near the origin."
    ),
    method=(
        "The mass of prior times likelihood over weights above a small number, by quadrature, "
        "as that number goes to zero; slopes of log densities near zero and far out. The "
        "package offers the log-uniform for variational EM only, where it is a point estimate."
    ),
    measure=measure,
    judge=judge,
)
