"""The compiled programs of training: many models side by side.

`arrays` and `static` are the two parts of a `SideBySide`: engines and models, stacked on a leading
axis. Where there is a `mesh`, arrays are those of a `Layout` on it, and each device runs its own
models.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, PRNGKeyArray

from scalemix._cpu import quick_on_cpu, settings_of_steps
from scalemix._mesh import over_members, over_rows
from scalemix._random import noise_keys, side_key, split_each
from scalemix._types import PyTree
from scalemix.data.batches import Batch, Data, batch_rows, visits
from scalemix.inference.layout import Layout
from scalemix.inference.side_by_side import SideBySide
from scalemix.inference.training.engine import State, Terms
from scalemix.inference.training.scoring import RowScores, weighted_mean


class Shape(NamedTuple):
    """What of a schedule decides how a chunk is compiled."""

    chunk_steps: int
    stream: bool


def split_keys(keys: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """For each model, a key for the order of its rows and one for its steps."""
    # Orders of rows are drawn by the cheap generator, too: its programs are small.
    order_keys, step_keys = split_each(keys, 2)
    return noise_keys(order_keys), noise_keys(step_keys)


@eqx.filter_jit
def init(mesh: Mesh | None, static: PyTree, arrays: PyTree, num_steps: Array) -> PyTree:
    """The first state of each model."""

    def one(arrays: PyTree, num_steps: Array) -> PyTree:
        engine, model = eqx.combine(arrays, static)
        return engine.begin(model, engine.optimizer_for(model, num_steps))

    return over_members(jax.vmap(one, (0, None)), mesh, [0, None], 0)(arrays, num_steps)


# Its trace is kept: shapes are asked for before it runs, and the final members' program is that of
# the trials.
@eqx.filter_jit
def steps_of_chunk(
    mesh: Mesh | None, shape: Shape, static: PyTree, *arguments: PyTree
) -> tuple[PyTree, Array, Array, dict[str, Array], Array]:
    """Steps of each model; `_run_chunk` says what the arguments are."""
    run = functools.partial(_run_chunk, mesh, shape, static)
    return over_members(run, mesh, [0] * 8 + [None] * 3, 0)(*arguments)


def _run_chunk(
    mesh: Mesh | None, shape: Shape, static: PyTree, state: PyTree, arrays: PyTree,
    data: Data, sets: Array, rows: Array | None, num_data: Array, totals: Array,
    keys: PRNGKeyArray, start: Array, count: Array, num_steps: Array,
) -> tuple[PyTree, Array, Array, dict[str, Array], Array]:  # fmt: skip
    """`count` steps from `start` on, of `num_steps` in all.

    These numbers are data, so that every chunk of runs of any length is one program.

    The last result says of each model whether all numbers of its state are still finite. `totals`
    is what each model's batches are divided by: see `Batch`.
    """

    def one(state, arrays, which, rows, num_data, total, key, i) -> tuple[State, Terms]:
        if rows is not None:
            batch = jax.tree.map(lambda a: a[which, rows[i]], data)
        elif shape.stream:
            # Gathered beforehand.
            batch = jax.tree.map(lambda a: a[which, i], data)
        else:
            batch = jax.tree.map(lambda a: a[which], data)
        engine, model = eqx.combine(arrays, static)
        step = start + i
        key = jax.random.fold_in(key, step)
        batch = over_rows(mesh, batch)
        batch = Batch(batch.x, batch.y, batch.weight, total)
        return engine.step(state, model, batch, num_data, step, num_steps, key)

    def steps(state, i) -> tuple[State, Terms]:
        return _side_by_side(lambda s, a, w, r, n, t, k: one(s, a, w, r, n, t, k, i))(
            state, arrays, sets, rows, num_data, totals, keys
        )

    quick, (_, shapes) = quick_on_cpu(steps, state, jnp.int32(0))

    def body(i: Array, carry):
        state, objectives, log_likelihoods, _ = carry
        state, terms = quick(state, i)
        dtype = objectives.dtype
        objectives = objectives.at[:, i].set(terms.objective.astype(dtype))
        log_likelihoods = log_likelihoods.at[:, i].set(terms.log_likelihood.astype(dtype))
        return state, objectives, log_likelihoods, terms.recorded

    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes.recorded)
    zeros = jnp.zeros((num_data.shape[0], shape.chunk_steps), jnp.float32)
    end = jax.lax.fori_loop(0, count, body, (state, zeros, zeros, blank))
    numbers = jax.tree.leaves(eqx.filter(end[0], eqx.is_inexact_array))
    finite = [jnp.all(jnp.isfinite(leaf), axis=tuple(range(1, leaf.ndim))) for leaf in numbers]
    return *end, jnp.all(jnp.array(finite), axis=0)


@functools.cache
def chunk_program(grouped: bool) -> Callable[..., Any]:
    """The program of a chunk; `grouped` if convolutions of several models run side by side.

    `steps_of_chunk` says what its arguments are, and has no settings of the compiler: these are for
    the outermost function alone.
    """

    def run_chunk(*arguments: PyTree) -> PyTree:
        return steps_of_chunk(*arguments)

    return eqx.filter_jit(run_chunk, **settings_of_steps(grouped))


def _side_by_side(function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """The function mapped over models.

    For a single one the axis is taken away and put back: on a CPU an axis of length one makes
    XLA's sums over the next one take as long as all the rest of a step.
    """

    def mapped(*stacked: PyTree) -> PyTree:
        if len(jax.tree.leaves(stacked)[0]) > 1:
            return jax.vmap(function)(*stacked)
        alone = jax.tree.map(lambda leaf: leaf[0], stacked)
        return jax.tree.map(lambda leaf: leaf[None], function(*alone))

    return mapped


class HeldOutScores(NamedTuple):
    """What stacked models, after a run, say of the rows that each did not see: (models, rows)."""

    layout: Layout
    starts: SideBySide
    held_out: Data
    sets: np.ndarray
    """The number of each model's data set."""
    keys: PRNGKeyArray
    num_draws: int

    def of(self, state: PyTree) -> RowScores:
        """The scores under the state that the run led to."""
        scores = score_rows(*self._arguments(state))
        return jax.tree.map(lambda values: np.asarray(values, np.float64), self.layout.cut(scores))

    def compile(self, state: PyTree) -> None:
        """Compile the program of `of`, for a state of this shape."""
        program: Any = score_rows
        program.lower(*self._arguments(state)).compile()

    def _arguments(self, state: PyTree) -> tuple[Any, ...]:
        arrays, static = eqx.partition(self.starts, eqx.is_array)
        placed = self.layout.place_sets(self.held_out, self.sets)
        # Beside the keys that the run made of the same ones.
        keys = noise_keys(side_key(self.keys))
        state, arrays, keys = self.layout.place((state, arrays, keys))
        return self.layout.mesh, static, state, arrays, *placed, keys, self.num_draws


