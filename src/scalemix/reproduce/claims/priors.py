"""The table from noise to variance to weight, against distributions that have a name."""

import math

import jax
import numpy as np

from scalemix.mixtures import Bernoulli, Gaussian, HalfCauchy, InverseNakagami, Rayleigh
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict
from scalemix.reproduce.claims.expectations import Noise

V = np.geomspace(0.01, 10, 61)
W = np.linspace(0.1, 4, 40)


def measure(effort: float) -> Numbers:
    """Largest differences of log densities, of variances and of weights."""
    import scipy.special as sp
    import scipy.stats as st

    def farthest(ours, theirs) -> float:
        return float(np.max(np.abs(np.asarray(ours) - theirs)))

    with jax.enable_x64(True):
        centred, usual = Gaussian(0.5, 0.0), Gaussian(0.5, 1.0)
        rayleigh, nakagami, cauchy = Rayleigh(0.7), InverseNakagami(2.0, 0.5), HalfCauchy(1.0)
        k0 = np.log(sp.k0e(W / 0.5)) - W / 0.5 - np.log(math.pi * 0.5)
        slab = np.log(0.8) + st.norm.logpdf(W)
        horseshoe = [
            Noise(cauchy).log_mean_exp(lambda xi, w=w: st.norm.logpdf(w, scale=xi)) for w in W
        ]
        return {
            "spike_and_slab": farthest(Bernoulli(0.8).marginal_log_prob(W), slab),
            "chi2_at_zero": farthest(
                centred.variance_log_prob(V), st.chi2.logpdf(V, 1, scale=0.25)
            ),
            "chi2_at_one": farthest(usual.variance_log_prob(V), st.chi2.logpdf(V, 1, scale=0.25)),
            "ncx2_at_one": farthest(
                usual.variance_log_prob(V), st.ncx2.logpdf(V, 1, 4.0, scale=0.25)
            ),
            "hyperbolic_at_zero": farthest(centred.marginal_log_prob(W), k0),
            "inverse_gaussian_at_zero": _far_from_gig(centred),
            "inverse_gaussian_at_one": _far_from_gig(usual),
            "exponential": farthest(
                rayleigh.variance_log_prob(V), st.expon.logpdf(V, scale=2 * 0.7**2)
            ),
            "laplace": farthest(rayleigh.marginal_log_prob(W), st.laplace.logpdf(W, scale=0.7)),
            "inverse_gamma": farthest(
                nakagami.variance_log_prob(V), st.invgamma.logpdf(V, 2.0, scale=4.0)
            ),
            "student_t": farthest(
                nakagami.marginal_log_prob(W), st.t.logpdf(W, 4, scale=math.sqrt(2))
            ),
            "beta_prime": farthest(cauchy.variance_log_prob(V), st.betaprime.logpdf(V, 0.5, 0.5)),
            "horseshoe": farthest(cauchy.marginal_log_prob(W), np.array(horseshoe)),
        }


def _far_from_gig(mixture: Gaussian) -> float:
    """How far the log density of the variance is from the closest generalized inverse Gaussian one.

    The closest is that in least squares, and the distance is its largest error. Such densities mix
    generalized hyperbolic weights, and their logarithms are combinations of 1, log v, v and 1/v.
    """
    log_density = np.asarray(mixture.variance_log_prob(V))
    basis = np.stack([np.ones_like(V), np.log(V), V, 1 / V], axis=1)
    best = basis @ np.linalg.lstsq(basis, log_density, rcond=None)[0]
    return float(np.max(np.abs(best - log_density)))


def judge(numbers: Numbers) -> list[Verdict]:
    """Row by row."""

    def row(words: str, *names: str) -> Verdict:
        worst = max(numbers[name] for name in names)
        return Verdict(worst < 1e-6, f"{words}: the log densities differ by {worst:.0e} at most.")

    return [
        row("Bernoulli noise: spike and slab", "spike_and_slab"),
        row("Rayleigh noise: exponential variance, Laplace weight", "exponential", "laplace"),
        row(
            "Inverse Nakagami noise: inverse gamma variance, Student-t weight",
            "inverse_gamma",
            "student_t",
        ),
        row(
            "Half-Cauchy noise: horseshoe weight, and a variance that the paper calls unnamed "
            "and that is beta prime (1/2, 1/2)",
            "horseshoe",
            "beta_prime",
        ),
        row(
            "Gaussian noise of mean zero: chi-squared variance, generalized hyperbolic weight",
            "chi2_at_zero",
            "hyperbolic_at_zero",
            "inverse_gaussian_at_zero",
        ),
        Verdict(
            max(numbers["chi2_at_one"], numbers["inverse_gaussian_at_one"]) < 1e-6,
            f"The same for Gaussian noise of mean one, as Gaussian dropout has it. Its variance is "
            f"noncentral chi-squared (difference {numbers['ncx2_at_one']:.0e}) and not "
            f"chi-squared ({numbers['chi2_at_one']:.1f}). Of the mixing distributions of "
            f"generalized hyperbolic weights, the closest in least squares is off by "
            f"{numbers['inverse_gaussian_at_one']:.2f}.",
        ),
    ]


PRIORS = Claim(
    name="priors",
    title="Which noise is which prior",
    source="Section 3.4, the table of noise models",
    statement=(
        "Bernoulli noise is spike and slab; Gaussian noise has a chi-squared variance and "
        "generalized hyperbolic weights; Rayleigh, inverse Nakagami and half-Cauchy noise make "
        "Laplace, Student-t and horseshoe weights."
    ),
    method=(
        "Densities of this package against those of SciPy under these names, and for the "
        "horseshoe against the integral over the noise."
    ),
    measure=measure,
    judge=judge,
)
