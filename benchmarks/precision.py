"""What products with fewer digits cost in accuracy, and what they gain in time.

Three ways to multiply: in single precision, in TF32 (JAX's default on the GPUs that have it: ten
bits of each factor, sums in single precision), and in bfloat16 throughout the network
(`sx.networks.compute_in`; weights, scales and the optimiser stay in single precision).

*Accuracy*: five splits of UCI sets, ensembles of four residual networks of width 50, by variational
EM and by noise training, from the same keys. The differences between ways are set beside those
between two sets of keys in single precision, which are chance. *Time*: a model-step of sixteen
networks, by width, each way in turn (the sizes of `scaling.py`).

    python benchmarks/precision.py accuracy [SET ...]    # writes results/precision.json as it goes
    python benchmarks/precision.py times                 # on an accelerator
    python benchmarks/precision.py merge FILE ...        # adds what another machine measured
    python benchmarks/precision.py page                  # puts what is there into docs/scaling.md

PRECISION_RESULTS in the environment is another file to write, such as one for each of several sets
that are measured at a time.

A processor multiplies in single precision where TF32 is asked for, so that it is left out there.
Products in bfloat16 have the same digits on a processor, though they are slow.
"""

import contextlib
import json
import os
import statistics
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import scaling
from common import HERE, RESULTS, alternate, clock, machine, prepare, write_table

import scalemix as sx

FILE = Path(os.environ.get("PRECISION_RESULTS", RESULTS / "precision.json"))
PAGE = HERE.parent / "docs" / "scaling.md"
WAYS = {"single": "highest", "TF32": "default", "bfloat16": "highest"}
SETS = ("boston", "concrete", "energy", "kin8nm", "wine", "yacht")
SPLITS, MEMBERS, STEPS, BATCH = 5, 4, 4000, 64
WIDTHS, TIMED_MEMBERS, REPETITIONS = (50, 512, 2048), 16, 5
AGAIN = "single, other keys"
ENGINES = {"em": "EM", "noise": "noise"}


@contextlib.contextmanager
def multiplying(way: str):
    """Products in this way."""
    before = jax.config.jax_default_matmul_precision
    jax.config.update("jax_default_matmul_precision", WAYS[way])
    try:
        yield
    finally:
        jax.config.update("jax_default_matmul_precision", before)


def computing(way: str, network):
    """The network, computing in this way."""
    return sx.networks.compute_in(network, jnp.bfloat16) if way == "bfloat16" else network


def method_and_prior(engine: str, **settings):
    """An engine, and a prior that suits it."""
    if engine == "em":
        return sx.VariationalEM(**settings), sx.ARD(sx.InverseGamma(3.0, 3.0))
    method = sx.NoiseTraining("tail_adaptive", num_draws=10, **settings)
    return method, sx.ARD(sx.Bernoulli(0.99))


def accuracy(name: str, engine: str, way: str, seed: int) -> dict[str, list[float]]:
    """RMSE, in deviations of the target, and log-likelihood on each split."""
    data, splits = sx.data.load(name), sx.data.splits(len(sx.data.load(name).y))[:SPLITS]
    method, prior = method_and_prior(
        engine, steps=STEPS, batch_size=BATCH, num_members=MEMBERS, learning_rate=1e-2
    )
    with multiplying(way):
        keys = jax.random.split(jax.random.key(seed), SPLITS)
        models = [
            sx.Model(
                computing(way, sx.networks.ResNet(data.x.shape[1], 2, 50, 2, key=key)),
                prior,
                sx.likelihoods.Gaussian(per_input=True),
            )
            for key in keys
        ]
        posts = sx.fit_many(
            models,
            [data.x[train] for train, _ in splits],
            [data.y[train] for train, _ in splits],
            method,
            keys=keys,
            progress=False,
        )
        figures: dict[str, list[float]] = {"rmse": [], "log_likelihood": []}
        for post, (train, test) in zip(posts, splits, strict=True):
            says, unit = post.predict(data.x[test]), data.y[train].std()
            figures["rmse"].append(float(sx.metrics.rmse(data.y[test], says.mean) / unit))
            figures["log_likelihood"].append(
                float(np.mean(says.log_prob(data.y[test])) + np.log(unit))
            )
    return figures