@eqx.filter_jit
def mean_log_probs(mesh, static, *arguments):
    """The mean predictive log-likelihood of the held-out rows of each model, by the engine's draws.

    This is a program of its own, so that the cdf, which nobody asks for here, is not computed.
    """

    def means(state, arrays, held_out, sets, keys):
        values = _score_rows(static, None, state, arrays, held_out, sets, keys).log_prob
        return jax.vmap(weighted_mean)(values, held_out.weight[sets])

    return over_members(means, mesh, [0] * 5, 0)(*arguments)


@eqx.filter_jit
def score_rows(mesh, static, state, arrays, held_out, sets, keys, num_draws: int):
    """The scores of each held-out row under each model."""
    scores = functools.partial(_score_rows, static, num_draws)
    return over_members(scores, mesh, [0] * 5, 0)(state, arrays, held_out, sets, keys)


def _score_rows(static, num_draws, state, arrays, held_out, sets, keys) -> RowScores:

    def one(state, arrays, which, key):
        engine, model = eqx.combine(arrays, static)
        # A step that training never reaches.
        key = jax.random.fold_in(key, 2**32 - 1)
        rows = jax.tree.map(lambda a: a[which], held_out)
        return engine.score_rows(state, model, rows, key, num_draws)

    return jax.vmap(one)(state, arrays, sets, keys)


@eqx.filter_jit
def magnitudes(mesh, static, state, arrays, keys, step):
    """The largest value of each model at each site."""

    def one(state, arrays, key):
        engine, model = eqx.combine(arrays, static)
        return engine.magnitudes(state, model, jax.random.fold_in(key, step))

    return over_members(jax.vmap(one), mesh, [0] * 3, 0)(state, arrays, keys)


@eqx.filter_jit
def visits_of(mesh, keys, num_rows, first_epoch, longest, num_epochs):
    """The orders in which each model meets its rows."""

    def one(key, rows, first):
        return visits(key, rows, first, longest, num_epochs)

    return over_members(jax.vmap(one), mesh, [0] * 3, 0)(keys, num_rows, first_epoch)


@eqx.filter_jit
def rows_of(mesh, orders, start, num_rows, num_steps, batch_size):
    """The rows of each model's batches."""

    def one(orders, start, rows):
        return batch_rows(orders, start, rows, num_steps, batch_size)

    return over_members(jax.vmap(one), mesh, [0] * 3, 0)(orders, start, num_rows)
