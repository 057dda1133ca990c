"""The chunks of training: batches for the compiled programs, and the search for a divergence."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._types import PyTree
from scalemix.data.batches import Data
from scalemix.inference.training import programs
from scalemix.inference.training.engine import Schedule


class Chunk(NamedTuple):
    """What some steps lead to."""

    state: PyTree
    objective: np.ndarray
    log_likelihood: np.ndarray
    recorded: dict[str, np.ndarray]
    good: bool
    """Whether all numbers are still finite."""


class Chunks:
    """The compiled programs of one run, and the data they read."""

    def __init__(
        self,
        arrays: PyTree,
        static: PyTree,
        data: Data,
        num_rows: np.ndarray,
        sets: np.ndarray,
        schedule: Schedule,
        keys: PRNGKeyArray,
    ):
        self.arrays: PyTree = arrays
        self.static: PyTree = static
        self.schedule = schedule
        self.sets_on_host = sets
        # Arrays are put on the device and not made by `asarray`, which compiles a program for every
        # shape.
        self.sets: Array = jax.device_put(sets.astype(np.int32))
        self.rows_on_host: list[int] = [int(num_rows[which]) for which in sets]
        # In double precision, or the mean weight would not be one where all weights are.
        num_data = data.weight.sum(axis=1, dtype=np.float64)
        size = schedule.batch_size
        totals = num_data if size is None else num_data * size / num_rows
        dtype = data.weight.dtype
        self.num_data: Array = jax.device_put(num_data[sets].astype(dtype))
        self.totals: Array = jax.device_put(totals[sets].astype(dtype))
        self.num_rows: Array = jax.device_put(num_rows[sets].astype(np.int32))
        self.longest: int = data.weight.shape[1]
        self.order_keys: PRNGKeyArray
        self.step_keys: PRNGKeyArray
        self.order_keys, self.step_keys = programs.split_keys(keys)
        self.data: Data = data if schedule.stream else jax.device_put(data)
        self.orders: tuple[list[int], Array] | None = None

    def run(self, state: PyTree, start: int, count: int) -> Chunk:
        """What `count` steps from step `start` on lead to."""
        data, rows = self._batches(start)
        state, *by_step, recorded, finite = programs.run_chunk(
            self.schedule, self.static, state, self.arrays, data, self.sets, rows,
            self.num_data, self.totals, self.step_keys, jnp.int32(start), jnp.int32(count),
        )  # fmt: skip
        objective, log_likelihood = (np.asarray(values)[:, :count] for values in by_step)
        good = bool(finite) and bool(np.isfinite(objective).all())
        return Chunk(state, objective, log_likelihood, jax.tree.map(np.asarray, recorded), good)

    def _batches(self, start: int) -> tuple[Data, Array | None]:
        size, steps = self.schedule.batch_size, self.schedule.chunk_steps
        if size is None:
            return self.data, None
        epochs = [start * size // n for n in self.rows_on_host]
        if self.orders is None or self.orders[0] != epochs:
            reach = steps * size // min(self.rows_on_host) + 2
            first = jax.device_put(np.array(epochs, np.int32))
            orders = programs.visits_of(self.order_keys, self.num_rows, first, self.longest, reach)
            self.orders = epochs, orders
        places = jax.device_put(np.array([start * size % n for n in self.rows_on_host], np.int32))
        rows = programs.rows_of(self.orders[1], places, self.num_rows, steps, size)
        if not self.schedule.stream:
            return self.data, rows
        # Only the rows of this chunk go to the device.
        on_host = np.asarray(rows)
        pairs = list(zip(self.sets_on_host, on_host, strict=True))
        gathered = [np.stack([a[which][chosen] for which, chosen in pairs]) for a in self.data]
        return Data(*map(jax.device_put, gathered)), None

    def score(self, state: PyTree, held_out: Data) -> np.ndarray:
        """The score of each model on its held-out rows, under the same noise every time."""
        held_out = jax.device_put(held_out)
        means = programs.mean_log_probs(
            self.static, state, self.arrays, held_out, self.sets, self.step_keys
        )
        return np.asarray(means, float)

    def recorded_arrays(self, state: PyTree) -> list[tuple[str, tuple[int, ...], Any]]:
        """Name, shape and type of what one model's step records."""
        data, rows = self._batches(0)
        *_, recorded, _ = eqx.filter_eval_shape(
            programs.run_chunk, self.schedule, self.static, state, self.arrays, data, self.sets,
            rows, self.num_data, self.totals, self.step_keys, jnp.int32(0), jnp.int32(0),
        )  # fmt: skip
        return [(name, leaf.shape[1:], leaf.dtype) for name, leaf in recorded.items()]

    def explain(self, state: PyTree, start: int, count: int) -> str:
        """Where and when a chunk went wrong, which is seen by running it again step by step."""
        low, high = 0, count
        while high - low > 1:
            # Once non-finite, always non-finite: halve the steps that are known to be good.
            middle = (low + high) // 2
            good = self.run(state, start, middle).good
            low, high = (middle, high) if good else (low, middle)
        before = self.run(state, start, low).state if low else state
        after, objective, *_ = self.run(state, start, low + 1)
        places = [
            place for when in (before, after) for place in self._not_finite(when, start + low)
        ]
        if places:
            which, site = places[0]
            where = f"the values at {site!r} are no longer finite"
        else:
            which = int(np.flatnonzero(~np.isfinite(objective[:, -1]))[0])
            where = "the likelihood of the targets is no longer finite"
        model = f" of model {which}" if len(self.rows_on_host) > 1 else ""
        return (
            f"Training{model} diverged at step {start + low}: {where}. Try a smaller learning "
            f"rate, a smaller prior scale, a higher noise floor of the likelihood, or a mixture "
            f"with lighter tails."
        )

    def _not_finite(self, state: PyTree, step: int) -> list[tuple[int, str]]:
        """Model and site of values that are not finite, the first model of each site."""
        values = programs.magnitudes(self.static, state, self.arrays, self.step_keys, step)
        bad = {n: np.flatnonzero(~np.isfinite(np.asarray(value))) for n, value in values.items()}
        return [(int(models[0]), name) for name, models in bad.items() if models.size]
