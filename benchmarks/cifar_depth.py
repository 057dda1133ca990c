"""Depth on images: residual networks on CIFAR-10, trained plainly and under ARD-ADD.

    python benchmarks/cifar_depth.py run cifar10.npz FOLDER 56 plain 0.5 1.5 4
    python benchmarks/cifar_depth.py thin cifar10.npz FOLDER 56 0.5 4 13

`run` trains a network of this depth plainly and at the temperatures that are named, and leaves the
networks in the folder; `add:4` in place of a temperature is one under ADD alone. `thin` keeps 13
blocks of the network at .5, by what the fit at 4 left of them, and trains it on. Both are for a
GPU. cifar_cut.py cuts the networks and writes the results.

The last 5,000 training images are not trained on: settings were chosen by them. cifar10.npz holds
JPEG files end to end (`read_images` in cifar_networks.py).
"""

import dataclasses
import functools
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from cifar_networks import CLASSES, Images, ResNet, on_moved_images, read_images
from common import machine

import scalemix as sx
from scalemix.posterior.relevance_rule import measure_layers

HELD_OUT, ROWS_AT_ONCE, BATCH = 5000, 1000, 256
# Noise that is always one, without a penalty: training by maximum likelihood.
PLAIN = sx.ARD(sx.Bernoulli(1.0), scale=float("inf"))
SELECTING: dict[str, sx.ADD | sx.ARDADD] = {
    "ard-add": sx.ARDADD(sx.HalfCauchy(1.0)),
    "add": sx.ADD(sx.HalfCauchy(1.0)),
}
THRESHOLD = 0.01


@dataclasses.dataclass(frozen=True)
class Course:
    """How long and at what rates networks are trained."""

    epochs: int = 20
    """Of the fit that selects."""
    refit_epochs: int = 30
    """Of what is left. Plain training has as many epochs as both together."""
    rate: float = 0.3
    refit_rate: float = 0.15
    selected_rate: float = 3e-3
    """Adam's, of the weights under the prior."""
    deviation_rate: float = 1e-2
    """Adam's, of the logarithms of their deviations."""
    decay: float = 5e-4
    warm_up: float = 0.6
    """The share of the steps over which the temperature rises."""


def model_of(network: Any, prior: Any, example: np.ndarray) -> sx.Model:
    """The model of a network that sees moved images in training and computes in bfloat16."""
    called = sx.networks.compute_in(sx.networks.with_call(network, on_moved_images), jnp.bfloat16)
    return sx.Model(called, prior, sx.likelihoods.Categorical(CLASSES), example=example)


def fitted(model: sx.Model, images: Images, method: Any) -> sx.Posterior:
    """A fit, with a line for each epoch."""

    def say(progress: Any) -> None:
        print(f"{time.perf_counter():.0f} s: {progress.step}, {progress.objective:.3f}", flush=True)

    return sx.fit(
        model, images.x, images.y, method, key=jax.random.key(0), standardize=False,
        progress=False, callback=say,
    )  # fmt: skip


