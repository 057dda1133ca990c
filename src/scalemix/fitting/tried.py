"""What is fitted for a recipe: one model, or several candidates of which held-out rows choose."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from scalemix._mesh import mesh_of
from scalemix._text import counted
from scalemix._warnings import warn
from scalemix.data.input_layout import InputLayout
from scalemix.data.preparation import InputWarning
from scalemix.fitting import building
from scalemix.fitting.candidates import TEMPERATURES, Candidate, default_candidates
from scalemix.fitting.kinds import Mention, SettingError
from scalemix.fitting.settings import RecipeSettings
from scalemix.fitting.stacking import can_hold_out
from scalemix.inference.training.em import VariationalEM
from scalemix.model.model import Model

# Fewer rows than this say next to nothing, and leave none to find that out with.
FEW_ROWS = 10


class Trial(NamedTuple):
    """A combination of settings that was tried on held-out rows, and how it fared.

    Attributes
    ----------
    temperature : float
        The temperature of the prior.
    noise_floor : float or None
        The least noise, in standard deviations of the target; `None` for classes.
    weight : float
        Its share of the mixture that explains the held-out rows best.
    score : float
        Its log-likelihood per held-out row; not a number if there were too few rows to try.
    num_members : int
        How many members of the ensemble have these settings.
    bins : bool or None, default=None
        Whether it reads bins and repeated numbers of columns; `None` where there was nothing to
        decide.
    correlated : bool or None, default=None
        Whether the noise of several targets is correlated; `None` where there was nothing to
        decide.

    Examples
    --------
    >>> from scalemix.recipes import Trial
    >>> Trial(temperature=0.3, noise_floor=0.1, weight=0.6, score=-0.9, num_members=10).weight
    0.6
    """

    temperature: float
    noise_floor: float | None
    weight: float
    score: float
    num_members: int
    bins: bool | None = None
    correlated: bool | None = None


def warn_of_few(num_rows: int) -> None:
    """Say so where there are too few rows to learn from."""
    if num_rows < FEW_ROWS:
        warn(
            f"There {'is' if num_rows == 1 else 'are'} only {counted(num_rows, 'row')} to learn "
            f"from, and nothing tells how good predictions are: take them for guesses.",
            InputWarning,
        )


def mesh_for(recipe: RecipeSettings) -> Mesh | None:
    """The devices that a recipe names, or `None` for the default."""
    try:
        return mesh_of(recipe.devices)
    except ValueError as error:
        raise SettingError(Mention("devices", recipe.devices), f": {error}") from None


def build_candidates(
    recipe: RecipeSettings,
    num_rows: int,
    num_inputs: int,
    num_classes: int | None,
    num_targets: int | None,
    layout: InputLayout | None,
    key: PRNGKeyArray,
) -> list[Candidate]:
    """What is fitted to so many rows: one model by one method, or several of which rows choose."""
    building.check_levels(recipe, layout)
    likelihoods = building.build_likelihoods(recipe, num_classes, num_targets)
    if not can_hold_out(num_rows):
        # No row tells whether the noise of several targets goes together: the plain answer is no.
        plain = [one for one in likelihoods if not getattr(one, "strength", 0.0)]
        likelihoods = plain or likelihoods
    prior = building.build_table_prior(recipe, layout)
    read = building.inputs_to_read(recipe, layout, num_inputs)
    network = building.build_network(recipe, read, likelihoods[0].num_outputs, key=key)
    if recipe.inference != "em":
        model = Model(network, prior, likelihoods[0])
        return [Candidate(model, building.build_method(recipe, num_rows))]
    candidates = [
        candidate
        for reader in building.ways_to_read(
            recipe, network, layout, can_choose=can_hold_out(num_rows)
        )
        for candidate in default_candidates(
            reader, prior, VariationalEM(**recipe.training(num_rows)), likelihoods,
            TEMPERATURES if recipe.temperature == "auto" else (recipe.temperature,),
        )
    ]  # fmt: skip
    if len(candidates) == 1:
        model, method = candidates[0]
        num_members = recipe.plan(num_rows).num_members
        return [Candidate(model, dataclasses.replace(method, num_members=num_members))]
    return candidates


def trials_of(
    recipe: RecipeSettings,
    candidates: Sequence[Candidate],
    layout: InputLayout | None,
    weights: np.ndarray,
    scores: np.ndarray,
    num_members: np.ndarray,
) -> tuple[Trial, ...]:
    """How candidates fared, in plain values."""
    decides = building.may_do_without(recipe, layout)
    fared = zip(candidates, weights, scores, num_members, strict=True)
    return tuple(_trial(*one, decides) for one in fared)


def _trial(
    candidate: Candidate, weight: float, score: float, num_members: int, decides: bool
) -> Trial:
    method: Any = candidate.method
    strength = getattr(candidate.model.likelihood, "strength", None)
    return Trial(
        temperature=method.temperature,
        noise_floor=getattr(candidate.model.likelihood.innermost, "floor", None),
        weight=float(weight),
        score=float(score),
        num_members=int(num_members),
        bins=building.reads_all(candidate.model.network) if decides else None,
        correlated=None if strength is None else bool(strength > 0),
    )
