"""Both estimators document every parameter, and settings as the recipe does."""

from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor
from tests.fitting.settings_docs import documented, parameters_of


def test_every_parameter_is_documented_in_order_and_alike():
    regressor, classifier = map(parameters_of, (ScaleMixRegressor, ScaleMixClassifier))
    assert list(regressor) == list(ScaleMixRegressor.__init__.__kwdefaults__ or {})
    assert regressor == classifier


def test_settings_are_documented_as_the_recipe_does():
    parameters = parameters_of(ScaleMixRegressor)
    for name, entry in documented(without=("task",)).items():
        assert parameters[name] == entry
