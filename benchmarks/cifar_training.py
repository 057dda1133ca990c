"""How the networks of cifar_depth.py are trained: plainly, by a teacher, or under a prior."""

import dataclasses
import functools
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from cifar_blocks import with_blocks, without_blocks
from cifar_networks import CLASSES, Images, ResNet, on_moved_images

import scalemix as sx

BATCH = 256
# Noise that is always one, without a penalty: training by maximum likelihood.
PLAIN = sx.ARD(sx.Bernoulli(1.0), scale=float("inf"))
SELECTING: dict[str, sx.ARD | sx.ADD | sx.ARDADD] = {
    "ard": sx.ARD(sx.HalfCauchy(1.0)),
    "add": sx.ADD(sx.HalfCauchy(1.0)),
    "ard-add": sx.ARDADD(sx.HalfCauchy(1.0)),
}


@dataclasses.dataclass(frozen=True)
class Course:
    """How long and at what rates networks are trained."""

    epochs: int = 20
    """Of each fit that selects."""
    total_epochs: int = 100
    """Of all fits together, and of plain training. The refit has what the others leave."""
    rate: float = 0.3
    selected_rate: float = 3e-3
    """Adam's, of the weights under the prior."""
    deviation_rate: float = 1e-2
    """Adam's, of the logarithms of their deviations."""
    decay: float = 5e-4
    warm_up: float = 0.6
    """The share of the steps over which the temperature rises."""
    seed: int = 0


class Taught(eqx.Module):
    """A network beside the one that it learns from: the outputs of both, end to end."""

    student: ResNet
    teacher: ResNet

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.concatenate([self.student(x), self.teacher(x)])


class TaughtClasses(sx.likelihoods.Categorical):
    """Classes as the target has them, and in part as a teacher sees them (Hinton et al. 2015)."""

    share: float = 0.9
    """Of the teacher in what is learned."""
    softness: float = 4.0
    """What both networks' outputs are divided by where they are compared."""

    @property
    def num_outputs(self) -> int:
        return 2 * self.num_classes

    def one(self, output: jax.Array) -> jax.Array:
        return super().one(output)[: self.num_classes]

    def log_prob(self, output: jax.Array, y: Any) -> jax.Array:
        soft = jax.nn.softmax(output[self.num_classes :] / self.softness)
        agreement = jnp.sum(soft * jax.nn.log_softmax(self.one(output) / self.softness))
        # With this factor its gradients are at most as large as those of the target.
        agreement = self.softness * agreement
        return (1 - self.share) * super().log_prob(output, y) + self.share * agreement


def model_of(
    network: Any, prior: Any, example: np.ndarray, likelihood: Any = None, **options: Any
) -> sx.Model:
    """The model of a network that sees moved images in training and computes in bfloat16."""
    called = sx.networks.compute_in(sx.networks.with_call(network, on_moved_images), jnp.bfloat16)
    likelihood = likelihood or sx.likelihoods.Categorical(CLASSES)
    return sx.Model(called, prior, likelihood, example=example, **options)


def fitted(model: sx.Model, images: Images, method: Any, seed: int) -> sx.Posterior:
    """A fit, with a line for each epoch."""

    def say(progress: Any) -> None:
        print(f"{time.perf_counter():.0f} s: {progress.step}, {progress.objective:.3f}", flush=True)

    return sx.fit(
        model, images.x, images.y, method, key=jax.random.key(seed), standardize=False,
        progress=False, callback=say,
    )  # fmt: skip


def train_plainly(
    network: ResNet, images: Images, epochs: int, course: Course, teacher: ResNet | None = None
) -> ResNet:
    """Training by maximum likelihood, with weight decay; where there is a teacher, by it too.

    Blocks that are off stay as they are and take no time.
    """
    steps = epochs * (len(images.y) // BATCH)
    method = sx.NoiseTraining(
        num_draws=1, steps=steps, batch_size=BATCH, chunk_steps=len(images.y) // BATCH,
        optimizer=optimizer(course, steps),
    )  # fmt: skip
    small = without_blocks(network)
    if teacher is None:
        model = model_of(small, {"head": PLAIN}, images.x[0])
        small = fitted(model, images, method, course.seed).model.network.wrapped_network
    else:
        model = model_of(
            Taught(small, teacher), {"student.head": PLAIN}, images.x[0], TaughtClasses(CLASSES),
            frozen="teacher",
        )  # fmt: skip
        small = fitted(model, images, method, course.seed).model.network.wrapped_network.student
    return with_blocks(network, small)


def select(
    network: ResNet, images: Images, structure: str, temperature: float, course: Course
) -> sx.Posterior:
    """Variational EM under a prior on the second convolutions of all blocks."""
    steps = course.epochs * (len(images.y) // BATCH)
    method = sx.VariationalEM(
        steps=steps, batch_size=BATCH, num_draws=1, chunk_steps=len(images.y) // BATCH,
        temperature=temperature, warm_up=course.warm_up, optimizer=optimizer(course, steps),
    )  # fmt: skip
    model = model_of(network, {"stages.*.second": SELECTING[structure]}, images.x[0])
    return fitted(model, images, method, course.seed)


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
