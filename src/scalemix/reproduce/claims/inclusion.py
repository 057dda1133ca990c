"""Dropout's prior under chains: the probability that an input belongs to the model."""

import itertools
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scalemix.fitting.front_door import fit
from scalemix.inference import MCMC
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import Bernoulli
from scalemix.model.model import Model
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict
from scalemix.reproduce.figures.drawing import COLOURS, canvas
from scalemix.structures import ARD

KEEP, SLAB = 0.4, 1.2
WEIGHTS = np.array([1.5, 0.9, 0.5, 0.3, 0.0, 0.0])
NUM_ROWS = 20


def exact_inclusion(x: np.ndarray, y: np.ndarray, floor: float) -> np.ndarray:
    """By enumeration; weights and bias are integrated exactly, the noise level on a grid."""
    raw = np.linspace(-5.0, 5.0, 201)
    scale = floor + np.log1p(np.exp(raw))
    design = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    subsets = np.array(list(itertools.product([0.0, 1.0], repeat=x.shape[1])))
    logs = []
    for subset in subsets:
        half = design * np.append(subset * SLAB, 1.0)
        values, vectors = np.linalg.eigh(half @ half.T)
        total = values + scale[:, None] ** 2
        fits = -0.5 * np.sum(np.log(total) + (vectors.T @ y) ** 2 / total, axis=1)
        on = subset.sum()
        prior = on * np.log(KEEP) + (len(subset) - on) * np.log(1 - KEEP)
        logs.append(np.logaddexp.reduce(fits - 0.5 * raw**2) + prior)
    mass = np.exp(np.array(logs) - max(logs))
    return mass @ subsets / mass.sum()


def measure(effort: float) -> Numbers:
    """Probabilities by chains and by enumeration."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(NUM_ROWS, len(WEIGHTS))).astype(np.float32)
    y = (x @ WEIGHTS + 0.7 * rng.normal(size=NUM_ROWS)).astype(np.float32)
    likelihood = Gaussian()
    network = eqx.nn.Linear(len(WEIGHTS), "scalar", key=jax.random.key(0))
    method = MCMC(
        num_warmup=max(5, round(300 * effort)), num_samples=max(10, round(1000 * effort)),
        likelihood_scale=1.0, max_depth=5, warm_start=False,
    )  # fmt: skip
    posterior = fit(
        Model(network, ARD(Bernoulli(KEEP), scale=SLAB), likelihood), x, y, method,
        key=jax.random.key(1), standardize=False, progress=False,
    )  # fmt: skip
    chains = posterior.inclusion_probabilities()["network"]["unit"]
    exact = exact_inclusion(x.astype(float), y.astype(float), float(likelihood.floor))
    return {"chains": np.asarray(chains, float).tolist(), "exact": exact.tolist()}


def judge(numbers: Numbers) -> list[Verdict]:
    """Chains against enumeration."""
    off = np.abs(np.subtract(numbers["chains"], numbers["exact"])).max()
    return [
        Verdict(
            bool(off < 0.06),
            f"Chains under dropout's prior give the probability that an input is included. It "
            f"differs from exact enumeration by {off:.3f} at most over {len(WEIGHTS)} inputs.",
        )
    ]


def draw(numbers: Numbers) -> Any:
    """Both probabilities, input by input."""
    figure, ((axis,),) = canvas(1, 1, 6, 3.2)
    place = np.arange(len(WEIGHTS))
    axis.bar(place - 0.2, numbers["exact"], 0.4, color=COLOURS[6], label="enumeration")
    axis.bar(place + 0.2, numbers["chains"], 0.4, color=COLOURS[0], label="chains")
    axis.set_xticks(place, [f"{w:g}" for w in WEIGHTS])
    axis.set_xlabel("true weight of an input")
    axis.set_ylabel(r"$p(\xi = 1 \mid y, X)$")
    axis.legend(frameon=False, fontsize="small")
    return figure


INCLUSION = Claim(
    name="inclusion",
    title="Dropout under MCMC",
    source="Sections 3.4 and 6",
    statement=(
        "Dropout's prior is spike and slab, as in Bayesian variable selection. As the model is "
        "separate from the inference, chains can be run under it as usual."
    ),
    method=(
        "A linear model under Bernoulli scales: inclusion probabilities by the chains of this "
        "package, and by exact enumeration of all subsets of inputs."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
)
