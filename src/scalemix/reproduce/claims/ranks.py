"""Tail-adaptive weights where draws tie."""

import jax
import jax.numpy as jnp
import numpy as np

from scalemix.inference.training.weights import tail_adaptive_weights
from scalemix.mixtures import Bernoulli
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict
from scalemix.reproduce.figures.weights import break_ties

RATE, NUM_DRAWS = 0.005, 10
# Eight inputs and fifty hidden units, as on energy.
NUM_UNITS = 58


def measure(effort: float) -> Numbers:
    """How often draws of dropout are alike, and the weights that they get."""
    num = max(200, round(20_000 * effort))
    masks = Bernoulli(1 - RATE).sample((NUM_DRAWS, num, NUM_UNITS), key=jax.random.key(0))
    dropped = np.asarray(masks) == 0
    # Draws with the same mask have the same likelihood, and a draw that drops more has a lower one.
    cost = np.random.default_rng(0).exponential(size=NUM_UNITS)
    weights = np.asarray(tail_adaptive_weights(jnp.asarray(-(dropped @ cost))))
    broken = break_ties(weights[None])[0]
    return {
        "nothing_dropped": float(np.mean(~dropped.any(axis=-1))),
        "expected": (1 - RATE) ** NUM_UNITS,
        "all_alike": float(np.mean(np.ptp(weights, axis=0) < 1e-6)),
        "largest": [float(w.max(axis=0).mean()) for w in (weights, broken)],
        "close_to_uniform": [float(np.mean(np.abs(w - 0.1) < 0.0125)) for w in (weights, broken)],
        "distinct": [
            len(np.unique(np.sort(w, axis=0).round(6), axis=1).T) for w in (weights, broken)
        ],
    }


def judge(numbers: Numbers) -> list[Verdict]:
    """What ties do to weights by rank."""
    near, near_broken = numbers["close_to_uniform"]
    top, top_broken = numbers["largest"]
    return [
        Verdict(
            numbers["distinct"][0] == 1,
            f"The weights depend on the number of draws alone. By the paper's formula draws that "
            f"tie share the larger count, so that there are {numbers['distinct'][0]} different "
            f"sets of weights. At a drop rate of {RATE} a draw drops nothing with probability "
            f"{numbers['expected']:.2f}, and in {100 * numbers['all_alike']:.0f} % of cases all "
            f"ten draws tie.",
        ),
        Verdict(
            near < 0.5,
            f"The weights are diverse at this rate. By the formula {100 * near:.0f} % of them are "
            f"at .1, as in dropout, and the largest of ten is {top:.2f} on average.",
        ),
        Verdict(
            numbers["distinct"][1] == 1 and near_broken < 0.5,
            f"Both hold if ties are broken, as the released code does: {100 * near_broken:.0f} % "
            f"are at .1, and the largest is always {top_broken:.2f}. Which of the draws that tie "
            f"gets it is then arbitrary.",
        ),
    ]


RANKS = Claim(
    name="ranks",
    title="Tail-adaptive weights depend on the number of draws alone",
    source="Section 5.2 and Figure 1a",
    statement=(
        "Tail-adaptive weights are a function of the number of draws, and not of the values of "
        "the likelihoods. So they are diverse even at a drop rate of .005."
    ),
    method=(
        f"Masks of {NUM_UNITS} units, {NUM_DRAWS} draws at a time. Draws with the same mask have "
        "the same likelihood."
    ),
    measure=measure,
    judge=judge,
)