def times(engine: str, width: int) -> dict[str, float]:
    """Microseconds a model-step of each way, taken in turn."""
    count = scaling.CHUNK if width < 2048 else 20
    runs = {}
    for way in WAYS:
        with multiplying(way):
            method, model = scaling.build(width, engine, partial(computing, way))
            models = [model] * TIMED_MEMBERS
            program, state = prepare(method, models, *scaling.table(10_000), scaling.CHUNK)
            program.run(state, 0, 1)
        # A setting is part of what a program is looked up by.
        runs[way] = in_way(way, lambda program=program, state=state: clock(
            lambda: program.run(state, 0, count)[0]
        ))  # fmt: skip
    seconds = alternate(runs, REPETITIONS)
    return {way: 1e6 * value / (count * TIMED_MEMBERS) for way, value in seconds.items()}


def in_way(way: str, run):
    """The run with products in this way."""

    def inside() -> float:
        with multiplying(way):
            return run()

    return inside


def ways() -> list[str]:
    """Those that differ on this machine."""
    return [way for way in WAYS if way != "TF32" or jax.default_backend() != "cpu"]


def measure(part: str, names: Sequence[str] = SETS) -> None:
    """One part of it, written as it goes."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    about, entries = machine(), []
    results.setdefault(part, {})[about["device"]] = {**about, "entries": entries}

    def note(entry: dict) -> None:
        entries.append(entry)
        FILE.write_text(json.dumps(results, indent=1) + "\n")
        print(entry, flush=True)

    for engine in ENGINES:
        if part == "times":
            for width in WIDTHS:
                note({"engine": engine, "width": width, **times(engine, width)})
            continue
        for name in names:
            for case, (way, seed) in cases().items():
                figures = accuracy(name, engine, way, seed)
                note({"set": name, "engine": engine, "way": case, **figures})


def merge(paths: Sequence[str]) -> None:
    """What other files have of devices, in place of what this one has of them."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    new: dict[str, dict] = {}
    for path in paths:
        for part, devices in json.loads(Path(path).read_text()).items():
            for device, content in devices.items():
                mine = new.setdefault(part, {}).setdefault(device, {**content, "entries": []})
                mine["entries"] += content["entries"]
    for part, devices in new.items():
        results[part] = results.get(part, {}) | devices
    FILE.write_text(json.dumps(results, indent=1) + "\n")


def cases() -> dict[str, tuple[str, int]]:
    """What is fitted: a way to multiply, and the seed of all keys."""
    return {way: (way, 0) for way in ways()} | {AGAIN: ("single", 1)}


def page() -> None:
    """Tables of what was measured."""
    results = json.loads(FILE.read_text())
    for content in results.get("times", {}).values():
        rows = [
            (
                ENGINES[entry["engine"]],
                f"{entry['width']:,}",
                *(f"{entry[way]:.1f}" for way in WAYS),
            )
            for entry in content["entries"]
        ]
        head = ("engine", "width", *(f"{way}, microseconds" for way in WAYS))
        write_table("precision times", rows, head, PAGE)
    for device, content in results["accuracy"].items():
        where = "precision accuracy" if device == "cpu" else "precision accuracy, accelerator"
        write_table(where, *table_of(content["entries"]), PAGE)


def table_of(entries: list[dict]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The accuracy of all ways beside that of single precision, by set and engine."""
    by = {(e["engine"], e["set"], e["way"]): e for e in entries}
    others = list(dict.fromkeys(e["way"] for e in entries if e["way"] != "single"))
    rows = []
    for engine, name in sorted({(e["engine"], e["set"]) for e in entries}):
        base, *rest = (by[engine, name, way] for way in ("single", *others))
        rmse = statistics.mean(base["rmse"])
        worse = [100 * (statistics.mean(other["rmse"]) / rmse - 1) for other in rest]
        gains = [np.subtract(one["log_likelihood"], base["log_likelihood"]) for one in rest]
        rows.append((
            ENGINES[engine], name, f"{rmse:.3f}", *(f"{percent:+.1f}%" for percent in worse),
            f"{statistics.mean(base['log_likelihood']):.2f}",
            *(f"{gain.mean():+.3f}" for gain in gains),
        ))  # fmt: skip
    head = ("engine", "set", "RMSE, single", *others, "log-likelihood, single", *others)
    return rows, head


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["times"]:
            measure("times")
        case ["accuracy", *names] if set(names) <= set(SETS):
            measure("accuracy", names or SETS)
        case ["merge", *paths]:
            merge(paths)
        case ["page"]:
            page()
        case _:
            sys.exit(__doc__)
