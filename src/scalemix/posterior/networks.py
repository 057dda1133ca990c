"""Distributions over networks: what is still uncertain after a fit, by the method that fitted."""

import abc
import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix.model.model import Model
from scalemix.model.unknowns import Sample, Unknowns
from scalemix.networks.gaussians import draw_network
from scalemix.posterior.predictive import Drawn


class WeightMoments(NamedTuple):
    """For each weight of a site: mean, variance, and the variance that its prior gives it."""

    mean: Array
    variance: Array
    prior_variance: Array


class Networks(eqx.Module):
    """Networks that can be drawn: the part of a posterior that predictions are made of.

    It holds nothing but what a draw needs, so that posteriors of one kind share compiled code.
    """

    model: Model
    """What was learned: the network's weights, the likelihood's noise."""

    @property
    def default_draws(self) -> int:
        """How many draws a prediction takes if nothing is said."""
        return 100

    @property
    def num_places(self) -> int:
        """How many indices stand for something of their own; draws of others repeat these."""
        return 1

    @abc.abstractmethod
    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        """The network of one draw, and the likelihood that goes with it."""

    @property
    def parts(self) -> "tuple[Networks, ...]":
        """What the networks fall into, if not all draws have the same units.

        A network is the same with its units in another order, so that fits, or chains, from
        different starts have units that do not correspond. Moments of weights are those of a part.
        """
        return (self,)

    @abc.abstractmethod
    def weight_moments(self) -> dict[str, WeightMoments]:
        """What is believed of each weight, by site."""


