"""The chunks of training: batches for the compiled programs, and the search for a divergence."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._types import PyTree
from scalemix.data.batches import Data
from scalemix.inference.groups import Groups
from scalemix.inference.layout import Layout
from scalemix.inference.training import programs
from scalemix.inference.training.engine import Schedule
from scalemix.inference.training.sources import Source


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
        source: Source,
        schedule: Schedule,
        step_keys: PRNGKeyArray,
        layout: Layout,
    ):
        self.layout = layout
        self.groups: Groups = Groups.of(layout)
        self.arrays: PyTree = arrays
        self.static: PyTree = static
        self.schedule = schedule
        self.source = source
        self.num_models: int = layout.num
        # Weights of more than two axes are those of convolutions.
        sites = static.models.sites
        grouped = self.num_models > 1 and any(len(site.layer_shape) > 2 for site in sites)
        self.program: Callable[..., Any] = programs.chunk_program(grouped)
        num_data, size = source.num_data, schedule.batch_size
        totals = num_data if size is None else num_data * size / source.num_rows
        # Arrays are put on the device and not made by `asarray`, which compiles a program for
        # every shape.
        self.num_data: Array = layout.place(num_data.astype(source.dtype))
        self.totals: Array = layout.place(totals.astype(source.dtype))
        self.step_keys: PRNGKeyArray = layout.place(step_keys)
        fixed = self.arrays, self.num_data, self.totals, self.step_keys
        self.of_groups: list[PyTree] = self.groups.split(fixed)

    def run(self, state: PyTree, start: int, count: int) -> Chunk:
        """What `count` steps from step `start` on lead to."""
        arguments = self._arguments(state, start, count)
        state, *told = self.groups.run(self.program, arguments)
        *by_step, recorded, finite = jax.tree.map(np.asarray, self.layout.cut(told))
        objective, log_likelihood = (values[:, :count] for values in by_step)
        good = bool(finite.all()) and bool(np.isfinite(objective).all())
        return Chunk(state, objective, log_likelihood, recorded, good)

    def _arguments(self, state: PyTree, start: int, count: int) -> list[tuple]:
        """Those of the program, for each group."""
        data, sets, rows = self.source.batches(start)
        shape = programs.Shape(self.schedule.chunk_steps, self.schedule.stream)
        numbers = (np.int32(start), np.int32(count), np.int32(self.schedule.num_steps))
        return [
            (
                self.layout.mesh, shape, self.static, state, arrays, data, sets, rows, num_data,
                totals, keys, *self.layout.whole(numbers),
            )
            for (state, sets, rows), (arrays, num_data, totals, keys) in zip(
                self.groups.split((state, sets, rows)), self.of_groups, strict=True
            )
        ]  # fmt: skip

    def score(self, state: PyTree, held_out: Data, sets: Array) -> np.ndarray:
        """The score of each model on its held-out rows, under the same noise every time.

        `sets` says which of the data sets, placed on the devices, each model has.
        """
        means = programs.mean_log_probs(
            self.layout.mesh, self.static, state, self.arrays, held_out, sets, self.step_keys
        )
        return np.asarray(self.layout.cut(means), float)

    def recorded_arrays(self, state: PyTree) -> list[tuple[str, tuple[int, ...], Any]]:
        """Name, shape and type of what one model's step records."""
        # Not the program: settings of the compiler are only for what runs.
        *_, recorded, _ = self.groups.shapes(
            programs.steps_of_chunk, self._arguments(state, 0, 0)[:1]
        )
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
        model = f" of model {which}" if self.num_models > 1 else ""
        return (
            f"Training{model} diverged at step {start + low}: {where}. Try a smaller learning "
            f"rate, a smaller prior scale, a higher noise floor of the likelihood, or a mixture "
            f"with lighter tails."
        )

    def _not_finite(self, state: PyTree, step: int) -> list[tuple[int, str]]:
        """Model and site of values that are not finite, the first model of each site."""
        values = self.layout.cut(
            programs.magnitudes(
                self.layout.mesh, self.static, state, self.arrays, self.step_keys, step
            )
        )
        bad = {n: np.flatnonzero(~np.isfinite(np.asarray(value))) for n, value in values.items()}
        return [(int(models[0]), name) for name, models in bad.items() if models.size]
