"""Bayesian compression on MNIST: how few weights LeNet-5 and LeNet-300-100 need, and at what error.

    python benchmarks/mnist_compression.py mnist.npz       # all of it: five minutes on a GPU
    python benchmarks/mnist_compression.py mnist.npz cpu   # one seed, fewer steps: for a CPU
    python benchmarks/mnist_compression.py time            # the small networks on one core
    python benchmarks/mnist_compression.py table           # docs/compression.md from the results

The first writes results/compression.json, and the networks of the first seed beside it; `cpu` only
prints. `scalemix reproduce compression` runs the same code. Settings were chosen on the last 10,000
training rows (docs/compression.md says how); test rows are looked at after the last step, and
decide nothing. (A file named compression.py would stand in the way of Python's own module.)
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

if sys.argv[1:] == ["time"]:
    # Before JAX starts: one core, one thread.
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from common import HERE, RESULTS

from scalemix.reproduce.compression import PLANS, compress
from scalemix.reproduce.compression.figures import draw
from scalemix.reproduce.compression.networks import NETWORKS, SIDE, Network, with_convolutions
from scalemix.reproduce.compression.small import read_small
from scalemix.reproduce.compression.tables import HEAD, results_table

FILE, SMALL = RESULTS / "compression.json", RESULTS / "compression.npz"
DOCS = HERE.parent / "docs"
TIMED_IMAGES, TIMED_RUNS = 1000, 25


def measure(network: Network) -> dict[str, float]:
    """Parameters, biases among them, and microseconds an image in batches of a thousand.

    The time is that of the processor, which other work on the machine does not lengthen.
    """
    # XLA's own convolutions are quicker where there is one network.
    network = with_convolutions(network, eqx.nn.Conv2d)
    run = eqx.filter_jit(lambda network, x: jax.vmap(network)(x))
    images = np.random.default_rng(0).random((TIMED_IMAGES, SIDE, SIDE), np.float32)
    x = jnp.asarray(images)
    jax.block_until_ready(run(network, x))
    times = []
    for _ in range(TIMED_RUNS):
        start = time.process_time()
        jax.block_until_ready(run(network, x))
        times.append(time.process_time() - start)
    parameters = jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
    return {
        "parameters": sum(leaf.size for leaf in parameters),
        "microseconds": round(1e6 * float(np.median(times)) / TIMED_IMAGES, 2),
    }


def measure_all() -> None:
    """Add sizes and times of the first seed's networks, and of the whole ones, to the results."""
    results = json.loads(FILE.read_text())
    for name, networks in read_small(SMALL).items():
        measured = {"whole": measure(NETWORKS[name](key=jax.random.key(0)))}
        measured |= {temperature: measure(small) for temperature, (small, _) in networks.items()}
        results["networks"][name]["measured"] = measured
        print(name, measured)
    FILE.write_text(json.dumps(results, indent=1) + "\n")


def measured_table(name: str, results: dict) -> list[tuple[str, ...]]:
    """The first seed's networks: what they have, what they cost."""
    whole = NETWORKS[name].count(
        {site: np.ones(size, bool) for site, size in NETWORKS[name].num_rows.items()}
    )
    rows = []
    for which, numbers in results["measured"].items():
        fits = [f for f in results["fits"] if f"{f['temperature']:g}" == which and f["seed"] == 0]
        shape, work = (
            (fits[0]["shape"], fits[0]["multiply_adds"])
            if fits
            else (whole.shape, whole.multiply_adds)
        )
        rows.append(
            (
                which, shape, f"{numbers['parameters']:,}", f"{work:,}",
                f"{numbers['microseconds']:.1f}",
            )
        )  # fmt: skip
    return rows


def teachers_table(results: dict) -> list[tuple[str, ...]]:
    """What the teachers of the refit err by."""
    rows = []
    for name, of_network in results["teachers"].items():
        each, together = of_network["each"], of_network["together"]
        rows.append((name, f"{min(each):.2f} to {max(each):.2f}", f"{together:.2f}"))
    return rows


def write_page() -> None:
    """Tables and pictures of docs/compression.md."""
    results = json.loads(FILE.read_text())
    page = DOCS / "compression.md"
    text = page.read_text()
    for name, of_network in results["networks"].items():
        head = ("temperature", "units", "parameters", "multiply-adds", "microseconds an image")
        text = _between(text, name, HEAD, results_table(name, of_network))
        text = _between(text, f"{name}, measured", head, measured_table(name, of_network))
    head = ("teachers", "error % of each", "of their mean")
    page.write_text(_between(text, "teachers", head, teachers_table(results)))
    with tempfile.TemporaryDirectory() as folder:
        draw(results, folder)
        for picture in ("compression.png", "pixels.png"):
            (DOCS / "images" / picture).write_bytes((Path(folder) / picture).read_bytes())


def _between(text: str, name: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, rest = text.split(begin)
    table = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    table += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([before + begin, *table, end + rest.split(end)[1]])


def main() -> None:
    """Run, time or write the page."""
    match sys.argv[1:]:
        case ["time"]:
            measure_all()
        case ["table"]:
            write_page()
        case [images]:
            compress(PLANS["full"], images, RESULTS)
        case [images, plan]:
            with tempfile.TemporaryDirectory() as folder:
                compress(PLANS[plan], images, folder)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
