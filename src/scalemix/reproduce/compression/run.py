"""Runs the benchmark: selects units, refits what is left, and scores all of it on test images."""

import json
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from scalemix._files import replacing
from scalemix.inference.training.findings import UselessFitWarning
from scalemix.reproduce.compression.images import Images, read_images
from scalemix.reproduce.compression.networks import SIDE, Network, Rows
from scalemix.reproduce.compression.plans import Course, Plan
from scalemix.reproduce.compression.refit import cut_and_refit
from scalemix.reproduce.compression.scores import averaged_error, ensemble_error, error
from scalemix.reproduce.compression.select import Selected, room_for, select
from scalemix.reproduce.compression.small import to_arrays
from scalemix.reproduce.compression.teaching import Lesson, ask, train_teachers

RESULTS, SMALL_NETWORKS = "compression.json", "compression.npz"
Say = Callable[[str], None]


def compress(
    plan: Plan, images: str | Path | None, folder: str | Path, *, say: Say = print
) -> dict[str, Any]:
    """The results of a plan, which go into compression.json of the folder network by network.

    `images` is a file as `read_images` takes it. The networks of the first seed go into
    compression.npz. Test rows are looked at once, after the last step, and decide nothing.
    """
    data, folder = _cut(read_images(images), plan), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {
        "plan": plan.name,
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "num_train": len(data.y),
        "num_test": len(data.y_test),
        "teachers": {},
        "networks": {},
    }
    arrays: dict[str, Any] = {}
    lessons: dict[str, Lesson] = {}
    for name, course in plan.courses.items():
        say(f"{name}: {len(course.temperatures) * plan.num_seeds} fits")
        if course.teachers is not None and course.teachers not in lessons:
            lessons[course.teachers] = _teach(course.teachers, plan, data, content["teachers"])
        lesson = None if course.teachers is None else lessons[course.teachers]
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UselessFitWarning)
            selections = select(name, course, data, plan.num_seeds)
        selected = time.perf_counter()
        fits = [_score(one, data, plan) for one in selections]
        content["networks"][name] = {
            "teachers": course.teachers, "fits": fits, "seconds": {"select": selected - start}
        }  # fmt: skip
        _write(content, folder)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UselessFitWarning)
            small = _refit(selections, course, data, lesson)
        content["networks"][name]["seconds"]["refit"] = time.perf_counter() - start
        rows = [one.rows if network is None else network.within(one.rows, network.rows_in_use())
                for one, network in zip(selections, small, strict=True)]  # fmt: skip
        for fit, one, network, left in zip(fits, selections, small, rows, strict=True):
            counts = one.networks.model.network.count(left)
            fit |= {"shape": counts.shape, "weights": counts.weights,
                    "multiply_adds": counts.multiply_adds}  # fmt: skip
            fit["refit"] = None if network is None else error(network, data)
            say(f"{name}, temperature {one.temperature:g}, seed {one.seed}: {fit['shape']}, "
                f"{fit['weights']:,} weights, error {fit['refit']}%")  # fmt: skip
            if network is not None and one.seed == 0:
                arrays |= to_arrays(f"{name}/{one.temperature:g}", left, network)
        if "dense3" in rows[0]:
            content["networks"][name]["pixels"] = _pixels(selections, rows)
        _write(content, folder)
        with replacing(folder / SMALL_NETWORKS) as file:
            np.savez_compressed(file, **arrays)
    return content


def _cut(images: Images, plan: Plan) -> Images:
    train, test = plan.num_train, plan.num_test
    return Images(images.x[:train], images.y[:train], images.x_test[:test], images.y_test[:test])


def _score(one: Selected, images: Images, plan: Plan) -> dict[str, Any]:
    """What is on in one fit, and the error of the whole network."""
    return {
        "temperature": one.temperature,
        "seed": one.seed,
        "as_found": one.counts.shape,
        "weights_as_found": one.counts.weights,
        "whole": error(one.networks.model.network, images),
        "averaged": averaged_error(one.networks, images, plan.num_draws),
    }


def _teach(name: str, plan: Plan, images: Images, content: dict[str, Any]) -> Lesson:
    """What the teachers of a kind say of the training images; their errors go into content."""
    teaching = plan.teaching[name]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UselessFitWarning)
        teachers = train_teachers(name, teaching, images)
    content[name] = {
        "each": [error(network, images) for network in teachers],
        "together": ensemble_error(teachers, images),
        "seconds": time.perf_counter() - start,
    }
    return Lesson(ask(teachers, images.x), teaching.softness)


def _refit(
    selections: list[Selected], course: Course, images: Images, lesson: Lesson | None
) -> list[Network | None]:
    """The small networks, with room to spare; none where a layer has nothing left."""
    alive = [one for one in selections if min(one.counts.units) > 0]
    if not alive:
        return [None] * len(selections)
    room = room_for([one.counts for one in alive])
    narrowed = [one.networks.model.network.narrowed(one.rows, room) for one in alive]
    limits = [course.temperatures[one.temperature] for one in alive]
    done = iter(cut_and_refit(narrowed, limits, course, images, lesson))
    return [next(done) if min(one.counts.units) > 0 else None for one in selections]


def _pixels(selections: list[Selected], rows: list[Rows]) -> dict[str, str]:
    """How many seeds read each pixel in the end, a digit each, by temperature."""
    counts: dict[str, np.ndarray] = {}
    for one, left in zip(selections, rows, strict=True):
        so_far = counts.get(f"{one.temperature:g}", np.zeros(SIDE * SIDE, int))
        counts[f"{one.temperature:g}"] = so_far + left["dense1"]
    return {temperature: "".join(map(str, values)) for temperature, values in counts.items()}


def _write(content: Mapping[str, Any], folder: Path) -> None:
    with replacing(folder / RESULTS) as file:
        file.write(f"{json.dumps(content, indent=1)}\n".encode())
