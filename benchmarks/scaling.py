"""How cost grows with members, rows and width, and what is added by more devices.

`python benchmarks/scaling.py members`: the members of an ensemble over host devices, which share
this machine's cores. Processor time is what counts: nothing must be added.

`python benchmarks/scaling.py processes`: the same over processes of one device each, with what they
take to start counted apart (scaling_processes.py).

`python benchmarks/scaling.py one`: one device, an accelerator for choice. Microseconds a
model-step, and the share of the rate of a batched product of the same sizes. It stops by itself
after `BUDGET` seconds and the point at hand. `tiny` in place of `one` tries the same out at small
sizes, and writes nothing.

`python benchmarks/scaling.py profile`: what the kernels of a step do on a GPU, and how long it has
nothing to do, at some points of these lines.

All write benchmarks/results/scaling.json as they go. `python benchmarks/scaling_page.py` puts what
is there into docs/scaling.md.
"""

import functools
import gzip
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# Read when JAX starts. Other kinds of devices do not mind.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "4" if sys.argv[1:] == ["members"] else "1")

import jax
import numpy as np
from common import RESULTS, clock, machine, prepare, product_rate

import scalemix as sx
from scalemix._mesh import check_mesh, mesh_of

FILE = RESULTS / "scaling.json"
BUDGET = 200
IN_SIZE, DEPTH, BATCH = 20, 2, 128
DRAWS = {"em": 2, "noise": 10}
# Steps of one program, and the seconds that one timing should take.
CHUNK, LONG_ENOUGH = 100, 0.2


class Point(NamedTuple):
    """What is trained: so many networks of this width, on so many rows."""

    members: int
    rows: int
    width: int


# One of the three at a time, from the point in the middle.
LINES = {
    "members": [Point(members, 10_000, 50) for members in (1, 4, 16, 64, 256, 1024)],
    "rows": [Point(4, rows, 50) for rows in (10**3, 10**4, 10**5, 10**6, 10**7)],
    "width": [Point(16, 10_000, width) for width in (50, 128, 512, 2048)],
}
TINY = {
    "members": [Point(members, 300, 8) for members in (1, 4)],
    "rows": [Point(2, rows, 8) for rows in (300, 3000)],
    "width": [Point(2, 300, width) for width in (8, 16)],
}


def build(
    width: int, engine: str, as_called: Callable[[Any], Any] = lambda network: network,
    **changes: int,
) -> tuple[Any, sx.Model]:  # fmt: skip
    """A method, with settings of one's own, and a model of a residual network of depth two."""
    network = as_called(sx.networks.ResNet(IN_SIZE, "scalar", width, DEPTH, key=jax.random.key(0)))
    likelihood = sx.likelihoods.Gaussian()
    settings = {"batch_size": BATCH, "steps": CHUNK, **changes}
    if engine == "em":
        prior = sx.ARD(sx.InverseGamma(3.0, 3.0))
        return sx.VariationalEM(num_draws=DRAWS[engine], **settings), sx.Model(
            network, prior, likelihood
        )
    method = sx.NoiseTraining("tail_adaptive", num_draws=DRAWS[engine], **settings)
    return method, sx.Model(network, sx.ARD(sx.Bernoulli(0.9)), likelihood)


