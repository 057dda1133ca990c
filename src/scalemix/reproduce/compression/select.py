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

# What counts as off, unless more has to go: that of `Posterior.prune`.
THRESHOLD = 0.01


class Selected(NamedTuple):
    """One fit, and the units that are on in it."""

    temperature: float
    seed: int
    networks: Networks
    """The posterior, around the mean network."""
    threshold: float
    """The signal to noise below which a row is off."""
    rows: Rows
    counts: Counts
    as_found: Counts
    """The size at the usual threshold."""


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
        most = course.temperatures[temperature]
        selections.append(Selected(temperature, seed, networks, *rows_on(name, networks, most)))
    return selections


def start(name: str, factors: tuple[float, float], seed: int) -> Network:
    """The whole network before training; `factors` are as in `Course.start`."""
    network = NETWORKS[name](key=jax.random.key(seed))
    for place, site in enumerate(network.sites):
        weight = factors[min(place, 1)] * getattr(network, site).weight
        network = eqx.tree_at(lambda n, s=site: getattr(n, s).weight, network, weight)
    return network


def rows_on(name: str, networks: Networks, most: int | None) -> tuple[float, Rows, Counts, Counts]:
    """The threshold, the rows of weights that are on at it, their number, and that as found.

    Rows are on by the rule of `Posterior.prune`, at the least threshold that leaves no more than
    `most` weights.
    """
    kind = NETWORKS[name]
    lines = {site: each.lines["unit"] for site, each in measure_layers(networks, THRESHOLD).items()}
    on = {site: each.on for site, each in lines.items()}
    as_found = kind.count(on)
    if most is None or as_found.weights <= most:
        return THRESHOLD, on, as_found, as_found
    ratios = np.unique(np.concatenate([each.ratio[each.on] for each in lines.values()]))

    def at(place: int) -> Rows:
        return {site: on[site] & (each.ratio > ratios[place]) for site, each in lines.items()}

    low, high = 0, len(ratios) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if kind.count(at(middle)).weights <= most else (middle + 1, high)
    return float(ratios[low]), at(low), kind.count(at(low)), as_found


def room_for(counts: Sequence[Counts]) -> tuple[int, ...]:
    """The widths in which all of these networks have room."""
    widest = np.max([each.units for each in counts], axis=0).tolist()
    # Of LeNet-5 the features follow from the channels; of the other the pixels are all there.
    return tuple(widest[:2] + widest[3:]) if len(widest) == 4 else tuple(widest[1:])
