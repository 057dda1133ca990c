"""What training costs for networks that are not dense, against a plain step of the same network.

Run with `make benchmark-networks`. Prints a table and writes benchmarks/results/networks.json.
Plain training is what one would write with Equinox and Optax: the same network, mapped over the
batch, the same likelihood, Adam, its steps in one compiled loop. All contenders take turns, and
medians count. Memory is what the compiler sets aside for one step beside its inputs and outputs.

`python benchmarks/networks.py gru` measures one network and writes nothing.
"""

import statistics
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from common import chunks, clock, machine, publish

import scalemix as sx
from scalemix._cpu import quick_on_cpu
from scalemix._random import noise_key
from scalemix.data.batches import Batch

BATCH, ROWS, CLASSES = 32, 1024, 10
LIKELIHOOD = sx.likelihoods.Categorical(CLASSES)


class CNN(eqx.Module):
    """Two convolutions with pooling, then two dense layers."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    hidden: eqx.nn.Linear
    last: eqx.nn.Linear
    pool: eqx.nn.MaxPool2d

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.first = eqx.nn.Conv2d(1, 16, 3, padding=1, key=keys[0])
        self.second = eqx.nn.Conv2d(16, 32, 3, padding=1, key=keys[1])
        self.hidden = eqx.nn.Linear(32 * 7 * 7, 64, key=keys[2])
        self.last = eqx.nn.Linear(64, CLASSES, key=keys[3])
        self.pool = eqx.nn.MaxPool2d(2, 2)

    def __call__(self, x):
        x = self.pool(jax.nn.relu(self.first(x)))
        x = self.pool(jax.nn.relu(self.second(x)))
        return self.last(jax.nn.relu(self.hidden(x.reshape(-1))))


class GRU(eqx.Module):
    """A gated recurrent layer, and a dense one on its last state."""

    cell: eqx.nn.GRUCell
    last: eqx.nn.Linear

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(8, 64, key=first)
        self.last = eqx.nn.Linear(64, CLASSES, key=second)

    def __call__(self, x):
        def step(state, row):
            return self.cell(row, state), None

        state, _ = jax.lax.scan(step, jnp.zeros(self.cell.hidden_size, x.dtype), x)
        return self.last(state)


class Block(eqx.Module):
    """Attention, then a dense network at each position, each beside the identity."""

    attention: eqx.nn.MultiheadAttention
    up: eqx.nn.Linear
    down: eqx.nn.Linear
    norms: list[eqx.nn.LayerNorm]

    def __init__(self, width, key):
        keys = jax.random.split(key, 3)
        self.attention = eqx.nn.MultiheadAttention(4, width, key=keys[0])
        self.up = eqx.nn.Linear(width, 4 * width, key=keys[1])
        self.down = eqx.nn.Linear(4 * width, width, key=keys[2])
        self.norms = [eqx.nn.LayerNorm(width), eqx.nn.LayerNorm(width)]

    def __call__(self, x):
        h = jax.vmap(self.norms[0])(x)
        x = x + self.attention(h, h, h)
        h = jax.vmap(self.norms[1])(x)
        return x + jax.vmap(self.down)(jax.nn.gelu(jax.vmap(self.up)(h)))


class Transformer(eqx.Module):
    """Two blocks on embedded tokens; the class is read from the mean over positions."""

    embedding: eqx.nn.Embedding
    positions: jax.Array
    blocks: list[Block]
    last: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key, 5)
        self.embedding = eqx.nn.Embedding(100, 64, key=keys[0])
        self.positions = 0.02 * jax.random.normal(keys[1], (32, 64))
        self.blocks = [Block(64, keys[2]), Block(64, keys[3])]
        self.last = eqx.nn.Linear(64, CLASSES, key=keys[4])

    def __call__(self, tokens):
        x = jax.vmap(self.embedding)(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.last(x.mean(axis=0))


class Case(NamedTuple):
    """A network, what it reads, and how much slower noise may make it."""

    network: Callable[..., Any]
    draw: Callable[[np.random.Generator], np.ndarray]
    wanted: float
    steps: int


CASES = {
    "CNN": Case(CNN, lambda rng: rng.normal(size=(ROWS, 1, 28, 28)).astype(np.float32), 1.2, 5),
    "GRU": Case(GRU, lambda rng: rng.normal(size=(ROWS, 30, 8)).astype(np.float32), 1.5, 20),
    "transformer": Case(Transformer, lambda rng: rng.integers(0, 100, (ROWS, 32)), 1.3, 10),
}
METHODS = {
    "Bernoulli noise": (sx.NoiseTraining, sx.ARD(sx.Bernoulli(0.9)), 1),
    "half-Cauchy noise": (sx.NoiseTraining, sx.ARD(sx.HalfCauchy(1.0)), 1),
    "EM": (sx.VariationalEM, sx.ARD(sx.HalfCauchy(1.0)), 2),
}


def plain_step(network, x, y):
    """Plain training: its first state, and a step on the rows given."""
    optimizer = optax.adam(1e-3)
    x, y = jnp.asarray(x), jnp.asarray(y)
    arrays, static = eqx.partition(network, eqx.is_inexact_array)

    def step(state, rows):
        learned, inner = state

        def loss(learned):
            outputs = jax.vmap(eqx.combine(learned, static))(x[rows])
            return -jnp.mean(jax.vmap(LIKELIHOOD.log_prob)(outputs, y[rows]))

        value, slope = jax.value_and_grad(loss)(learned)
        updates, inner = optimizer.update(slope, inner, learned)
        return (optax.apply_updates(learned, updates), inner), value

    return (arrays, optimizer.init(arrays)), step


def plain(network, x, y, num_steps: int) -> tuple[Callable[[], float], int]:
    """The seconds of so many plain steps, and the memory of one."""
    state, step = plain_step(network, x, y)
    rng = np.random.default_rng(1)
    rows = jnp.asarray(rng.integers(0, len(y), (num_steps, BATCH)), jnp.int32)
    run = jax.jit(lambda state, rows: jax.lax.scan(step, state, rows))
    clock(lambda: run(state, rows))
    return lambda: clock(lambda: run(state, rows)), memory(step, state, rows[0])


def step_by_step(network, x, y, num_steps: int) -> tuple[Callable[[], float], int]:
    """The same as calls of one compiled step: XLA compiles convolutions better outside a loop."""
    first, step = plain_step(network, x, y)
    rng = np.random.default_rng(1)
    rows = jnp.asarray(rng.integers(0, len(y), (num_steps, BATCH)), jnp.int32)
    run_step = jax.jit(step)

    def run():
        state = first
        for i in range(num_steps):
            state, _ = run_step(state, rows[i])
        return state

    clock(run)
    return lambda: clock(run), memory(step, first, rows[0])


def memory(step: Callable[..., Any], *arguments: Any) -> int:
    """Bytes that the compiler sets aside for a step."""
    analysis: Any = jax.jit(step).lower(*arguments).compile().memory_analysis()
    return analysis.temp_size_in_bytes


def ours(name: str, network, x, y, num_steps: int) -> tuple[Callable[[], float], int]:
    """The same of a method of this package."""
    kind, prior, num_draws = METHODS[name]
    method = kind(num_draws=num_draws, batch_size=BATCH, steps=num_steps, learning_rate=1e-3)
    model = sx.Model(network, prior, LIKELIHOOD, example=x[0])
    state = method.init(model, method.optimizer_for(model, num_steps))
    arrays, static = eqx.partition((state, model), eqx.is_array)
    xs, ys, weight = jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y))

    def step(arrays, rows, key):
        state, model = eqx.combine(arrays, static)
        batch = Batch(xs[rows], ys[rows], weight[rows], jnp.float32(BATCH))
        outcome = method.step(
            state, model, batch, jnp.float32(len(y)), jnp.int32(0), num_steps, key
        )
        return eqx.filter(outcome, eqx.is_array)

    key = noise_key(jax.random.key(0))
    rows = jnp.arange(BATCH)
    quick, _ = quick_on_cpu(step, arrays, rows, key)
    of_step = memory(quick, arrays, rows, key)
    return chunks(method, [model], [x], [y], num_steps), of_step


def measure(name: str, repetitions: int) -> dict[str, Any]:
    """One network: milliseconds a step, megabytes a step, and both as multiples of plain's."""
    case = CASES[name]
    rng = np.random.default_rng(0)
    network = case.network(key=jax.random.key(0))
    x, y = case.draw(rng), rng.integers(0, CLASSES, ROWS)
    contenders = {
        "plain": plain(network, x, y, case.steps),
        "step by step": step_by_step(network, x, y, case.steps),
    }
    contenders |= {method: ours(method, network, x, y, case.steps) for method in METHODS}
    seconds: dict[str, list[float]] = {contender: [] for contender in contenders}
    for _ in range(repetitions):
        for contender, (run, _) in contenders.items():
            seconds[contender].append(run())
    base, base_bytes = seconds["plain"], contenders["plain"][1]
    costs = {}
    for contender, (_, num_bytes) in contenders.items():
        # A ratio of neighbours in time: other work on the machine slows both alike.
        ratios = [a / b for a, b in zip(seconds[contender], base, strict=True)]
        costs[contender] = {
            "ms": statistics.median(seconds[contender]) / case.steps * 1e3,
            "times_plain": statistics.median(ratios),
            "megabytes": num_bytes / 1e6,
            "times_memory": num_bytes / base_bytes,
        }
    return costs


