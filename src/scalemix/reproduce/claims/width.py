"""Dropping half of a network, and what more units do about it."""

from typing import NamedTuple

import jax
import numpy as np

from scalemix import data
from scalemix.fitting.front_door import fit
from scalemix.inference import NoiseTraining
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import Bernoulli
from scalemix.model.model import Model
from scalemix.networks import MLP
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict
from scalemix.structures import ARD

NARROW, WIDE = 50, 1000


class Case(NamedTuple):
    """A way to train on energy."""

    rate: float
    width: int
    inputs: bool = True
    """Whether inputs are dropped too, as in the released code."""
    length: int = 1
    """How many times as many steps."""


CASES: dict[str, Case] = {
    "rate .005": Case(0.005, NARROW),
    "rate .5": Case(0.5, NARROW),
    "rate .5, longer": Case(0.5, NARROW, length=2),
    "rate .5, wide": Case(0.5, WIDE),
    "rate .5 on hidden units": Case(0.5, NARROW, inputs=False),
    "rate .5 on hidden units, wide": Case(0.5, WIDE, inputs=False),
}


def measure(effort: float) -> Numbers:
    """The error on the training rows of energy, in standard deviations of the target."""
    energy = data.load("energy")
    train, _ = data.splits(len(energy.y))[0]
    x, y = energy.x[train], energy.y[train]
    steps = max(20, round(1500 * effort))
    errors = {}
    for name, case in CASES.items():
        width = case.width if effort >= 1 else NARROW
        network = MLP(x.shape[1], "scalar", width, 1, key=jax.random.key(0))
        noise = ARD(Bernoulli(1 - case.rate))
        prior = noise if case.inputs else {"layers.1": noise}
        method = NoiseTraining(
            "importance_weighted", steps=case.length * steps, noise_sharing="example"
        )
        posterior = fit(
            Model(network, prior, Gaussian()), x, y, method, key=jax.random.key(1), progress=False
        )
        errors[name] = float(np.sqrt(np.mean((posterior.predict(x).mean - y) ** 2)) / y.std())
    return {"errors": errors}


def judge(numbers: Numbers) -> list[Verdict]:
    """Whether training at half the units comes to an end, and what width changes."""
    base, narrow, longer, wide, hidden, hidden_wide = (numbers["errors"][name] for name in CASES)
    return [
        Verdict(
            narrow > 2 * base,
            f"Training with {NARROW} units suffers at a rate of .5: the error on training rows is "
            f"{narrow:.2f} standard deviations of the target, against {base:.2f} at .005.",
        ),
        Verdict(
            longer < 0.8 * narrow,
            f"It does not converge within these steps. After twice as many the error is "
            f"{longer:.2f}, where it was {narrow:.2f}.",
        ),
        Verdict(
            wide < 0.8 * narrow,
            f"Many more units help: with {WIDE:,} the error is {wide:.2f}. Here the inputs are "
            f"dropped too.",
        ),
        Verdict(
            hidden_wide < 0.8 * hidden,
            f"Many more units help if only hidden units are dropped: the error is {hidden:.2f} "
            f"with {NARROW} and {hidden_wide:.2f} with {WIDE:,}.",
        ),
    ]


WIDTH = Claim(
    name="width",
    title="Dropping half needs a wider network",
    source="Section 5.2, on Figure 1a",
    statement=(
        "On energy at a drop rate of .5 training does not converge, unless the number of hidden "
        "units is increased a great deal."
    ),
    method=(
        "Importance weighted training for 1,500 steps, ten draws for each example, with noise on "
        "the inputs as the released code has it, and on hidden units only."
    ),
    measure=measure,
    judge=judge,
)
