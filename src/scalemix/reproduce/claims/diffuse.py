"""A diffuse Gaussian under the noise, with the noise as it is and with the noise rescaled."""

import itertools
from typing import Any

import numpy as np

from scalemix.mixtures import Bernoulli, HalfCauchy, InverseGamma, Rayleigh
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict
from scalemix.reproduce.figures.drawing import COLOURS, canvas

SCALES = (1.0, 10.0, 100.0, 1e3, 1e4)
KEEP, NOISE = 0.5, 0.5
WEIGHTS = np.array([1.0, 0.5, 0.2, 0.0, 0.0])
NUM_ROWS = 30


def data() -> tuple[np.ndarray, np.ndarray]:
    """A linear problem with two inputs that do nothing."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(NUM_ROWS, len(WEIGHTS)))
    return x, x @ WEIGHTS + NOISE * rng.normal(size=NUM_ROWS)


def inclusion(x: np.ndarray, y: np.ndarray, slab: float) -> np.ndarray:
    """`p(xi_r = 1 | y, X)` by enumeration of all subsets; the noise of the target is known."""
    subsets = np.array(list(itertools.product([0.0, 1.0], repeat=x.shape[1])))
    logs = []
    for subset in subsets:
        covariance = NOISE**2 * np.eye(len(y)) + slab**2 * (x * subset) @ x.T
        _, log_determinant = np.linalg.slogdet(covariance)
        on = subset.sum()
        prior = on * np.log(KEEP) + (len(subset) - on) * np.log(1 - KEEP)
        logs.append(prior - 0.5 * (log_determinant + y @ np.linalg.solve(covariance, y)))
    mass = np.exp(np.array(logs) - max(logs))
    return mass @ subsets / mass.sum()


def kept(value: float) -> float:
    """By what Bernoulli noise of this size multiplies an input that it keeps."""
    return float(np.sqrt(np.asarray(Bernoulli(KEEP, value).second_moment) / KEEP))


def dropout_estimate(x: np.ndarray, y: np.ndarray, scale: float) -> np.ndarray:
    """Where dropout's objective with its weight decay is largest, times the mean noise."""
    gram = x.T @ x
    noisy = KEEP**2 * gram + KEEP * (1 - KEEP) * np.diag(np.diag(gram))
    decay = (NOISE / scale) ** 2 * np.eye(x.shape[1])
    return KEEP * np.linalg.solve(noisy + decay, KEEP * x.T @ y)


def measure(effort: float) -> Numbers:
    """Estimates and inclusion probabilities by the scale of the Gaussian."""
    x, y = data()
    w = np.linspace(0.1, 3, 30).astype(np.float32)
    families = {
        "Bernoulli": (Bernoulli(KEEP), lambda s: Bernoulli(KEEP, 1 / s)),
        "Rayleigh": (Rayleigh(0.7), lambda s: Rayleigh(0.7 / s)),
        "inverse gamma": (InverseGamma(3.0, 3.0), lambda s: InverseGamma(3.0, 3.0 / s**2)),
        "half-Cauchy": (HalfCauchy(1.0), lambda s: HalfCauchy(1.0 / s)),
    }
    moved = {
        name: max(
            float(np.max(np.abs(
                np.asarray(at(s).marginal_log_prob(w, s)) - np.asarray(one.marginal_log_prob(w))
            )))
            for s in SCALES
        )
        for name, (one, at) in families.items()
    }  # fmt: skip
    return {
        "estimates": [dropout_estimate(x, y, s).tolist() for s in SCALES],
        "without_decay": dropout_estimate(x, y, np.inf).tolist(),
        "inclusion": [inclusion(x, y, s).tolist() for s in SCALES],
        "inclusion_rescaled": [inclusion(x, y, s * kept(1 / s)).tolist() for s in SCALES],
        "moved": moved,
    }


def judge(numbers: Numbers) -> list[Verdict]:
    """The decay vanishes; the prior does not, unless the noise follows."""
    last = np.abs(np.subtract(numbers["estimates"][-1], numbers["without_decay"])).max()
    first = np.abs(np.subtract(numbers["estimates"][0], numbers["without_decay"])).max()
    by_scale, rescaled = (np.array(numbers[n]) for n in ("inclusion", "inclusion_rescaled"))
    most = int(np.argmax(np.ptp(by_scale, axis=0)))
    moved = by_scale[:, most]
    return [
        Verdict(
            last < 1e-6 and last < first,
            f"The weight decay of dropout's objective vanishes as sigma0 grows: its best weights "
            f"are off those without decay by {first:.1e} at sigma0 = 1 and by {last:.1e} at 1e4.",
        ),
        Verdict(
            bool(np.ptp(moved) < 0.05),
            f"So the Gaussian becomes negligible. It does in the objective, but not in the "
            f"posterior that the objective stands for: with noise of zero or one, the probability "
            f"that an input of weight {WEIGHTS[most]} is included falls from {moved[0]:.2f} at "
            f"sigma0 = 1 to {moved[-1]:.2f} at 1e4, since a diffuse slab makes every included "
            f"input improbable.",
        ),
        Verdict(
            bool(np.ptp(rescaled, axis=0).max() < 1e-5) and max(numbers["moved"].values()) < 1e-3,
            "If the noise is divided by sigma0, the prior and with it the shrinkage stay exactly "
            "as they are, for Bernoulli, Rayleigh, inverse gamma and half-Cauchy noise: log "
            f"densities move by {max(numbers['moved'].values()):.0e} at most, in single "
            "precision.",
        ),
    ]


def draw(numbers: Numbers) -> Any:
    """Inclusion probabilities against the scale of the Gaussian."""
    figure, ((axis,),) = canvas(1, 1, 6, 3.6)
    for i, colour in zip(range(len(WEIGHTS)), COLOURS, strict=False):
        fixed, rescaled = (
            [row[i] for row in numbers[name]] for name in ("inclusion", "inclusion_rescaled")
        )
        axis.plot(SCALES, fixed, color=colour, marker="o", label=f"weight {WEIGHTS[i]:g}")
        axis.plot(SCALES, rescaled, color=colour, linestyle=":")
    axis.set_xscale("log")
    axis.set_xlabel(r"$\sigma_0$ (dotted: noise divided by $\sigma_0$)")
    axis.set_ylabel(r"$p(\xi = 1 \mid y, X)$")
    axis.legend(frameon=False, fontsize="small")
    return figure


DIFFUSE = Claim(
    name="diffuse",
    title="Rescaling the noise as sigma0 grows",
    source="Sections 3.2 and 3.3",
    statement=(
        "The Gaussian under the noise can be made diffuse, so that its penalty is negligible. "
        "The noise must then be adapted to keep the level of shrinkage, which is no difficulty."
    ),
    method=(
        f"A linear model with {len(WEIGHTS)} inputs and {NUM_ROWS} rows under Bernoulli noise: "
        "the best weights of dropout's objective in closed form, and the probabilities of "
        "inclusion by enumeration."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
)
