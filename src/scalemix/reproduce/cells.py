"""The cells of a table that train together: one set, all its splits, one or several methods."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scalemix import metrics
from scalemix.data import Dataset
from scalemix.fitting import fit_many
from scalemix.inference import NoiseTraining, VariationalEM
from scalemix.inference.objectives import OF_DRAWS
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import Bernoulli, InverseGamma
from scalemix.model import Model
from scalemix.networks import MLP, ResNet
from scalemix.posterior import Posterior
from scalemix.preparation import prepare
from scalemix.reproduce.plans import Plan
from scalemix.stacking import Candidate, try_out
from scalemix.structures import ADD, ARD, ARDADD

Split = tuple[np.ndarray, np.ndarray]
STRUCTURES = {"ARD": ARD, "ADD": ADD, "ARD-ADD": ARDADD}
# Methods of a table, in groups that are one program: the objectives share all shapes, the
# structures have scales of different ones.
TABLES = {"table1": [OF_DRAWS], "table2": [(name,) for name in STRUCTURES]}
# What dropout's choice is made among: the rate of dropping, and the least noise of the target in
# its standard deviations. A noise level that is only learned comes out too low where the network
# overfits; grid searches of the literature choose it on held-out rows.
DROP_RATES = (0.005, 0.01, 0.05, 0.1)
NOISE_FLOORS = (0.001, 0.1, 0.3)
PRIOR_SCALE = 10.0
WIDTH, NUM_DRAWS = 50, 10
# Draws by which test rows are predicted: the logarithm of a mean over few of them is biased low.
NUM_PREDICTED = 1000
# The share of steps over which EM's temperature rises: see benchmarks/em_warm_up.py.
WARM_UP = 0.3


class Fitted(NamedTuple):
    """A posterior for each split, and what was chosen for it inside its training set."""

    posteriors: list[Posterior]
    chosen: list[dict[str, float]]


def fit_dropout(
    data: Dataset, splits: Sequence[Split], plan: Plan, progress: bool | None
) -> dict[str, Fitted]:
    """Table 1: one hidden layer of 50 under Bernoulli noise, by each of three objectives.

    All splits, objectives and choices are tried as one program, and what was chosen trains as
    another.
    """
    methods = [
        NoiseTraining(name, num_draws=NUM_DRAWS, **plan.training(len(splits[0][0])))
        for name in OF_DRAWS
    ]
    choices = [{"drop": d, "noise_floor": f} for d in DROP_RATES for f in NOISE_FLOORS]
    keys = jax.random.split(jax.random.key(1), len(splits))

    def models(key: Any) -> list[Model]:
        network = MLP(data.x.shape[1], "scalar", WIDTH, 1, key=key)
        return [
            Model(
                network,
                ARD(Bernoulli(1 - c["drop"]), scale=PRIOR_SCALE),
                Gaussian(floor=c["noise_floor"]),
            )
            for c in choices
        ]

    options = [models(key) for key in keys]
    xs, ys = ([values[rows] for rows, _ in splits] for values in (data.x, data.y))
    tried = try_out(
        [[Candidate(model, m) for m in methods for model in of_split] for of_split in options],
        [prepare(options[0][0], x, y, None, True)[0] for x, y in zip(xs, ys, strict=True)],
        1, plan.held_out, jax.random.split(jax.random.key(2), len(splits)),
        jax.random.split(jax.random.key(3), len(splits)), progress=progress,
    )  # fmt: skip
    # (splits, objectives, choices)
    scores = np.array([np.average(one.log_prob, axis=1, weights=one.weight) for one in tried])
    best = scores.reshape(len(splits), len(methods), len(choices)).argmax(axis=2)
    posteriors = fit_many(
        [options[i][best[i, m]] for m in range(len(methods)) for i in range(len(splits))],
        xs * len(methods),
        ys * len(methods),
        [method for method in methods for _ in splits],
        keys=jnp.concatenate([keys] * len(methods)),
        progress=progress,
    )
    return {
        method.objective: Fitted(
            posteriors[m * len(splits) : (m + 1) * len(splits)], [choices[c] for c in best[:, m]]
        )
        for m, method in enumerate(methods)
    }


def fit_em(
    data: Dataset, splits: Sequence[Split], plan: Plan, structure: str, progress: bool | None
) -> Fitted:
    """Table 2: a residual network of 2 x 50 under inverse gamma(3, 3) scales, by variational EM."""
    method = VariationalEM(warm_up=WARM_UP, **plan.training(len(splits[0][0])))
    keys = jax.random.split(jax.random.key(4), len(splits))
    prior = STRUCTURES[structure](InverseGamma(3.0, 3.0))
    posteriors = fit_many(
        [
            Model(ResNet(data.x.shape[1], "scalar", WIDTH, 2, key=k), prior, Gaussian())
            for k in keys
        ],
        [data.x[rows] for rows, _ in splits],
        [data.y[rows] for rows, _ in splits],
        method,
        keys=keys,
        progress=progress,
    )
    return Fitted(posteriors, [{} for _ in splits])


def measure(
    methods: Sequence[str],
    data: Dataset,
    splits: Sequence[Split],
    plan: Plan,
    progress: bool | None = None,
) -> dict[str, dict[str, Any]]:
    """Cells by method: the test figures of every split, and what was chosen."""
    start = time.perf_counter()
    splits = splits[: plan.num_splits]
    if methods == OF_DRAWS:
        fitted = fit_dropout(data, splits, plan, progress)
    else:
        fitted = {name: fit_em(data, splits, plan, name, progress) for name in methods}
    seconds = time.perf_counter() - start
    about = {"fit_seconds": seconds / len(methods), **plan.training(len(splits[0][0]))}
    return {
        name: {"splits": [_scores(data, *of) for of in zip(*one, splits, strict=True)], **about}
        for name, one in fitted.items()
    }


def _scores(
    data: Dataset, posterior: Posterior, chosen: dict[str, float], split: Split
) -> dict[str, float]:
    x, y = data.x[split[1]], data.y[split[1]]
    prediction = posterior.predict(x, num_draws=NUM_PREDICTED)
    return {
        "rmse": metrics.rmse(y, prediction.mean),
        "paper_rmse": metrics.paper_rmse(prediction.absolute_error(y)),
        "log_likelihood": metrics.log_likelihood(prediction.log_prob(y)),
        **chosen,
    }
