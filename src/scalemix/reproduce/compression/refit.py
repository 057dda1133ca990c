"""The units that were selected, trained on by themselves under noise."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from scalemix.fitting.front_door import fit_many
from scalemix.inference import NoiseTraining
from scalemix.likelihoods import Categorical, Likelihood
from scalemix.mixtures import Gaussian
from scalemix.model.model import Model
from scalemix.reproduce.compression.images import Images
from scalemix.reproduce.compression.networks import NUM_CLASSES, Network
from scalemix.reproduce.compression.plans import Course
from scalemix.reproduce.compression.teaching import Softened
from scalemix.structures import ARD


def refit(
    networks: Sequence[Network], course: Course, images: Images, taught: np.ndarray | None = None
) -> list[Network]:
    """These networks after noise training, whose noise has the mean one.

    They start from the means that they have, and lose nothing but what their masks took out. They
    learn the digits, or, where there are teachers, what these say of each image (`taught`).
    """
    prior = {site: ARD(Gaussian(std)) for site, std in course.noise.items()}
    likelihood: Likelihood = Categorical(NUM_CLASSES)
    targets = images.y
    if taught is not None:
        assert course.teaching is not None
        likelihood, targets = Softened(jnp.float32(course.teaching.softness)), taught
    models = [Model(network, prior, likelihood) for network in networks]
    method = NoiseTraining(
        "lower_bound", num_draws=1, steps=course.refit_steps, batch_size=course.batch_size,
        learning_rate=course.learning_rate, chunk_steps=min(1000, course.refit_steps),
    )  # fmt: skip
    num = len(networks)
    posts = fit_many(
        models, [images.x] * num, [targets] * num, method,
        keys=jax.random.split(jax.random.key(1), num), standardize=False, progress=False,
    )  # fmt: skip
    return [post.model.network for post in posts]
