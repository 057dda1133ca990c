"""Networks of cifar_depth.py without what is off, measured on one core.

python benchmarks/cifar_cut.py cut cifar10.npz FOLDER     # adds to results/cifar_depth.json
python benchmarks/cifar_cut.py curve cifar10.npz FOLDER   # adds what is left with fewer blocks
python benchmarks/cifar_cut.py table                      # docs/depth.md from the results
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Before JAX starts: one core, one thread.
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from cifar_depth import HELD_OUT, ROWS_AT_ONCE, accuracy, classes, load, masked
from cifar_networks import CLASSES, Images, ResNet, read_images
from common import HERE, RESULTS

import scalemix as sx
from scalemix.data.scaling import Scaling
from scalemix.networks.cutting.counting import multiply_adds
from scalemix.networks.cutting.graph import Trace
from scalemix.posterior.history import History

FILE = RESULTS / "cifar_depth.json"
DOCS = HERE.parent / "docs"
COMPARED, TIMED, TURNS = 100, 100, 9


def cut(cifar: str, folder: Path) -> None:
    """Take what is off out of the networks of a folder, compare, measure, and keep the numbers."""
    images = read_images(cifar, "train", COMPARED)
    results, networks = [], []
    for file in sorted(folder.glob("*.json")):
        result = {"name": file.stem, **json.loads(file.read_text())}
        plain = result["temperature"] is None
        network = load(file.with_suffix(".eqx"), result["depth"], masks=not plain)
        if plain:
            small, result["notes"] = network, []
        else:
            small, result["notes"] = without_zeros(network, images.x[0])
        wanted, given = (jax.vmap(each)(jnp.asarray(images.x)) for each in (network, small))
        np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-3)
        results.append(result | size(small, images.x[0]))
        networks.append(small)
        print(file.stem, results[-1], flush=True)
    names = {result["name"] for result in results}
    known = json.loads(FILE.read_text())["parts"] if FILE.exists() else []
    others = [part for part in known if part["name"] not in names]
    if not others:
        # Times say something only beside one another.
        for result, least in zip(results, microseconds(networks, images.x), strict=True):
            result["microseconds"] = least
    FILE.write_text(json.dumps({"parts": others + results}, indent=1) + "\n")


def curve(cifar: str, folder: Path) -> None:
    """Add to the results what is left of the accuracy as blocks go, without any training after.

    Those go first that the fit left the smallest share of their channels.
    """
    full = read_images(cifar, "train")
    held_out = Images(full.x[-HELD_OUT:][:ROWS_AT_ONCE], full.y[-HELD_OUT:][:ROWS_AT_ONCE])
    results = json.loads(FILE.read_text())
    for part in results["parts"]:
        file = folder / f"{part['name']}.eqx"
        if part["temperature"] is None or not file.exists():
            continue
        network = load(file, part["depth"], masks=True)
        masks = [np.asarray(block.on) for stage in network.stages for block in stage]
        order = np.argsort([mask.mean() for mask in masks], kind="stable")
        part["fewer_blocks"] = []
        for gone in range(0, len(masks), 2):
            on = [mask & (i not in order[:gone]) for i, mask in enumerate(masks)]
            left = sum(bool(mask.any()) for mask in on)
            part["fewer_blocks"].append((left, accuracy(masked(network, on), held_out)))
        print(part["name"], part["fewer_blocks"], flush=True)
        FILE.write_text(json.dumps(results, indent=1) + "\n")


def without_zeros(network: ResNet, example: np.ndarray) -> tuple[ResNet, list[str]]:
    """The network without what its masks leave out, by `Posterior.prune`; and what that says."""
    on: list[Any] = [block.on for stage in network.stages for block in stage]

    def seconds(net: ResNet) -> list[Any]:
        return [block.second.weight for stage in net.stages for block in stage]

    zeroed = [
        jnp.where(mask[:, None, None], w, 0) for mask, w in zip(on, seconds(network), strict=True)
    ]
    network = eqx.tree_at(seconds, network, zeroed)
    network = eqx.tree_at(
        lambda net: [block.on for stage in net.stages for block in stage], network,
        [None] * len(on),
    )  # fmt: skip
    prior = {"stages.*.second": sx.ARD(sx.HalfCauchy(1.0))}
    model = sx.Model(network, prior, sx.likelihoods.Categorical(CLASSES), example=example)
    # All that is left is certain, so that nothing else goes.
    deviations = {name: jnp.full_like(weight, 1e-9) for name, weight in model.weights.items()}
    variances = {
        name: {group: jnp.ones(shape) for group, shape in groups.items()}
        for name, groups in model.scale_shapes.items()
    }
    networks = sx.posterior.networks.GaussianNetworks(model, deviations, variances)
    unscaled = Scaling(np.zeros(0), np.ones(0), 0.0, 1.0)
    history = History(np.zeros(0), np.zeros(0), {})
    pruned = sx.Posterior(networks, unscaled, history, jax.random.key(0)).prune()
    return pruned.network, list(pruned.report.notes)


def size(network: ResNet, example: np.ndarray) -> dict[str, Any]:
    """Blocks, the channels within them, parameters and multiply-adds of a network."""
    leaves = jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
    trace = Trace(lambda net, x: net(x), network, jnp.asarray(example))
    return {
        "blocks": [len(stage) for stage in network.stages],
        "channels": [[block.first.out_channels for block in stage] for stage in network.stages],
        "parameters": sum(leaf.size for leaf in leaves),
        "multiply_adds": multiply_adds(trace),
    }


def microseconds(networks: list[ResNet], x: np.ndarray) -> list[int]:
    """The time of the processor that each network takes for an image, the least of some batches.

    The networks take turns, so that disturbances are shared.
    """
    images = jnp.asarray(x[:TIMED])
    times = []
    for turn in range(1 + TURNS):
        of_turn = []
        for network in networks:
            begin = time.process_time()
            jax.block_until_ready(classes(network, images))
            of_turn.append(time.process_time() - begin)
        # The first turn compiles.
        times += [of_turn] if turn else []
    return [round(1e6 * seconds / TIMED) for seconds in np.min(times, axis=0)]


def write_page() -> None:
    """The table and the picture of docs/depth.md."""
    parts = json.loads(FILE.read_text())["parts"]
    parts.sort(key=lambda part: -1 if part["temperature"] is None else part["temperature"])
    head = ("temperature", "blocks", "channels", "parameters", "multiply-adds",
            "ms an image", "validation %", "test %")  # fmt: skip
    rows = []
    for part in parts:
        channels = sum(map(sum, part["channels"]))
        rows.append(
            (
                _label(part), f"{sum(part['blocks'])}", f"{channels}", f"{part['parameters']:,}",
                f"{part['multiply_adds'] / 1e6:.0f} million",
                f"{part['microseconds'] / 1e3:.1f}" if "microseconds" in part else "",
                *(f"{part['refit'][of]:.2f}" for of in ("validation", "test")),
            )
        )  # fmt: skip
    page = DOCS / "depth.md"
    begin, end = "<!-- begin results -->", "<!-- end results -->"
    before, rest = page.read_text().split(begin)
    table = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    table += [f"| {' | '.join(row)} |" for row in rows]
    page.write_text("\n".join([before + begin, *table, end + rest.split(end)[1]]))
    draw(parts)


def _label(part: dict[str, Any]) -> str:
    """The temperature, and the structure unless it is ARD-ADD."""
    name = part["name"].partition("-")[2]
    return name.replace("add-", "ADD alone, ")


def draw(parts: list[dict[str, Any]]) -> None:
    """Accuracy as blocks go, and the channels that are left in each block."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
    for place, part in enumerate(part for part in parts if part["temperature"] is not None):
        *structure, temperature = _label(part).rpartition(", ")
        label, colour = f"{''.join(structure)}T = {temperature}", f"C{place}"
        # Without a curve of its own it is a point: what is left, after the refit.
        points = part.get("fewer_blocks", [(sum(part["blocks"]), part["refit"]["validation"])])
        left.plot(*zip(*points, strict=True), "o-", ms=3, color=colour, label=label)
        widths = np.repeat([16, 32, 64], len(part["left"]) // 3)
        right.plot(1 + np.arange(len(widths)), part["left"] / widths, "o-", ms=3, color=colour)
    left.set(xlabel="blocks left, the others taken out", ylabel="validation accuracy, %")
    left.invert_xaxis()
    left.legend(frameon=False)
    right.set(xlabel="block", ylabel="share of its channels on", ylim=(0, 1.05))
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images" / "cifar_depth.png", dpi=110)


def main() -> None:
    """Cut, measure or write the page."""
    match sys.argv[1:]:
        case ["cut", cifar, folder]:
            cut(cifar, Path(folder))
        case ["curve", cifar, folder]:
            curve(cifar, Path(folder))
        case ["table"]:
            write_page()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