class NoisyNetworks(Networks):
    """One set of weights under noise drawn from its prior."""

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        return Drawn(self.model.with_scales(self.model.draw(key=key)), self.model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        """`w = xi z` under the noise; its prior has settled on nothing but `E[w^2]` itself."""
        found = {}
        for name, z in self.model.weights.items():
            mean = square = jnp.ones((), z.dtype)
            for mixture in self.model.structures[name].groups.values():
                mean = mean * jnp.asarray(mixture.mean, z.dtype)
                square = square * jnp.asarray(mixture.second_moment, z.dtype)
            if not np.isfinite(square):
                raise ValueError(
                    f"The noise on {name!r} has no variance, so that its weights have no signal "
                    f"and noise to compare. Fit this prior by VariationalEM or MCMC."
                )
            moment = square * z**2
            found[name] = WeightMoments(mean * z, moment - (mean * z) ** 2, moment)
        return found


class GaussianNetworks(Networks):
    """An independent Gaussian for each weight, around the means that the model holds.

    `deviations` are their standard deviations, by site; `variances` the scales that the prior
    settled on, by site and group.
    """

    deviations: dict[str, Array]
    variances: dict[str, dict[str, Array]]

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        model = self.model
        network = draw_network(model.network, model.sites, self.deviations, key)
        return Drawn(network, model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        found = {}
        for prior in self.model.site_priors:
            variance = prior.expand(self.variances[prior.name])
            variance = variance * jnp.square(jnp.asarray(prior.structure.scale))
            found[prior.name] = WeightMoments(
                prior.weight,
                self.deviations[prior.name] ** 2,
                jnp.broadcast_to(variance, prior.site.shape),
            )
        return found


class OneNetwork(Networks):
    """One set of weights and no noise."""

    @property
    def default_draws(self) -> int:
        return 1

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        return Drawn(self.model.network, self.model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        return {
            name: WeightMoments(weight, jnp.zeros_like(weight), weight**2)
            for name, weight in self.model.weights.items()
        }


class SampledNetworks(Networks):
    """Samples from several Markov chains, kept in the coordinates that they were drawn in.

    `positions` are `(chains, samples, unknowns)`, `bits` the inclusion variables beside them, and
    `probes` a few training inputs, as the network sees them, to compare the chains at. The model is
    that of the sample of highest density.
    """

    unknowns: Unknowns
    positions: Array
    bits: Array
    probes: Array

    @property
    def num_samples(self) -> int:
        """All samples of all chains."""
        return self.positions.shape[0] * self.positions.shape[1]

    @property
    def num_places(self) -> int:
        return self.num_samples

    @property
    def default_draws(self) -> int:
        return min(self.num_samples, 1000)

    def sample(self, chain: int | Array, index: int | Array) -> Sample:
        """The model and the scales of one sample of one chain."""
        return self.unknowns.place(self.positions[chain, index], self.bits[chain, index])

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        num_chains, num_samples = self.positions.shape[:2]
        # Chain by chain, and along each so that any number of draws is spread over all of it.
        place = jnp.asarray(spread_order(num_samples))[index // num_chains % num_samples]
        model = self.sample(index % num_chains, place).model
        return Drawn(model.network, model.likelihood)

    @property
    def parts(self) -> tuple[Networks, ...]:
        """The chains, each with its own samples."""
        return tuple(
            dataclasses.replace(
                self, positions=self.positions[i : i + 1], bits=self.bits[i : i + 1]
            )
            for i in range(len(self.positions))
        )

    def weight_moments(self) -> dict[str, WeightMoments]:
        """Over all samples; the prior's variance is that of the scales sampled.

        Weights of different chains do not correspond: of more than one, see `parts`.
        """
        return eqx.filter_jit(_sampled_moments)(self)


def _sampled_moments(networks: SampledNetworks) -> dict[str, WeightMoments]:
    num_chains, num_samples = networks.positions.shape[:2]

    def one(place: Array) -> dict[str, tuple[Array, Array, Array]]:
        model, scales = networks.sample(place // num_samples, place % num_samples)
        found = {}
        for prior in model.site_priors:
            weight, xi = prior.weight, prior.expand(scales[prior.name])
            deviation = xi * jnp.asarray(prior.structure.scale, weight.dtype)
            found[prior.name] = weight, weight**2, jnp.broadcast_to(deviation**2, weight.shape)
        return found

    def add(total: Any, place: Array) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, one(place)), None

    zero = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(one, jnp.int32(0)))
    num = num_chains * num_samples
    total, _ = jax.lax.scan(add, zero, jnp.arange(num, dtype=jnp.int32))
    found = {}
    for name, sums in total.items():
        mean, square, prior = (value / num for value in sums)
        found[name] = WeightMoments(mean, jnp.maximum(square - mean**2, 0.0), prior)
    return found


def spread_order(num: int) -> np.ndarray:
    """The numbers below `num`, each of them once, in an order whose every beginning is spread out.

    That of their binary digits reversed (van der Corput).
    """
    width = max(num - 1, 1).bit_length()
    reversed_digits = [int(f"{i:0{width}b}"[::-1], 2) for i in range(2**width)]
    return np.array([i for i in reversed_digits if i < num], np.int32)


class Ensemble(eqx.Module):
    """Networks of several fits, of which the draws take one after the other.

    `stacked` is one set of networks whose arrays have a leading axis, the members.
    """

    stacked: Networks
    num_members: int = eqx.field(static=True)

    @property
    def model(self) -> Model:
        """The model of the first member."""
        return self.member(0).model

    @property
    def default_draws(self) -> int:
        # As many for each member.
        return self.num_members * math.ceil(self.member(0).default_draws / self.num_members)

    @property
    def num_places(self) -> int:
        """Those of each member."""
        return self.num_members * self.member(0).num_places

    def member(self, index: int | Array) -> Networks:
        """The networks of one member."""
        arrays, static = eqx.partition(self.stacked, eqx.is_array)
        return eqx.combine(jax.tree.map(lambda leaf: leaf[index], arrays), static)

    @property
    def parts(self) -> tuple[Networks, ...]:
        """Those of each member."""
        return tuple(p for i in range(self.num_members) for p in self.member(i).parts)

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        return self.member(index % self.num_members)(index // self.num_members, key)
