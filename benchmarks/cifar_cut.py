"""Networks of cifar_depth.py without what is off, measured on one core.

python benchmarks/cifar_cut.py cut cifar10.npz FOLDER     # adds to results/cifar_depth.json
python benchmarks/cifar_cut.py time                       # times networks of these shapes
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
from cifar_blocks import blocks_of, masks_of
from cifar_depth import accuracy, classes, load
from cifar_networks import CLASSES, SIDE, WIDTHS, Block, ResNet, StandardConv, conv, read_images
from cifar_training import Course
from common import HERE, RESULTS, write_table

import scalemix as sx
from scalemix.data.scaling import Scaling
from scalemix.networks.cutting.counting import multiply_adds
from scalemix.networks.cutting.graph import Trace
from scalemix.posterior.history import History

FILE = RESULTS / "cifar_depth.json"
DOCS = HERE.parent / "docs"
COMPARED, TIMED, TURNS = 100, 100, 9
# The first networks had so many epochs, and a refit at half the rate.
EARLIER = 50
REFERENCE, WANTED = "56-plain-100", 0.3
STRUCTURES = {"plain": "plain", "ard": "ARD", "add": "ADD", "ard-add": "ARD-ADD"}


def cut(cifar: str, folder: Path) -> None:
    """Take what is off out of the networks of a folder, compare, test, and keep the numbers."""
    images, test = read_images(cifar, "train", COMPARED), read_images(cifar, "test")
    known = json.loads(FILE.read_text())["parts"] if FILE.exists() else []
    results = []
    files = [file for file in folder.glob("*.json") if not file.stem.endswith("-selected")]
    for file in sorted(files):
        result = {"name": file.stem, **json.loads(file.read_text())}
        network = load(file.with_suffix(".eqx"), result["depth"])
        if result["part"] == "plain":
            small, result["notes"] = unmasked(network), []
        else:
            small, result["notes"] = without_zeros(network, images.x[0])
        wanted, given = (jax.vmap(each)(jnp.asarray(images.x)) for each in (network, small))
        np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-3)
        result["refit"]["test"] = accuracy(small, test, TIMED)
        results.append(result | size(small, images.x[0]))
        print(json.dumps(results[-1]), flush=True)
    names = {result["name"] for result in results}
    others = [part for part in known if part["name"] not in names]
    FILE.write_text(json.dumps({"parts": others + results}, indent=1) + "\n")


def measure() -> None:
    """Time networks of the shapes in the results, all in one run: only so can they be compared.

    The time of a network does not depend on its weights, so these are new.
    """
    parts = json.loads(FILE.read_text())["parts"]
    x = np.random.default_rng(0).normal(size=(TIMED, 3, SIDE, SIDE)).astype(np.float32)
    networks = [of_shape(part["channels"]) for part in parts]
    for part, network in zip(parts, networks, strict=True):
        assert size(network, x[0]).items() <= part.items(), part["name"]
    for part, least in zip(parts, microseconds(networks, x), strict=True):
        part["microseconds"] = least
    FILE.write_text(json.dumps({"parts": parts}, indent=1) + "\n")


def of_shape(channels: list[list[int]]) -> ResNet:
    """A network with so many channels between the convolutions of each block of each stage."""
    network = ResNet(1, key=jax.random.key(0))
    stages = []
    for width, stage in zip(WIDTHS, channels, strict=True):
        stages.append([Block(width, 1.0, key=jax.random.key(0)) for _ in stage])
        for i, num in enumerate(stage):
            key = jax.random.key(i)
            layers = (
                conv(StandardConv, width, num, key=key),
                conv(eqx.nn.Conv2d, num, width, use_bias=False, key=key),
            )
            stages[-1][i] = eqx.tree_at(lambda b: (b.first, b.second), stages[-1][i], layers)
    return eqx.tree_at(lambda net: net.stages, network, stages)


def unmasked(network: ResNet) -> ResNet:
    """The network without its masks."""
    return eqx.tree_at(
        lambda net: [block.on for block in blocks_of(net)], network,
        [None] * len(blocks_of(network)),
    )  # fmt: skip


def without_zeros(network: ResNet, example: np.ndarray) -> tuple[ResNet, list[str]]:
    """The network without what its masks leave out, by `Posterior.prune`; and what that says."""

    def seconds(net: ResNet) -> list[Any]:
        return [block.second.weight for block in blocks_of(net)]

    zeroed = [
        jnp.where(mask[:, None, None], w, 0)
        for mask, w in zip(masks_of(network), seconds(network), strict=True)
    ]
    network = unmasked(eqx.tree_at(seconds, network, zeroed))
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
    """The tables and the picture of docs/depth.md."""
    parts = json.loads(FILE.read_text())["parts"]
    parts.sort(key=lambda part: (part["course"]["total_epochs"], -part["parameters"]))
    head = ("how", "blocks", "channels", "parameters", "multiply-adds",
            "ms an image", "validation %", "test %")  # fmt: skip
    earlier = [part for part in parts if part["course"]["total_epochs"] == EARLIER]
    later = [part for part in parts if part not in earlier]
    for name, shown in (("earlier results", earlier), ("results", later)):
        write_table(name, [row(part) for part in shown], head, DOCS / "depth.md")
    draw(earlier, later)


def row(part: dict[str, Any]) -> tuple[str, ...]:
    """What the tables say of one network."""
    return (
        label(part), f"{sum(part['blocks'])}", f"{sum(map(sum, part['channels']))}",
        f"{part['parameters']:,}", f"{part['multiply_adds'] / 1e6:.0f} million",
        f"{part['microseconds'] / 1e3:.1f}" if "microseconds" in part else "",
        *(f"{part['refit'][of]:.2f}" for of in ("validation", "test")),
    )  # fmt: skip


def label(part: dict[str, Any]) -> str:
    """How a network came about, in words."""
    words = []
    for step in part["part"].split("+"):
        how, _, most = step.partition("/")
        structure, _, temperature = how.partition(":")
        at = f" at {temperature}" if temperature else ""
        words.append(STRUCTURES[structure] + at + (f", {most} blocks" if most else ""))
    text = ", then ".join(words) + ", taught" * bool(part.get("teacher"))
    epochs = part["course"]["total_epochs"]
    text += f", {epochs} epochs" if epochs not in (EARLIER, Course.total_epochs) else ""
    return text + (f" (ResNet-{part['depth']})" if part["depth"] != 56 else "")


def draw(earlier: list[dict[str, Any]], later: list[dict[str, Any]]) -> None:
    """Accuracy against blocks left, and the channels that are left in each block."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for place, part in enumerate(sorted(later, key=lambda part: -part["refit"]["validation"])):
        left.plot(
            sum(part["blocks"]), part["refit"]["validation"], "os"[bool(part.get("teacher"))],
            color=f"C{place % 10}", mfc=None if place < 10 else "white", label=label(part),
        )  # fmt: skip
    plain = next(part for part in later if part["name"] == REFERENCE)["refit"]["validation"]
    left.axhline(plain - WANTED, color="grey", lw=0.8, ls="--")
    left.text(27, plain - WANTED - 0.08, "wanted", color="grey", va="top")
    left.set(xlabel="blocks left", ylabel="validation accuracy, %", xlim=(28, 4))
    left.legend(frameon=False, fontsize=7, loc="lower left")
    # In a network that learns from another the channels are as its selection left them.
    selected = [part for part in later if "+" in part["part"]]
    for part in [part for part in earlier if part["part"] != "plain"] + selected:
        widths = np.repeat([16, 32, 64], len(part["refit"]["left"]) // 3)
        right.plot(
            1 + np.arange(len(widths)), part["refit"]["left"] / widths, "o-", ms=3,
            label=label(part),
        )  # fmt: skip
    right.set(xlabel="block", ylabel="share of its channels on", ylim=(0, 1.3))
    right.set_yticks(np.linspace(0, 1, 6))
    right.legend(frameon=False, fontsize=7, loc="upper right", ncols=2)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "images" / "cifar_depth.png", dpi=110)


def main() -> None:
    """Cut and measure, or write the page."""
    match sys.argv[1:]:
        case ["cut", cifar, folder]:
            cut(cifar, Path(folder))
        case ["time"]:
            measure()
        case ["table"]:
            write_page()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
