"""What is measured before and after pruning: size, speed, predictions."""

import statistics
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive

TIMED_ROWS = 1024
TIMED_RUNS = 30


def count_parameters(posterior: Posterior) -> int:
    """Numbers in the networks of all members."""
    return sum(leaf.size for leaf in _arrays(posterior))


def count_zeros(posterior: Posterior) -> int:
    """Zeros among them."""
    return sum(int(jnp.sum(leaf == 0)) for leaf in _arrays(posterior))


def _arrays(posterior: Posterior) -> list[Any]:
    network = posterior.networks.stacked.model.network
    return jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))


def mean_change(before: Predictive, after: Predictive) -> float:
    """The largest change of the predictive mean, in units of its spread over the rows.

    Several targets have each a unit of their own, and classes have one together.
    """
    change = np.abs(after.mean - before.mean).max(axis=0)
    spread, doubt = np.std(before.mean, axis=0), np.mean(before.std, axis=0)
    if not before.likelihood.ordered:
        change, spread = change.max(axis=-1), spread.max(axis=-1)
        doubt = doubt.mean(axis=-1)
    # Predictions that do not vary have no spread: their change is compared with their doubt.
    return float(np.max(change / np.where(spread > 0, spread, doubt)))


def timed_inputs(posterior: Posterior, x: np.ndarray | None, in_size: Any) -> np.ndarray:
    """Rows to time a pass with, as the network sees them: those given, or random ones."""
    dtype = posterior.model.dtype
    shape = (TIMED_ROWS,) if in_size == "scalar" else (TIMED_ROWS, in_size)
    if x is None:
        return np.random.default_rng(0).normal(size=shape).astype(dtype)
    return posterior.scaling.inputs(np.resize(x, shape), dtype)


def measure_latency(posterior: Posterior, inputs: np.ndarray) -> float:
    """Median seconds of a compiled pass of these inputs through all members."""
    networks = posterior.networks
    arrays, static = eqx.partition(networks.stacked.model.network, eqx.is_array)

    def one(arrays: Any, x: Any) -> Any:
        return jax.vmap(eqx.combine(arrays, static))(x)

    run = jax.jit(jax.vmap(one, in_axes=(0, None)) if networks.lead else one)
    x = jnp.asarray(inputs)
    run(arrays, x).block_until_ready()
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        run(arrays, x).block_until_ready()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