@functools.cache
def table(rows: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """One table that all members share."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=(rows, IN_SIZE)).astype(np.float32)], [
        rng.normal(size=rows).astype(np.float32)
    ]


def flops(engine: str, width: int) -> float:
    """The arithmetic of a model-step's products.

    Each layer is one product forward, or two for EM, which has means and variances, and twice that
    backward less the gradients of the inputs.
    """
    rows = DRAWS[engine] * BATCH
    weights = IN_SIZE * width + (DEPTH - 1) * width * width + width
    return (2 if engine == "em" else 1) * (3 * 2 * rows * weights - 2 * rows * IN_SIZE * width)


def measure(engine: str, point: Point) -> dict[str, float]:
    """What a model-step costs at this point."""
    method, model = build(point.width, engine)
    start = time.perf_counter()
    program, state = prepare(method, [model] * point.members, *table(point.rows), CHUNK)
    program.run(state, 0, 1)
    compiled = time.perf_counter() - start
    one = clock(lambda: program.run(state, 0, 2)[0]) / 2
    count = int(min(max(LONG_ENOUGH / one, 1), CHUNK))
    seconds = statistics.median(clock(lambda: program.run(state, 0, count)[0]) for _ in range(5))
    a_model_step = seconds / (count * point.members)
    source: Any = program.source

    def order() -> object:
        source.orders = None
        return source.batches(0)[2]

    order()
    epochs = CHUNK * BATCH // point.rows + 2
    ordering = statistics.median(clock(order) for _ in range(3)) / (epochs * point.members)
    arithmetic, rows = flops(engine, point.width), DRAWS[engine] * BATCH
    shapes = (point.members, rows, point.width), (point.members, point.width, point.width)
    rate = product_rate(*shapes, _times(shapes))
    return {
        "us_a_model_step": a_model_step * 1e6,
        "gflops": arithmetic / a_model_step / 1e9,
        "product_gflops": rate,
        "share": arithmetic / a_model_step / 1e9 / rate,
        # The order of the rows is made once an epoch.
        "us_of_ordering": ordering * BATCH / point.rows * 1e6,
        "seconds_to_start": compiled,
    }


def _times(shapes: tuple[tuple[int, ...], ...]) -> int:
    """As many products as take some ten milliseconds."""
    quick = jax.default_backend() != "cpu"
    each = 2 * float(np.prod(shapes[0])) * shapes[1][-1]
    return int(min(max(0.01 * (2e13 if quick else 5e10) / each, 2), 2000))


def copy_rate() -> float:
    """Gigabytes a second from the host's memory to the device."""
    values = np.ones(2**26, np.float32)
    clock(lambda: jax.device_put(values))
    return (
        values.nbytes
        / statistics.median(clock(lambda: jax.device_put(values)) for _ in range(5))
        / 1e9
    )


def write(part: str | None, content: dict[str, Any]) -> None:
    """Put this part of the results beside the others, those of other devices included."""
    if part is None:
        return
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    about = machine()
    results.setdefault(part, {})[about["device"]] = {**about, **content}
    FILE.write_text(json.dumps(results, indent=1) + "\n")


def one_device(lines: dict[str, list[Point]], part: str | None) -> None:
    """Each line of points by each engine, as far as the time goes."""
    begun = time.perf_counter()
    content: dict[str, Any] = {"gb_a_second_from_host": copy_rate(), "points": [], "left_out": []}
    # The ends of the lines first: if the time runs out, what is missing lies between.
    longest = max(map(len, lines.values()))
    order = [
        (name, line[place])
        for i in range(longest)
        for name, line in lines.items()
        for place in [{0: 0, 1: len(line) - 1}.get(i, i - 1)]
        if i < len(line)
    ]
    for name, point in order:
        for engine in DRAWS:
            if time.perf_counter() - begun > BUDGET:
                content["left_out"].append([name, engine, *point])
                continue
            entry = {"line": name, "engine": engine, **point._asdict(), **measure(engine, point)}
            content["points"].append(entry)
            write(part, content)
            print(
                f"{name:8} {engine:5} {point.members:5} {point.rows:9,} {point.width:5} "
                f"{entry['us_a_model_step']:10.2f} us {entry['share']:6.0%}", flush=True,
            )  # fmt: skip
    content["seconds"] = time.perf_counter() - begun
    write(part, content)


# What is spread over devices and processes: members, and rows of their table. Steps of a timing,
# and timings.
SPREAD_MEMBERS, ROWS_SPREAD, SPREAD_STEPS, REPETITIONS = 16, 10_000, 200, 7


def sends(text: str) -> int:
    """How many operations of a compiled program send anything."""
    kinds = ("all-reduce", "all-gather", "all-to-all", "collective-permute")
    return sum(text.count(f" {kind}(") for kind in kinds)


def prepare_spread(mesh: Any) -> tuple[Callable[[], Any], int]:
    """A function that trains some steps on a mesh, and how many operations in it send anything."""
    method, model = build(50, "em")
    models = [model] * SPREAD_MEMBERS
    program, state = prepare(method, models, *table(ROWS_SPREAD), SPREAD_STEPS, mesh)
    # Groups of members run by one program.
    lowered = program.program.lower(*program._arguments(state, 0, 1)[0])
    program.run(state, 0, 1)
    sent = sends(lowered.compile().compiled.as_text())
    return lambda: program.run(state, 0, SPREAD_STEPS)[0], sent


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Processor seconds of this process, and seconds on the clock."""
    before = time.process_time()
    waited = clock(run)
    return time.process_time() - before, waited


def over_host_devices() -> None:
    """Sixteen members on one, two and four host devices: processor time, and what is sent."""
    prepared = {num: prepare_spread(check_mesh(mesh_of(num))) for num in (1, 2, 4)}
    times: dict[int, list[tuple[float, float]]] = {num: [] for num in prepared}
    for _ in range(REPETITIONS):
        for num, (run, _) in prepared.items():
            times[num].append(timed(run))
    medians = {
        num: [statistics.median(each) for each in zip(*times[num], strict=True)] for num in prepared
    }
    steps = SPREAD_MEMBERS * SPREAD_STEPS
    figures = {
        num: {
            "processor_us_a_model_step": worked / steps * 1e6,
            "us_a_model_step": waited / steps * 1e6,
            "times_the_work_of_one": worked / medians[1][0],
            "times_as_fast_as_one": medians[1][1] / waited,
            "sent_along_members": prepared[num][1],
        }
        for num, (worked, waited) in medians.items()
    }
    write("members over host devices", {"members": SPREAD_MEMBERS, "devices": figures})
    for num, values in figures.items():
        print(num, {name: round(value, 3) for name, value in values.items()})


def over_processes() -> None:
    """The same over processes."""
    import scaling_processes

    scaling_processes.over_processes()


# Points at which less than 40% of the product's rate was measured, and their neighbours.
PROFILED = [
    ("em", Point(4, 10_000, 50)), ("em", Point(64, 10_000, 50)), ("em", Point(256, 10_000, 50)),
    ("noise", Point(1, 10_000, 50)), ("noise", Point(16, 10_000, 50)),
    ("noise", Point(64, 10_000, 50)), ("noise", Point(16, 10_000, 128)),
    ("noise", Point(16, 10_000, 512)),
]  # fmt: skip
# What a kernel does, by what its name contains; the first that fits counts.
KERNELS = {"products": ("gemm", "dot", "cublas"), "transposes": ("transpose",), "sums": ("reduce",)}


def kind_of_kernel(name: str) -> str:
    """What the kernel of this name does."""
    fits = (kind for kind, words in KERNELS.items() if any(word in name for word in words))
    return next(fits, "the rest")


def kernels(run: Callable[[], object]) -> list[tuple[str, float]]:
    """The names and microseconds of all kernels that a GPU runs meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(run())
        (file,) = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    names = {
        (event["name"], event["pid"], event.get("tid", 0)): event["args"]["name"]
        for event in events
        if event.get("name") in ("process_name", "thread_name")
    }
    return [
        (event["name"], event["dur"])
        for event in events
        if event.get("ph") == "X"
        and "GPU" in names.get(("process_name", event["pid"], 0), "")
        and "Stream" in names.get(("thread_name", event["pid"], event["tid"]), "")
    ]


def profile() -> None:
    """Microseconds of a step of all members at each point, by what they go to."""
    points = []
    for engine, point in PROFILED:
        method, model = build(point.width, engine)
        program, state = prepare(method, [model] * point.members, *table(point.rows), CHUNK)

        def run(program: Any = program, state: Any = state) -> object:
            return program.run(state, 0, CHUNK)[0]

        run()
        seconds = statistics.median(clock(run) for _ in range(5))
        met = kernels(run)
        spent = dict.fromkeys((*KERNELS, "the rest"), 0.0)
        for name, microseconds in met:
            spent[kind_of_kernel(name)] += microseconds / CHUNK
        points.append(
            {
                "engine": engine, **point._asdict(), "us_a_step": seconds / CHUNK * 1e6,
                "kernels_a_step": len(met) / CHUNK, "us": spent,
            }
        )  # fmt: skip
        write("profile", {"points": points})
        print(points[-1], flush=True)


def main() -> None:
    """The part that the command line names."""
    parts = {
        "members": over_host_devices,
        "processes": over_processes,
        "profile": profile,
        "one": lambda: one_device(LINES, "one device"),
        "tiny": lambda: one_device(TINY, None),
    }
    if len(sys.argv) != 2 or sys.argv[1] not in parts:
        sys.exit(f"python benchmarks/scaling.py {'|'.join(parts)}")
    parts[sys.argv[1]]()


if __name__ == "__main__":
    main()
