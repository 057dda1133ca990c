"""Settings: what is known of each, once."""

import subprocess
import sys
from typing import get_args

import pytest

from scalemix.fitting.building import MIXTURES, PRIORS
from scalemix.fitting.kinds import Mention, SettingError
from scalemix.fitting.recipes import Recipe
from scalemix.fitting.settings import (
    MIXTURE_NAMES,
    PRIOR_NAMES,
    TARGET_NAMES,
    Objective,
    RecipeSettings,
    Sampler,
    settings_of,
)
from scalemix.inference.chains.mcmc import SamplerName
from scalemix.inference.training.noise import ObjectiveName
from scalemix.inference.training.objectives import OBJECTIVES
from scalemix.likelihoods import TARGETS
from scalemix.tables.targets import NUMBERS
from tests.fitting.settings_docs import documented, parameters_of


def test_every_name_stands_for_something():
    assert tuple(PRIORS) == PRIOR_NAMES
    assert tuple(MIXTURES) == MIXTURE_NAMES
    assert tuple(TARGETS) == tuple(NUMBERS) == TARGET_NAMES
    assert get_args(Objective) == get_args(ObjectiveName)
    assert set(get_args(Objective)) == set(OBJECTIVES)
    assert set(get_args(Sampler)) == set(get_args(SamplerName))


def test_every_default_is_a_value_that_the_setting_may_have():
    recipe = Recipe()
    for name, known in settings_of(Recipe).items():
        assert known.kind.check(name, getattr(recipe, name)) == getattr(recipe, name)
        assert known.meaning.endswith(".")
    assert settings_of(Recipe) == settings_of(RecipeSettings)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"residual": "no"}, "residual must be True or False, got 'no'"),
        ({"mixture_parameters": 3}, "mixture_parameters must be a dict of numbers, got 3"),
        ({"num_draws": None}, "num_draws must be a positive whole number, got None"),
        ({"learning_rate": True}, "learning_rate must be a positive number, got True"),
    ],
)
def test_values_of_other_kinds_are_refused(settings, reason):
    with pytest.raises(SettingError, match=reason):
        Recipe(**settings)


def test_a_message_spells_settings_as_its_door_does():
    error = SettingError("Use ", Mention("prior", "ard"), " with ", Mention("hidden"), ".")
    assert str(error) == "Use prior='ard' with hidden."
    assert error.spelled(lambda mention: mention.name.upper()) == "Use PRIOR with HIDDEN."


def test_settings_come_without_jax():
    code = "import sys, scalemix.fitting.settings; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_the_recipe_documents_every_setting():
    assert parameters_of(Recipe) == documented()
