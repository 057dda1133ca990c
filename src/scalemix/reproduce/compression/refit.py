"""The units that were selected, trained on by themselves under noise."""

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
from scalemix.reproduce.compression.teaching import Lesson, Softened
from scalemix.structures import ARD


def refit(
    networks: Sequence[Network], course: Course, images: Images, lesson: Lesson | None = None
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
    rate = optax.cosine_decay_schedule(course.learning_rate, course.refit_steps)
    method = NoiseTraining(
        "lower_bound", num_draws=1, steps=course.refit_steps, batch_size=course.batch_size,
        optimizer=optax.adamw(rate, weight_decay=course.decay),
        chunk_steps=min(1000, course.refit_steps),
    )  # fmt: skip
    num = len(networks)
    posts = fit_many(
        models, [images.x] * num, [targets] * num, method,
        keys=jax.random.split(jax.random.key(1), num), standardize=False, progress=False,
    )  # fmt: skip
    return [post.model.network for post in posts]
