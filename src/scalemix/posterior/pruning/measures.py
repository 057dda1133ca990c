"""What is measured before and after pruning: size, speed, predictions."""

import math
import statistics
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._types import Shaped
from scalemix.data.checks import inputs_as_seen
from scalemix.data.rows import Inputs, num_rows, take_rows
from scalemix.networks import find_sites
from scalemix.networks.cutting.counting import multiply_adds
from scalemix.networks.cutting.graph import Trace
from scalemix.posterior.networks import Networks
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive
from scalemix.posterior.pruning.compact import call

RANDOM_ROWS = 32
TIMED_ROWS = 1024
TIMED_RUNS = 30


def count_stored(posterior: Posterior) -> int:
    """Numbers in the networks of all members."""
    network = posterior.networks.stacked.model.network
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)))


def count_parameters(posterior: Posterior) -> int:
    """Those of them that are not certainly zero, as weights under a mask are."""
    return count_stored(posterior) - sum(map(_count_certain_zeros, posterior.networks.members))


def _count_certain_zeros(networks: Networks) -> int:
    beside, num = networks.beside(), 0
    for name, weight in networks.model.weights.items():
        zero, deviation = np.asarray(weight) == 0, beside[name].deviation
        num += int(np.sum(zero if deviation is None else zero & (np.asarray(deviation) == 0)))
    return num


def count_layers(posterior: Posterior) -> int:
    """Layers that can carry a prior, each of a stack counted."""
    return sum(math.prod(site.stack) for site in find_sites(posterior.model.network))


def count_multiply_adds(posterior: Posterior, example: Any) -> int:
    """Multiplications, each with an addition, for one example through all members."""
    trace = Trace(call, posterior.model.network, example)
    return len(posterior.members) * multiply_adds(trace)


def mean_change(before: Predictive, after: Predictive) -> float:
    """The largest change of the predictive mean, in units of its spread over the rows.

    Several targets have each a unit of their own, and classes have one together.
    """
    change = np.abs(after.mean - before.mean).max(axis=0)
    spread, doubt = np.std(before.mean, axis=0), np.mean(before.std, axis=0)
    if not before.likelihood.ordered:
        change, spread = change.max(axis=-1), spread.max(axis=-1)
        doubt = doubt.mean(axis=-1)
    # Where a model predicts the same of all rows, its change is compared with its doubt.
    return float(np.max(change / np.where(spread > 0, spread, doubt)))


def rows_differ(x: Inputs) -> bool:
    """Whether there are two different rows: others say nothing of how predictions vary."""
    return any(bool(np.any(leaf != leaf[:1])) for leaf in map(np.asarray, jax.tree.leaves(x)))


def rows_as_seen(posterior: Posterior, x: Inputs | None) -> Inputs | None:
    """Examples as the network sees them: those given, or random ones; `None` if neither can be."""
    model = posterior.model
    if x is not None:
        return inputs_as_seen(x, model, posterior.scaling)
    if model.example is None:
        return None
    rng = np.random.default_rng(0)

    def random(like: Shaped) -> np.ndarray:
        shape = RANDOM_ROWS, *like.shape
        if not jnp.issubdtype(like.dtype, jnp.floating):
            # Any network that takes whole numbers takes the first one.
            return np.zeros(shape, like.dtype)
        return rng.normal(size=shape).astype(like.dtype)

    rows = jax.tree.map(random, model.example)
    for _, num, places in model.lookups(model.example):
        for part, looked_up in zip(jax.tree.leaves(rows), places, strict=True):
            if jnp.issubdtype(part.dtype, jnp.floating):
                part.reshape(RANDOM_ROWS, -1)[:, looked_up] = rng.integers(
                    num, size=(RANDOM_ROWS, len(looked_up))
                )
    return rows


def measure_latency(posterior: Posterior, inputs: Inputs) -> float:
    """Median seconds of a compiled pass of 1,024 inputs, these in turn, through all members."""
    networks = posterior.networks
    arrays, static = eqx.partition(networks.stacked.model.network, eqx.is_array)

    def one(arrays: Any, x: Any) -> Any:
        return jax.vmap(lambda x: call(eqx.combine(arrays, static), x))(x)

    run = jax.jit(jax.vmap(one, in_axes=(0, None)) if networks.lead else one)
    x = jax.device_put(take_rows(inputs, np.arange(TIMED_ROWS) % num_rows(inputs)))
    run(arrays, x).block_until_ready()
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        run(arrays, x).block_until_ready()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
