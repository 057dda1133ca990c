"""The prior of a whole network: its draws, its density and its penalty, site by site."""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix.model.site_prior import Parametrization, SitePrior
from scalemix.networks.placing import Scales

SitePriors = tuple[SitePrior, ...]


class PriorSample(NamedTuple):
    """Weights and the scales they were drawn with, both by site."""

    weights: dict[str, Array]
    scales: Scales


def draw_scales(priors: SitePriors, shape: tuple[int, ...], key: PRNGKeyArray) -> Scales:
    """Noise for all sites, with leading axes of this shape: independent draws."""
    keys = iter(jax.random.split(key, sum(len(prior.groups) for prior in priors)))
    return {prior.name: prior.draw(shape, keys) for prior in priors}


def sample_prior(
    priors: SitePriors, parametrization: Parametrization, key: PRNGKeyArray
) -> PriorSample:
    """Weights and scales from the prior, `z` or `w = xi * z` as the parametrization says."""
    scale_key, weight_key = jax.random.split(key)
    scales = draw_scales(priors, (), scale_key)
    keys = jax.random.split(weight_key, len(priors))
    weights = {
        prior.name: prior.sample_weight(scales[prior.name], parametrization, subkey)
        for prior, subkey in zip(priors, keys, strict=True)
    }
    return PriorSample(weights, scales)


def log_prior(
    priors: SitePriors,
    weights: dict[str, Array],
    scales: Scales,
    parametrization: Parametrization,
) -> Array:
    """Log density of weights and scales together.

    expanded:      `sum log N(z; 0, s0^2)      + sum log p(xi)`, weights are `z`
    hierarchical:  `sum log N(w; 0, s0^2 xi^2) + sum log p(xi)`, weights are `w = xi z`

    Under another base its density stands in place of the Gaussian.
    """
    scale_log_probs = {
        prior.name: {g: m.log_prob(scales[prior.name][g]) for g, m in prior.groups.items()}
        for prior in priors
    }
    terms = log_prior_terms(priors, weights, scales, scale_log_probs, parametrization)
    return sum(terms, start=jnp.zeros(()))


def log_prior_terms(
    priors: SitePriors,
    weights: dict[str, Array],
    scales: Scales,
    scale_log_probs: Scales,
    parametrization: Parametrization,
) -> Iterator[Array]:
    """The terms of the log density: for each site its weights given the scales, then its scales.

    `scale_log_probs` are the log densities of the scales, in whatever coordinates they are.
    """
    for prior in priors:
        name = prior.name
        yield jnp.sum(prior.weight_log_prob(weights[name], scales[name], parametrization))
        for group in prior.groups:
            yield jnp.sum(scale_log_probs[name][group])


def weight_penalty(priors: SitePriors, parametrization: Parametrization) -> Array:
    """What the prior takes off the log-likelihood of all data together, up to a constant."""
    return sum((prior.penalty(parametrization) for prior in priors), start=jnp.zeros(()))
