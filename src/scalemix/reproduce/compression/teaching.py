"""Whole networks as teachers: small ones are refitted to what they say of the training images.

That is distillation (Hinton, Vinyals and Dean, 2015). The teachers see the same training images as
everything else, and no others.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix.fitting.front_door import fit_many
from scalemix.inference import NoiseTraining
from scalemix.likelihoods import Categorical, Likelihood
from scalemix.mixtures import Gaussian
from scalemix.model.model import Model
from scalemix.reproduce.compression.images import Images
from scalemix.reproduce.compression.networks import NUM_CLASSES, Network
from scalemix.reproduce.compression.plans import Teaching
from scalemix.reproduce.compression.scores import logits
from scalemix.reproduce.compression.select import start
from scalemix.structures import ARD

# Apart from the seeds of the networks that are compressed.
FIRST_SEED = 100


class Softened(Likelihood):
    """Classes as a teacher sees them: a target is the teacher's output, in place of one class.

    With the probabilities p of the teacher and q of the network, both of outputs divided by the
    softness t, the log-likelihood is `t^2 sum p log q`. The factor keeps gradients of one size,
    whatever the softness.
    """

    summary: ClassVar[str] = "classes, as a teacher sees them"
    ordered: ClassVar[bool] = False
    softness: Array

    @property
    def num_outputs(self) -> int:
        return NUM_CLASSES

    @property
    def target_shape(self) -> tuple[int, ...]:
        return (NUM_CLASSES,)

    def log_prob(self, output: Array, y: ArrayLike) -> Array:
        shares = jax.nn.softmax(self.target(y) / self.softness)
        own = jax.nn.log_softmax(self.one(output) / self.softness)
        return self.softness**2 * jnp.sum(shares * own)

    def mean(self, output: Array) -> Array:
        return self.one(output)

    def variance(self, output: Array) -> Array:
        return jnp.zeros_like(self.one(output))

    def cdf(self, output: Array, y: ArrayLike) -> Array:
        raise ValueError("Classes have no order, so they have no quantiles and no intervals.")

    def sample(self, output: Array, *, key: PRNGKeyArray) -> Array:
        return self.one(output)


class Lesson(NamedTuple):
    """What teachers say of the training images, and by what it is divided."""

    outputs: np.ndarray
    softness: float


def train_teachers(name: str, teaching: Teaching, images: Images) -> list[Network]:
    """Whole networks after noise training."""
    prior = {site: ARD(Gaussian(std)) for site, std in teaching.noise.items()}
    num = teaching.num
    models = [
        Model(start(name, teaching.start, FIRST_SEED + seed), prior, Categorical(NUM_CLASSES))
        for seed in range(num)
    ]
    method = NoiseTraining(
        num_draws=1, steps=teaching.steps, batch_size=teaching.batch_size,
        learning_rate=teaching.learning_rate, chunk_steps=min(1000, teaching.steps),
    )  # fmt: skip
    posts = fit_many(
        models, [images.x] * num, [images.y] * num, method,
        keys=jax.random.split(jax.random.key(2), num), standardize=False, progress=False,
    )  # fmt: skip
    return [post.model.network for post in posts]


def ask(teachers: Sequence[Network], x: np.ndarray) -> np.ndarray:
    """What the teachers say of images: their mean output, around zero, class by class."""
    mean = np.mean([logits(network, x) for network in teachers], axis=0)
    return mean - mean.mean(axis=1, keepdims=True)
