"""Scales of layers, and how many layers stay."""

from typing import Any

import jax
import numpy as np

from scalemix.fitting.front_door import fit_many
from scalemix.inference import VariationalEM
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import HalfCauchy, InverseGamma, ScaleMixture
from scalemix.model.model import Model
from scalemix.networks import ResNet
from scalemix.posterior.posterior import Posterior
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict, mean_and_error
from scalemix.reproduce.figures.drawing import COLOURS, canvas
from scalemix.structures import ADD, ARD

# From no density near zero to much of it.
FAMILIES: dict[str, ScaleMixture] = {
    "inverse gamma (3, 3)": InverseGamma(3.0, 3.0),
    "half-Cauchy (1)": HalfCauchy(1.0),
}
NUM_ROWS, NUM_BLOCKS, NUM_SETS = 150, 4, 5
THRESHOLD = 0.01


def measure(effort: float) -> Numbers:
    """The signal of each residual layer, and the error on training rows, by family."""
    rng = np.random.default_rng(0)
    num_sets = max(1, round(NUM_SETS * effort))
    xs = [rng.normal(size=(NUM_ROWS, 2)) for _ in range(num_sets)]
    ys = [np.sin(2 * x[:, 0]) + x[:, 1] + 0.2 * rng.normal(size=NUM_ROWS) for x in xs]
    keys = jax.random.split(jax.random.key(0), num_sets)
    networks = [ResNet(2, "scalar", 10, NUM_BLOCKS + 1, key=key) for key in keys]
    method = VariationalEM(steps=max(20, round(2000 * effort)))
    ends = ARD(HalfCauchy(1.0))
    numbers: Numbers = {"signals": {}, "errors": {}}
    for name, mixture in FAMILIES.items():
        prior = {"first": ends, "last": ends, "blocks.*": ADD(mixture)}
        posteriors = fit_many(
            [Model(network, prior, Gaussian()) for network in networks], xs, ys, method,
            keys=keys, progress=False,
        )  # fmt: skip
        numbers["signals"][name] = [_signals(posterior) for posterior in posteriors]
        numbers["errors"][name] = [
            float(np.sqrt(np.mean((p.predict(x).mean - y) ** 2)))
            for p, x, y in zip(posteriors, xs, ys, strict=True)
        ]
    return numbers


def _signals(posterior: Posterior) -> list[float]:
    """Signal to noise of each residual layer: the sum of mu^2 over that of sigma^2."""
    networks: Any = posterior.networks
    signals = []
    for i in range(NUM_BLOCKS):
        mean, deviation = (
            np.asarray(of[f"blocks.{i}"], float)
            for of in (posterior.model.weights, networks.deviations)
        )
        signals.append(float(np.sum(mean**2) / np.sum(deviation**2)))
    return signals


def judge(numbers: Numbers) -> list[Verdict]:
    """How many layers are on, by family."""
    on = {n: np.sum(np.array(s) > THRESHOLD, axis=-1) for n, s in numbers["signals"].items()}
    listed = ", ".join(f"{of.mean():.1f} under {name}" for name, of in on.items())
    errors = ", ".join(f"{np.mean(numbers['errors'][name]):.2f}" for name in on)
    gone, error = mean_and_error(np.subtract(*on.values()))
    return [
        Verdict(
            min(of.mean() for of in on.values()) < NUM_BLOCKS,
            f"Whole layers are switched off: of {NUM_BLOCKS} residual layers, {listed} stay on.",
        ),
        Verdict(
            gone > 2 * error,
            f"The prior with more density near zero removes more of them: {gone:.1f} more "
            f"(standard error {error:.1f}). The errors on the training rows are {errors}.",
        ),
    ]


def draw(numbers: Numbers) -> Any:
    """Signal to noise of the layers, by family."""
    figure, ((axis,),) = canvas(1, 1, 6, 3.4)
    for place, signals in enumerate(numbers["signals"].values()):
        values = np.maximum(np.array(signals), 1e-6)
        shift = 0.02 * np.arange(len(values))[:, None] + np.zeros_like(values)
        axis.semilogy(
            (place + shift).ravel(), values.ravel(), "o", color=COLOURS[0], markersize=4, alpha=0.6
        )
    axis.axhline(THRESHOLD, color=COLOURS[6], linestyle=":", label="off below")
    axis.set_xlim(-0.5, len(FAMILIES) - 0.5)
    axis.set_xticks(range(len(FAMILIES)), list(FAMILIES))
    axis.set_xlabel("prior of the scale of a layer")
    axis.set_ylabel("signal to noise of a layer")
    axis.legend(frameon=False, fontsize="small")
    return figure


DEPTH = Claim(
    name="depth",
    title="Automatic depth determination",
    source="Section 4",
    statement=(
        "With one scale for each residual layer whole matrices can be shrunk to zero, and the "
        "more density the prior has near zero, the more layers inference prefers to remove."
    ),
    method=(
        f"A residual network of {NUM_BLOCKS} residual layers of 10 units on {NUM_ROWS} rows of a "
        f"smooth function of two inputs; variational EM; {NUM_SETS} data sets. A layer is on if "
        "its ratio of signal to noise is above .01."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
)
