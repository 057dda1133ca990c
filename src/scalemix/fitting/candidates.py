"""Candidates for a stacked ensemble: models, each with a method of fitting it."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from scalemix._types import PyTree
from scalemix.inference.training.em import VariationalEM
from scalemix.inference.training.settings import Training
from scalemix.likelihoods import Likelihood, for_target
from scalemix.model.assignment import Prior
from scalemix.model.model import Model

TEMPERATURES = (0.1, 0.3, 1.0)
FLOORS = (1e-3, 0.1)


class Candidate(NamedTuple):
    """A model and a method of fitting it, on trial.

    Attributes
    ----------
    model : Model
        The model. The candidates of one ensemble differ only in the numbers of their priors and
        likelihoods.
    method : VariationalEM or NoiseTraining
        How to train it. Leave `num_members` and `validation_fraction` alone: `fit_stacked` decides
        on both. The methods of one ensemble may differ as those of `fit_many` may.

    Examples
    --------
    >>> from scalemix import Candidate
    >>> Candidate(model, sx.VariationalEM(temperature=0.3)).method.temperature
    0.3
    """

    model: Model
    method: Training


def default_candidates(
    network: PyTree,
    prior: Prior,
    method: VariationalEM,
    likelihoods: Sequence[Likelihood] | None = None,
    temperatures: Sequence[float] = TEMPERATURES,
) -> list[Candidate]:
    """Candidates that suit most tables: several temperatures for each likelihood.

    Parameters
    ----------
    network : equinox.Module
        The network of all candidates. For the default likelihoods it needs two outputs, the mean
        and the noise of each input.
    prior : Structure or dict
        The prior of all candidates, as `Model` takes it.
    method : VariationalEM
        The method of all candidates, but for the temperature.
    likelihoods : sequence of Likelihood, optional
        The likelihoods to try. By default Student-t noise of its own for each input, with two
        floors: a high floor keeps an overfitted network from being sure of itself, a low one lets
        noiseless targets be matched.
    temperatures : sequence of float, default (0.1, 0.3, 1.0)
        The temperatures to try with each likelihood.

    Returns
    -------
    list of Candidate
        One for each likelihood and each temperature.

    Examples
    --------
    >>> network = sx.networks.MLP(3, 2, 8, 2, key=key)
    >>> candidates = sx.default_candidates(
    ...     network, sx.ARD(sx.HalfCauchy(1.0)), sx.VariationalEM(steps=20)
    ... )
    >>> len(candidates)
    6
    """
    likelihoods = noisy_likelihoods() if likelihoods is None else likelihoods
    models = [Model(network, prior, likelihood) for likelihood in likelihoods]
    return [
        Candidate(model, dataclasses.replace(method, temperature=temperature))
        for model in models
        for temperature in temperatures
    ]


def noisy_likelihoods(
    floors: Sequence[float] | None = None, target: str = "real"
) -> list[Likelihood]:
    """Likelihoods of a kind of target with noise of its own for each input: one for each floor.

    By default there are two, a low and a high one. Counts and shares have numerical reasons for a
    floor, so that both are higher for them.
    """
    if floors is None:
        own: Any = for_target(target).innermost
        floors = (max(FLOORS[0], own.floor), max(FLOORS[1], 4 * own.floor))
    return [for_target(target, floor=floor, per_input=True) for floor in floors]