def rows_of(name: str, costs: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The lines of the table about one network."""
    rows = [(f"{name}: plain, milliseconds a step", f"{costs['plain']['ms']:.2f}", "")]
    alone = f"{costs['step by step']['times_plain']:.2f}"
    rows.append((f"{name}: plain, step by step, times plain", alone, ""))
    for method in METHODS:
        most = 3.0 if method == "EM" else CASES[name].wanted
        times, bytes_ = (f"{costs[method][key]:.2f}" for key in ("times_plain", "times_memory"))
        rows.append((f"{name}: {method}, times plain", times, f"at most {most}"))
        rows.append((f"{name}: {method}, times plain's memory", bytes_, "at most 2"))
    return rows


def main() -> None:
    """Measure all networks, or those named, and publish if it is all."""
    names = [name for name in CASES if not sys.argv[1:] or name.lower() in sys.argv[1:]]
    results, rows = {}, []
    for name in names:
        results[name] = measure(name, repetitions=15)
        print(name, results[name], flush=True)
        rows += rows_of(name, results[name])
    if len(names) == len(CASES):
        publish("networks", rows, {**machine(), "batch": BATCH, "networks": results})
    else:
        for what, value, wanted in rows:
            print(f"{what:52}{value:>8}   {wanted}")


if __name__ == "__main__":
    main()
