"""What the benchmarks share: timing in alternation, peers, the machine's rate, tables."""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

import scalemix as sx
from scalemix.data.batches import Data, stack
from scalemix.inference.layout import Layout
from scalemix.inference.side_by_side import stack_fits
from scalemix.inference.training import programs
from scalemix.inference.training.chunks import Chunks
from scalemix.inference.training.engine import Schedule
from scalemix.inference.training.sources import InMemory

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def machine() -> dict[str, str]:
    """The machine's shape and the versions that count."""
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "device": jax.devices()[0].device_kind,
        "python": platform.python_version(),
        "jax": jax.__version__,
    }


def measure_sets(file: Path, measure: Callable[[str], object]) -> dict:
    """What the file has, with the sets named on the command line, or all of them, measured anew.

    The file is written after each set. `table` in place of a set measures none.
    """
    names = sys.argv[1:] or list(sx.data.NAMES)
    results = json.loads(file.read_text()) if file.exists() else {"sets": {}}
    if names == ["table"]:
        return results
    results.update(machine())
    for name in names:
        start = time.perf_counter()
        results["sets"][name] = measure(name)
        file.write_text(json.dumps(results, indent=1) + "\n")
        print(name, f"{time.perf_counter() - start:.0f} s", flush=True)
    return results


def alternate(runs: dict[str, Callable[[], float]], repetitions: int) -> dict[str, float]:
    """The median seconds of each run, taken in turn so that disturbances are shared."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repetitions):
        for name, run in runs.items():
            seconds[name].append(run())
    return {name: statistics.median(values) for name, values in seconds.items()}


def clock(work: Callable[[], object]) -> float:
    """Seconds that the work takes, its results awaited."""
    start = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - start


def prepare(
    method, models: list[sx.Model], xs, ys, num_steps: int, mesh: Mesh | None = None
) -> tuple[Chunks, object]:
    """The chunks of a fit, as the library runs them, and its first state.

    Models read the data sets in turn.
    """
    layout = Layout.over(mesh, len(models))
    starts = stack_fits([method] * len(models), models)
    data = stack([Data(x, y, np.ones(len(y), np.float32)) for x, y in zip(xs, ys, strict=True)])
    arrays, static = eqx.partition(starts, eqx.is_array)
    arrays = layout.place(arrays)
    schedule = Schedule(num_steps, method.batch_size, num_steps, 1, False)
    keys = jax.random.split(jax.random.key(0), len(models))
    state = programs.init(layout.mesh, static, arrays, layout.whole(np.int32(num_steps)))
    rows, sets = np.array([len(y) for y in ys]), np.arange(len(models)) % len(ys)
    order_keys, step_keys = programs.split_keys(keys)
    source = InMemory(data, rows, sets, schedule, order_keys, layout)
    return Chunks(arrays, static, source, schedule, step_keys, layout), state


def chunks(method, models: list[sx.Model], xs, ys, num_steps: int):
    """The compiled chunk of a fit, as the library runs it: a function that runs `num_steps`."""
    program, state = prepare(method, models, xs, ys, num_steps)
    program.run(state, 0, 1)
    return lambda: clock(lambda: program.run(state, 0, num_steps)[0])


def our_measures(prediction: sx.Predictive, y, seed: int) -> dict[str, float]:
    """How good a predictive distribution is for targets that are numbers."""
    samples = prediction.sample(jax.random.key(seed), 200)
    return {
        "rmse": sx.metrics.rmse(y, prediction.mean),
        "log_likelihood": sx.metrics.log_likelihood(prediction.log_prob(y)),
        "crps": sx.metrics.crps(y, samples),
        "coverage90": sx.metrics.interval_coverage(y, prediction.interval(0.9)),
    }


def yacht_splits():
    """Standardised training sets of the twenty splits."""
    data = sx.data.load("yacht")
    xs, ys = [], []
    for train, _ in sx.data.splits(len(data.y)):
        x, y = data.x[train], data.y[train]
        xs.append(((x - x.mean(0)) / x.std(0)).astype(np.float32))
        ys.append(((y - y.mean()) / y.std()).astype(np.float32))
    return xs, ys


def product_rate(shape_a, shape_b, times: int) -> float:
    """GFLOP/s of JAX's own matrix product of these shapes, `times` of them in one program."""
    a, b = jnp.ones(shape_a, jnp.float32), jnp.ones(shape_b, jnp.float32)

    @jax.jit
    def run(a, b):
        # Each product depends on the one before, by a number that is zero.
        def body(_, carry):
            a, last = carry
            return a, jnp.matmul(a, b + 0 * last[..., :1, :1])

        return jax.lax.fori_loop(0, times, body, (a, jnp.matmul(a, b)))[1]

    clock(lambda: run(a, b))
    seconds = statistics.median(clock(lambda: run(a, b)) for _ in range(7))
    return times * 2 * np.prod(shape_a) * shape_b[-1] / seconds / 1e9


class Peers:
    """Other packages, in a process of its own that waits while ours runs."""

    def __init__(self, python: str):
        self.process = subprocess.Popen(
            [python, str(HERE / "peers_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def fit(self, peer: str, x, y, x_test, y_test) -> dict[str, float]:
        """A package's measures on one split."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            np.savez(file, x=x, y=y, x_test=x_test, y_test=y_test)
            file.flush()
            self.process.stdin.write(f"{peer}\t{file.name}\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{peer} failed: run {HERE / 'peers_worker.py'} by hand to see why.")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self.process.terminate()


def publish(name: str, rows: list[tuple[str, str, str]], results: dict) -> None:
    """Print what was measured beside what was wanted; write the table and the results file."""
    for what, value, wanted in rows:
        print(f"{what:52}{value:>8}   {wanted}")
    write_table(name, list(rows))
    (RESULTS / f"{name}.json").write_text(json.dumps(results, indent=2) + "\n")


def write_table(
    name: str,
    rows: list[tuple[str, ...]],
    head: tuple[str, ...] = ("", "measured", "wanted"),
    page: Path = HERE / "README.md",
) -> None:
    """Put the rows between the marks of that name in a page, benchmarks/README.md unless given."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, rest = page.read_text().split(begin)
    after = rest.split(end)[1]
    table = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    table += [f"| {' | '.join(row)} |" for row in rows]
    page.write_text("\n".join([before + begin, *table, end + after]))
