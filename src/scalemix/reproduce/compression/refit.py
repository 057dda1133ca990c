"""The units that were selected, trained on by themselves under noise, and cut to a size."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import optax

from scalemix.fitting.front_door import fit_many
from scalemix.inference import NoiseTraining
from scalemix.likelihoods import Categorical, Likelihood
from scalemix.mixtures import Gaussian
from scalemix.model.model import Model
from scalemix.reproduce.compression.images import Images
from scalemix.reproduce.compression.networks import (
    NUM_CLASSES,
    BandConv,
    Network,
    with_convolutions,
)
from scalemix.reproduce.compression.plans import Course
from scalemix.reproduce.compression.shrink import shrunk
from scalemix.reproduce.compression.teaching import Lesson, Softened
from scalemix.structures import ARD

# Training images by which rows are weighed against one another.
NUM_WEIGHED = 10_000


def cut_and_refit(
    networks: Sequence[Network],
    limits: Sequence[int | None],
    course: Course,
    images: Images,
    lesson: Lesson | None = None,
) -> list[Network]:
    """These networks after the refit, with no more weights than their limits say.

    Those with more lose them in rounds: they are refitted for a while, and lose an equal share in
    each round, so that those that stay learn to do without.
    """
    cut = list(networks)
    sizes = [network.count(network.rows_in_use()).weights for network in networks]
    too_large = {
        i: (size, most)
        for i, (size, most) in enumerate(zip(sizes, limits, strict=True))
        if most is not None and size > most
    }
    softness = 1.0 if lesson is None else lesson.softness
    for done in range(1, course.rounds + 1) if too_large else ():
        trained = refit([cut[i] for i in too_large], course, images, lesson, course.round_steps)
        for (i, (size, most)), network in zip(too_large.items(), trained, strict=True):
            left = max(most, int(size * (most / size) ** (done / course.rounds)))
            cut[i] = shrunk(network, images.x[:NUM_WEIGHED], left, course.noise, softness)
    return refit(cut, course, images, lesson, course.refit_steps)


def refit(
    networks: Sequence[Network], course: Course, images: Images, lesson: Lesson | None, steps: int
) -> list[Network]:
    """These networks after noise training, whose noise has the mean one, with decay of weights.

    They start from the means that they have, and lose nothing but what their masks took out. They
    learn the digits, or, where there are teachers, what these say of each image.
    """
    prior = {site: ARD(Gaussian(std)) for site, std in course.noise.items()}
    # Noise on channels cannot be followed through bands.
    if not {"conv1", "conv2"} & prior.keys():
        networks = [with_convolutions(network, BandConv) for network in networks]
    likelihood: Likelihood = Categorical(NUM_CLASSES)
    targets = images.y
    if lesson is not None:
        likelihood, targets = Softened(jnp.float32(lesson.softness)), lesson.outputs
    models = [Model(network, prior, likelihood) for network in networks]
    method = _method(steps, course.batch_size, course.learning_rate, course.decay)
    num = len(networks)
    posts = fit_many(
        models, [images.x] * num, [targets] * num, method,
        keys=jax.random.split(jax.random.key(1), num), standardize=False, progress=False,
    )  # fmt: skip
    return [post.model.network for post in posts]


@functools.cache
def _method(steps: int, batch_size: int, learning_rate: float, decay: float) -> NoiseTraining:
    """One for all rounds of a course: another optimiser would be another program."""
    rate = optax.cosine_decay_schedule(learning_rate, steps)
    return NoiseTraining(
        "lower_bound", num_draws=1, steps=steps, batch_size=batch_size,
        optimizer=optax.adamw(rate, weight_decay=decay), chunk_steps=min(1000, steps),
    )  # fmt: skip