def train_plainly(
    network: ResNet, images: Images, epochs: int, rate: float, course: Course
) -> ResNet:
    """Training by maximum likelihood, with weight decay."""
    steps = epochs * (len(images.y) // BATCH)
    method = sx.NoiseTraining(
        num_draws=1, steps=steps, batch_size=BATCH, chunk_steps=len(images.y) // BATCH,
        optimizer=optimizer(dataclasses.replace(course, rate=rate), steps),
    )  # fmt: skip
    model = model_of(network, {"head": PLAIN}, images.x[0])
    return fitted(model, images, method).model.network.wrapped_network


def select(model: sx.Model, images: Images, temperature: float, course: Course) -> sx.Posterior:
    """Variational EM under ARD-ADD."""
    steps = course.epochs * (len(images.y) // BATCH)
    method = sx.VariationalEM(
        steps=steps, batch_size=BATCH, num_draws=1, chunk_steps=len(images.y) // BATCH,
        temperature=temperature, warm_up=course.warm_up, optimizer=optimizer(course, steps),
    )  # fmt: skip
    return fitted(model, images, method)


@functools.cache
def optimizer(course: Course, steps: int) -> optax.GradientTransformation:
    """SGD with momentum and weight decay; Adam, without decay, for what the prior stands on."""

    def along(peak: float) -> optax.Schedule:
        return optax.warmup_cosine_decay_schedule(0.1 * peak, peak, steps // 20, steps, 0.0)

    def labels(learned: Any) -> Any:
        selecting = hasattr(learned, "log_deviations")

        def label(path: Any, _: Any) -> str:
            name = jax.tree_util.keystr(path)
            if "log_deviations" in name:
                return "deviations"
            return "selected" if selecting and "second" in name else "others"

        return jax.tree_util.tree_map_with_path(label, learned)

    def decays(learned: Any) -> Any:
        return jax.tree.map(lambda leaf: getattr(leaf, "ndim", 0) > 1, learned)

    return optax.multi_transform(
        {
            "deviations": optax.adam(along(course.deviation_rate)),
            "selected": optax.adam(along(course.selected_rate)),
            "others": optax.chain(
                optax.add_decayed_weights(course.decay, decays),
                optax.sgd(along(course.rate), momentum=0.9, nesterov=True),
            ),
        },
        labels,
    )


def masked(network: ResNet, on: Sequence[np.ndarray]) -> ResNet:
    """The network with only these channels between the convolutions of its blocks."""
    return eqx.tree_at(
        lambda net: [block.on for stage in net.stages for block in stage],
        network, [jnp.asarray(mask) for mask in on], is_leaf=lambda node: node is None,
    )  # fmt: skip


def accuracy(network: Any, images: Images) -> float:
    """The share of the images, in percent, that the network gets right."""
    right = 0
    for start in range(0, len(images.y), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        right += int(np.sum(np.asarray(classes(network, images.x[rows])) == images.y[rows]))
    return round(100 * right / len(images.y), 2)


@eqx.filter_jit
def classes(network: Any, x: Any) -> jax.Array:
    """The class that a network gives each image."""
    return jnp.argmax(jax.vmap(network)(x), axis=-1)


class Data:
    """The images that are trained on, those that settings are chosen by, and those of the test."""

    def __init__(self, cifar: str):
        full, self.test = read_images(cifar, "train"), read_images(cifar, "test")
        self.train = Images(full.x[:-HELD_OUT], full.y[:-HELD_OUT])
        self.held_out = Images(full.x[-HELD_OUT:], full.y[-HELD_OUT:])

    def scores(self, network: Any) -> dict[str, float]:
        """The accuracy of a network on both parts that it has not seen."""
        return {
            "validation": accuracy(network, self.held_out),
            "test": accuracy(network, self.test),
        }


def start(depth: int, seed: int = 0) -> ResNet:
    """A network before training."""
    return eqx.filter_jit(lambda key: ResNet((depth - 2) // 6, key=key))(jax.random.key(seed))


def run(cifar: str, folder: Path, depth: int, parts: list[str], course: Course) -> None:
    """Train the parts of one depth, and leave networks and numbers in the folder."""
    data, network, models = Data(cifar), start(depth), {}
    for part in parts:
        begin = time.perf_counter()
        name, _, temperature = part.rpartition(":")
        name = name or "ard-add"
        result: dict[str, Any] = {"depth": depth, "temperature": None, **machine()}
        if part == "plain":
            epochs = course.epochs + course.refit_epochs
            small = train_plainly(network, data.train, epochs, course.rate, course)
        else:
            if name not in models:
                prior = {"stages.*.second": SELECTING[name]}
                models[name] = model_of(network, prior, data.train.x[0])
            post = select(models[name], data.train, float(temperature), course)
            whole = post.model.network.wrapped_network
            on = channels_on(post)
            result |= {
                "structure": name, "temperature": float(temperature),
                "left": [int(mask.sum()) for mask in on],
                "whole": data.scores(whole), "masked": data.scores(masked(whole, on)),
            }  # fmt: skip
            print(json.dumps(result), flush=True)
            small = train_plainly(
                masked(whole, on), data.train, course.refit_epochs, course.refit_rate, course
            )
        result |= {"refit": data.scores(small), "seconds": round(time.perf_counter() - begin, 1)}
        keep(folder, f"{depth}-{part.replace(':', '-')}", result, small, course)


def channels_on(post: sx.Posterior) -> list[np.ndarray]:
    """The channels of each block that are on: those with scales of their own, or all or none."""
    layers = measure_layers(post.networks.members[0], THRESHOLD)
    by_channel = isinstance(next(iter(post.model.structures.values())), sx.ARDADD)
    return [
        each.lines["unit"].on if by_channel else np.full(len(each.lines["unit"].on), each.on)
        for each in layers.values()
    ]


def thin(
    cifar: str, folder: Path, depth: int, cold: str, hot: str, num: int, course: Course
) -> None:
    """Of a network that was fitted at the temperature `cold`, keep the best blocks; train on.

    Those are kept of which the fit at the temperature `hot` left the largest share.
    """
    data, begin = Data(cifar), time.perf_counter()
    network = load(folder / f"{depth}-{cold}.eqx", depth, masks=True)
    left = json.loads((folder / f"{depth}-{hot}.json").read_text())["left"]
    masks = [np.asarray(block.on) for stage in network.stages for block in stage]
    # Of equal shares, the one of more channels.
    order = sorted(range(len(left)), key=lambda i: (left[i] / len(masks[i]), left[i]))
    kept = set(order[-num:])
    on = [mask if i in kept else np.zeros_like(mask) for i, mask in enumerate(masks)]
    small = masked(network, on)
    result = {
        "depth": depth, "temperature": float(cold), "blocks_by": float(hot), **machine(),
        "left": [int(mask.sum()) for mask in on], "masked": data.scores(small),
    }  # fmt: skip
    small = train_plainly(small, data.train, course.refit_epochs, course.refit_rate, course)
    result |= {"refit": data.scores(small), "seconds": round(time.perf_counter() - begin, 1)}
    keep(folder, f"{depth}-{cold}-{num}", result, small, course)


def keep(folder: Path, name: str, result: dict[str, Any], network: ResNet, course: Course) -> None:
    """Write the numbers and the network of one part."""
    result = result | {"course": dataclasses.asdict(course)}
    print(json.dumps(result), flush=True)
    (folder / f"{name}.json").write_text(json.dumps(result))
    eqx.tree_serialise_leaves(folder / f"{name}.eqx", network)


def load(file: Path, depth: int, *, masks: bool) -> ResNet:
    """A network that `keep` wrote, with masks of its channels unless it was trained plainly."""
    network = start(depth)
    if masks:
        blocks = [block for stage in network.stages for block in stage]
        network = masked(network, [np.ones(block.first.out_channels, bool) for block in blocks])
    return eqx.tree_deserialise_leaves(file, network)


def main() -> None:
    """Train, cut or write the page."""
    match sys.argv[1:]:
        case ["run", cifar, folder, depth, *parts]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sx.UselessFitWarning)
                run(cifar, Path(folder), int(depth), parts, Course())
        case ["thin", cifar, folder, depth, cold, hot, num]:
            thin(cifar, Path(folder), int(depth), cold, hot, int(num), Course())
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
