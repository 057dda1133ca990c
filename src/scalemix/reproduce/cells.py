"""One cell of a table: a method on a set, all its splits trained as one program."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from scalemix import metrics
from scalemix.data import Dataset
from scalemix.fitting import fit_many
from scalemix.inference import NoiseTraining, VariationalEM
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
OBJECTIVES = ("lower_bound", "importance_weighted", "tail_adaptive")
STRUCTURES = {"ARD": ARD, "ADD": ADD, "ARD-ADD": ARDADD}
# What dropout's choice is made among: the rate of dropping and the prior's scale (weight decay).
DROP_RATES = (0.005, 0.01, 0.05, 0.1)
PRIOR_SCALES = (1.0, 10.0)
WIDTH, NUM_DRAWS = 50, 10


class Fitted(NamedTuple):
    """A posterior for each split, and what was chosen for it inside its training set."""

    posteriors: list[Posterior]
    chosen: list[dict[str, float]]


def fit_dropout(
    data: Dataset,
    splits: Sequence[Split],
    plan: Plan,
    objective: Any,
    progress: bool | None,
) -> Fitted:
    """Table 1: one hidden layer of 50 under Bernoulli noise, by one of three objectives."""
    method = NoiseTraining(objective, num_draws=NUM_DRAWS, **plan.training(len(splits[0][0])))
    choices = [{"drop": d, "prior_scale": s} for d in DROP_RATES for s in PRIOR_SCALES]
    keys = jax.random.split(jax.random.key(1), len(splits))

    def models(key: Any) -> list[Model]:
        network = MLP(data.x.shape[1], "scalar", WIDTH, 1, key=key)
        return [
            Model(network, ARD(Bernoulli(1 - c["drop"]), scale=c["prior_scale"]), Gaussian())
            for c in choices
        ]

    candidates = [models(key) for key in keys]
    train = [rows for rows, _ in splits]
    prepared = [
        prepare(options[0], data.x[rows], data.y[rows], None, True)[0]
        for options, rows in zip(candidates, train, strict=True)
    ]
    tried = try_out(
        [[Candidate(model, method) for model in options] for options in candidates],
        prepared, 1, plan.held_out, jax.random.split(jax.random.key(2), len(splits)),
        jax.random.split(jax.random.key(3), len(splits)), progress=progress,
    )  # fmt: skip
    best = [int(np.argmax(np.average(values, axis=1, weights=w))) for values, w in tried]
    posteriors = fit_many(
        [options[i] for options, i in zip(candidates, best, strict=True)],
        [data.x[rows] for rows in train],
        [data.y[rows] for rows in train],
        method,
        keys=keys,
        progress=progress,
    )
    return Fitted(posteriors, [choices[i] for i in best])


def fit_em(
    data: Dataset,
    splits: Sequence[Split],
    plan: Plan,
    structure: str,
    progress: bool | None,
) -> Fitted:
    """Table 2: a residual network of 2 x 50 under inverse gamma(3, 3) scales, by variational EM."""
    method = VariationalEM(**plan.training(len(splits[0][0])))
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
    table: str,
    method: str,
    data: Dataset,
    splits: Sequence[Split],
    plan: Plan,
    progress: bool | None = None,
) -> dict[str, Any]:
    """A cell: the test figures of every split, and what was chosen."""
    start = time.perf_counter()
    fit = fit_dropout if table == "table1" else fit_em
    fitted = fit(data, splits[: plan.num_splits], plan, method, progress)
    seconds = time.perf_counter() - start
    rows = []
    for posterior, chosen, (_, test) in zip(
        fitted.posteriors, fitted.chosen, splits[: plan.num_splits], strict=True
    ):
        prediction, y = posterior.predict(data.x[test]), data.y[test]
        rows.append(
            {
                "rmse": metrics.rmse(y, prediction.mean),
                "paper_rmse": metrics.paper_rmse(prediction.absolute_error(y)),
                "log_likelihood": metrics.log_likelihood(prediction.log_prob(y)),
                **chosen,
            }
        )
    return {"splits": rows, "fit_seconds": seconds, **plan.training(len(splits[0][0]))}
