"""The cells of a table that train together: one set, all its splits, one or several methods."""

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from scalemix.analysis import metrics
from scalemix.data import Dataset
from scalemix.data.checks import check_inputs, check_targets, inputs_as_seen, targets_as_seen
from scalemix.fitting.front_door import fit_many
from scalemix.inference import VariationalEM
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import InverseGamma
from scalemix.model.model import Model
from scalemix.networks import ResNet
from scalemix.posterior import statistics
from scalemix.posterior.draws import Draws, make_draws
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.streaming import refuse_lost, stream
from scalemix.reproduce.dropout import GROUPS, KINDS, SplitFits, fit_dropout
from scalemix.reproduce.plans import WIDTH, Plan, Split
from scalemix.structures import ADD, ARD, ARDADD, Structure

STRUCTURES: dict[str, type[Structure]] = {"ARD": ARD, "ADD": ADD, "ARD-ADD": ARDADD}
# Methods of a table, in groups that are one program: objectives that share draws alike share all
# shapes, the structures have scales of different ones.
TABLES: dict[str, list[tuple[str, ...]]] = {
    "table1": GROUPS,
    "table2": [(name,) for name in STRUCTURES],
}
# Draws by which test rows are predicted: the logarithm of a mean over few of them is biased low.
NUM_PREDICTED = 1000


def fit_em(
    data: Dataset, splits: Sequence[Split], plan: Plan, structure: str, progress: bool | None
) -> SplitFits:
    """Table 2: a residual network of 2 x 50 under inverse gamma(3, 3) scales, by variational EM."""
    method = VariationalEM(warm_up=plan.warm_up, **plan.training(len(splits[0][0])))
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
    return SplitFits(posteriors, [{} for _ in splits])


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
    if set(methods) <= set(KINDS):
        fitted = fit_dropout(data, splits, plan, methods, progress)
    else:
        fitted = {name: fit_em(data, splits, plan, name, progress) for name in methods}
    seconds = time.perf_counter() - start
    training = plan.training(len(splits[0][0]))
    about = {
        "fit_seconds": seconds / len(methods),
        "steps": training["steps"],
        "batch_size": training["batch_size"],
    }
    return {
        name: {"splits": [_scores(data, *of) for of in zip(*one, splits, strict=True)], **about}
        for name, one in fitted.items()
    }


def _scores(
    data: Dataset, posterior: Posterior, chosen: dict[str, float], split: Split
) -> dict[str, float]:
    x, y = data.x[split[1]], data.y[split[1]]
    model, scaling = posterior.model, posterior.scaling
    seen = inputs_as_seen(check_inputs(x, model), model, scaling)
    targets = targets_as_seen(check_targets(y, model.likelihood), scaling, seen.dtype)
    draws = Draws(posterior.networks, np.arange(NUM_PREDICTED, dtype=np.int32), posterior.key)
    (mean, error, log_prob), lost = stream(_statistics, make_draws(draws), 1, seen, targets)
    refuse_lost(lost)
    return {
        "rmse": metrics.rmse(y, mean * scaling.y_scale + scaling.y_mean),
        "paper_rmse": metrics.paper_rmse(error * scaling.y_scale),
        "log_likelihood": metrics.log_likelihood(log_prob - np.log(scaling.y_scale)),
        **chosen,
    }


def _statistics(draws: Any, outputs: Any, y: Any) -> tuple[Any, ...]:
    """What `Predictive` would have of its `mean`, `absolute_error` and `log_prob`.

    It would pass all rows through all networks for each of them.
    """
    mean, _, _ = statistics.moments(draws, outputs)
    return (
        mean,
        *statistics.absolute_error(draws, outputs, y),
        *statistics.log_prob(draws, outputs, y),
    )
