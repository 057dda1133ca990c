"""Scales of inputs against scales of single weights, at finding the inputs that matter."""

from typing import Any

import jax
import numpy as np

from scalemix.fitting.front_door import fit_many
from scalemix.inference import VariationalEM
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import HalfCauchy
from scalemix.model.model import Model
from scalemix.networks import MLP
from scalemix.posterior.posterior import Posterior
from scalemix.reproduce.claims.claim import Claim, Numbers, Verdict, mean_and_error
from scalemix.reproduce.figures.drawing import COLOURS, canvas
from scalemix.structures import ARD, DropConnect

NUM_INPUTS, NUM_USED, NUM_SETS = 10, 3, 8
NUM_ROWS = (60, 150)


def measure(effort: float) -> Numbers:
    """The share of each input in the first layer, for each structure and data set."""
    rng = np.random.default_rng(0)
    num_sets = max(2, round(NUM_SETS * effort))
    rows = [n for n in NUM_ROWS for _ in range(num_sets)]
    xs = [rng.normal(size=(n, NUM_INPUTS)) for n in rows]
    ys = [np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.3 * rng.normal(size=len(x)) for x in xs]
    keys = jax.random.split(jax.random.key(0), len(xs))
    networks = [MLP(NUM_INPUTS, "scalar", 20, 1, key=key) for key in keys]
    method = VariationalEM(steps=max(20, round(3000 * effort)))
    shares = {}
    for structure in (ARD, DropConnect):
        models = [Model(n, structure(HalfCauchy(1.0)), Gaussian()) for n in networks]
        posteriors = fit_many(models, xs, ys, method, keys=keys, progress=False)
        shares[structure.__name__] = [_shares(posterior).tolist() for posterior in posteriors]
    return {"rows": rows, "shares": shares}


def _shares(posterior: Posterior) -> np.ndarray:
    """The part of the squared mean weights of the first layer that each input has."""
    squares = np.square(np.asarray(posterior.model.weights["layers.0"], float)).sum(axis=0)
    return squares / squares.sum()


def judge(numbers: Numbers) -> list[Verdict]:
    """How much is left to inputs that do nothing, and whether they can be told apart."""
    rows = np.array(numbers["rows"])
    left, separated = {}, {}
    for name, shares in numbers["shares"].items():
        array = np.array(shares)
        left[name] = array[:, NUM_USED:].sum(axis=1)
        separated[name] = array[:, :NUM_USED].min(axis=1) > array[:, NUM_USED:].max(axis=1)
    verdicts = []
    for num in NUM_ROWS:
        at = rows == num
        ratio, error = mean_and_error(np.log(left["DropConnect"][at] / left["ARD"][at]))
        medians = [100 * np.median(left[name][at]) for name in ("ARD", "DropConnect")]
        verdicts.append(
            Verdict(
                bool(ratio > 2 * error),
                f"With {num} rows, shared scales leave less to the inputs that do nothing: "
                f"{medians[0]:.2g} % of the squared weights, against {medians[1]:.2g} % (medians). "
                f"Over data sets, the log of the ratio of the two is {ratio:.2f} on average, with "
                f"a standard error of {error:.2f}.",
            )
        )
    counts = [separated[name].sum() for name in ("ARD", "DropConnect")]
    verdicts.append(
        Verdict(
            bool(counts[0] >= counts[1]),
            f"They lose no input that matters by it: all {NUM_USED} such inputs come before all "
            f"others in {counts[0]} of {len(rows)} data sets, against {counts[1]}.",
        )
    )
    return verdicts


def draw(numbers: Numbers) -> Any:
    """Shares of all inputs."""
    figure, ((axis,),) = canvas(1, 1, 6.4, 3.6)
    for i, (name, shares) in enumerate(numbers["shares"].items()):
        array = np.maximum(np.array(shares), 1e-8)
        place = np.tile(np.arange(1, NUM_INPUTS + 1) + 0.3 * i - 0.15, (len(array), 1))
        axis.semilogy(
            place.ravel(), array.ravel(), "o", markersize=3, color=COLOURS[3 * i], label=name
        )
    axis.axvline(NUM_USED + 0.5, color=COLOURS[6], linestyle=":")
    axis.set_xticks(range(1, NUM_INPUTS + 1))
    axis.set_xlabel(f"input (the first {NUM_USED} matter)")
    axis.set_ylabel("share of squared weights")
    axis.legend(frameon=False, fontsize="small")
    return figure


SELECTION = Claim(
    name="selection",
    title="DropConnect lacks the structure of ARD",
    source="Section 3.5",
    statement=(
        "DropConnect is the same prior without shared scales. That this structure is missing may "
        "explain why it is less used."
    ),
    method=(
        f"{NUM_SETS} data sets of {NUM_ROWS[0]} rows and as many of {NUM_ROWS[1]}, with "
        f"{NUM_INPUTS} inputs, of which {NUM_USED} matter; a network of 20 hidden units under "
        "half-Cauchy scales by variational EM, with one scale for each unit (ARD) "
        "or for each weight (DropConnect)."
    ),
    measure=measure,
    judge=judge,
    draw=draw,
)
