"""Which units a network needs: fits by variational EM, as one program, and what is on in each."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix.fitting.front_door import fit_many
from scalemix.inference import VariationalEM
from scalemix.likelihoods import Categorical
from scalemix.mixtures import LogUniform
from scalemix.model.model import Model
from scalemix.posterior.networks import Networks
from scalemix.posterior.relevance_rule import measure_layers
from scalemix.reproduce.compression.images import Images
from scalemix.reproduce.compression.networks import NETWORKS, NUM_CLASSES, Counts, Network, Rows
from scalemix.reproduce.compression.plans import Course
from scalemix.structures import ARD

# The signal to noise below which a row is off: that of `Posterior.prune`.
THRESHOLD = 0.01


class Selected(NamedTuple):
    """One fit, and the units that are on in it."""

    temperature: float
    seed: int
    networks: Networks
    """The posterior, around the mean network."""
    rows: Rows
    counts: Counts


def select(name: str, course: Course, images: Images, num_seeds: int) -> list[Selected]:
    """Fits at all temperatures from all seeds, and what is on in each."""
    settings = [(t, seed) for t in course.temperatures for seed in range(num_seeds)]
    models = [Model(start(name, course.start, seed), ARD(LogUniform()), Categorical(NUM_CLASSES))
              for _, seed in settings]  # fmt: skip
    methods = [
        VariationalEM(
            steps=course.steps, batch_size=course.batch_size, num_draws=1, temperature=t,
            learning_rate=course.learning_rate, warm_up=course.warm_up,
            chunk_steps=min(1000, course.steps),
        )
        for t, _ in settings
    ]  # fmt: skip
    num = len(settings)
    keys = jax.vmap(jax.random.key)(jnp.arange(num))
    posts = fit_many(
        models, [images.x] * num, [images.y] * num, methods, keys=keys, standardize=False,
        progress=False,
    )  # fmt: skip
    selections = []
    for (temperature, seed), post in zip(settings, posts, strict=True):
        (networks,) = post.networks.members
        lines = measure_layers(networks, THRESHOLD)
        rows = {site: each.lines["unit"].on for site, each in lines.items()}
        counts = NETWORKS[name].count(rows)
        selections.append(Selected(temperature, seed, networks, rows, counts))
    return selections


def start(name: str, factors: tuple[float, float], seed: int) -> Network:
    """The whole network before training; `factors` are as in `Course.start`."""
    network = NETWORKS[name](key=jax.random.key(seed))
    for place, site in enumerate(network.sites):
        weight = factors[min(place, 1)] * getattr(network, site).weight
        network = eqx.tree_at(lambda n, s=site: getattr(n, s).weight, network, weight)
    return network


def room_for(counts: Sequence[Counts]) -> tuple[int, ...]:
    """The widths in which all of these networks have room."""
    widest = np.max([each.units for each in counts], axis=0).tolist()
    # Of LeNet-5 the features follow from the channels; of the other the pixels are all there.
    return tuple(widest[:2] + widest[3:]) if len(widest) == 4 else tuple(widest[1:])
