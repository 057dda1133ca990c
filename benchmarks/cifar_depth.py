"""Depth on images: residual networks on CIFAR-10, trained plainly and with parts taken out.

    python benchmarks/cifar_depth.py cifar10.npz FOLDER plain ard-add:0.25 add:1/13 plain/13
    python benchmarks/cifar_depth.py cifar10.npz FOLDER add:1/13 --teacher 56-plain-100

Trains ResNet-56 in each of these ways and leaves the networks in the folder. `plain` is training
without a prior. `add:1` selects under ADD at temperature 1 and trains on what is left; `/13` leaves
13 blocks at most. `add:1/13+ard:0.2` selects blocks and then channels. Every way has the same
number of epochs. With a teacher, a network of the folder, what is left learns from its outputs,
too. A selection that the folder has is not made again. It is for a GPU; cifar_cut.py cuts the
networks, tests them and writes the results.

The last 5,000 training images are not trained on: settings were chosen by them. cifar10.npz holds
JPEG files end to end (`read_images` in cifar_networks.py).
"""

import argparse
import dataclasses
import json
import time
import warnings
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from cifar_blocks import (
    channels_on,
    fewer_blocks,
    masked,
    masks_of,
    with_blocks,
    without_blocks,
)
from cifar_networks import Images, ResNet, read_images
from cifar_training import Course, select, train_plainly
from common import machine

import scalemix as sx

HELD_OUT, ROWS_AT_ONCE = 5000, 1000


def accuracy(network: Any, images: Images, at_once: int = ROWS_AT_ONCE) -> float:
    """The share of the images, in percent, that the network gets right."""
    right = 0
    for start in range(0, len(images.y), at_once):
        rows = slice(start, start + at_once)
        right += int(np.sum(np.asarray(classes(network, images.x[rows])) == images.y[rows]))
    return round(100 * right / len(images.y), 2)


@eqx.filter_jit
def classes(network: Any, x: Any) -> jax.Array:
    """The class that a network gives each image."""
    return jnp.argmax(jax.vmap(network)(x), axis=-1)


class Data:
    """The images that are trained on, and those that settings are chosen by."""

    def __init__(self, cifar: str):
        full = read_images(cifar, "train")
        self.train = Images(full.x[:-HELD_OUT], full.y[:-HELD_OUT])
        self.held_out = Images(full.x[-HELD_OUT:], full.y[-HELD_OUT:])


def start(depth: int, seed: int = 0) -> ResNet:
    """A network before training."""
    return eqx.filter_jit(lambda key: ResNet((depth - 2) // 6, key=key))(jax.random.key(seed))


def run(
    folder: Path, depth: int, parts: list[str], course: Course, data: Data, teacher: str | None
) -> None:
    """Train the parts of one depth, and leave networks and numbers in the folder."""
    taught_by = load(folder / f"{teacher}.eqx", depth) if teacher else None
    for part in parts:
        begin = time.perf_counter()
        network, selections = start(depth, course.seed), []
        steps = [] if part == "plain" else part.split("+")
        for i, step in enumerate(steps):
            how, _, most = step.partition("/")
            file = folder / (named(depth, "+".join([*steps[:i], how]), course) + "-selected")
            network, selection = selected(file, network, how, depth, course, data)
            if most:
                network = fewer_blocks(network, data.train, int(most))
                selection |= {"most_blocks": int(most), "then": described(network, data)}
            selections.append(selection)
        epochs = course.total_epochs - len(steps) * course.epochs
        network = train_plainly(network, data.train, epochs, course, taught_by)
        result = {
            "depth": depth, "part": part, "teacher": teacher, "selections": selections,
            "refit": described(network, data),
            "seconds": round(time.perf_counter() - begin, 1),
            "course": dataclasses.asdict(course), **machine(),
        }  # fmt: skip
        name = f"{named(depth, part, course)}{'-taught' * bool(teacher)}-{course.total_epochs}"
        keep(folder / name, result, network)


def selected(
    file: Path, network: ResNet, how: str, depth: int, course: Course, data: Data
) -> tuple[ResNet, dict[str, Any]]:
    """The network after one fit that selects, and what it did; from the file if that is there."""
    if Path(f"{file}.json").exists():
        return load(Path(f"{file}.eqx"), depth), json.loads(Path(f"{file}.json").read_text())
    begin = time.perf_counter()
    structure, _, temperature = how.partition(":")
    if structure == "plain":
        network = train_plainly(network, data.train, course.epochs, course)
    else:
        small = without_blocks(network)
        post = select(small, data.train, structure, float(temperature), course)
        small = post.model.network.wrapped_network
        on = [new & old for new, old in zip(channels_on(post), masks_of(small), strict=True)]
        network = with_blocks(network, masked(small, on))
    result = described(network, data) | {
        "how": how, "seconds": round(time.perf_counter() - begin, 1)
    }  # fmt: skip
    keep(file, result, network)
    return network, result


def described(network: ResNet, data: Data) -> dict[str, Any]:
    """The channels of each block that are on, and the accuracy."""
    left = [int(mask.sum()) for mask in masks_of(network)]
    return {"left": left, "validation": accuracy(network, data.held_out)}


def named(depth: int, part: str, course: Course) -> str:
    """The name of the files of a part, without marks that file systems know."""
    for mark, letter in {":": "-", "/": "-", "+": "_"}.items():
        part = part.replace(mark, letter)
    return f"{depth}-{part}" + (f"-seed-{course.seed}" if course.seed else "")


def keep(file: Path, result: dict[str, Any], network: ResNet) -> None:
    """Write the numbers and the network of one part, masks and all."""
    print(json.dumps(result), flush=True)
    eqx.tree_serialise_leaves(f"{file}.eqx", masked(network, masks_of(network)))
    Path(f"{file}.json").write_text(json.dumps(result))


def load(file: Path, depth: int) -> ResNet:
    """A network that `keep` wrote."""
    network = start(depth)
    return eqx.tree_deserialise_leaves(file, masked(network, masks_of(network)))


def main() -> None:
    """Train what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cifar")
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="+")
    parser.add_argument("--depth", type=int, default=56)
    parser.add_argument("--epochs", type=int, default=Course.total_epochs)
    parser.add_argument("--selecting", type=int, default=Course.epochs)
    parser.add_argument("--teacher")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    course = Course(epochs=given.selecting, total_epochs=given.epochs, seed=given.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sx.UselessFitWarning)
        data = Data(given.cifar)
        run(given.folder, given.depth, given.parts, course, data, given.teacher)


if __name__ == "__main__":
    main()
