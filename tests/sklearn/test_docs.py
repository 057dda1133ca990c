"""Both estimators document every parameter, and settings as the recipe does."""

from scalemix.sklearn import ScaleMixClassifier, ScaleMixRegressor
from tests.fitting.settings_docs import documented, parameters_of


def test_every_parameter_is_documented_in_order_and_alike():
    regressor, classifier = map(parameters_of, (ScaleMixRegressor, ScaleMixClassifier))
    for documented_ones, kind in ((regressor, ScaleMixRegressor), (classifier, ScaleMixClassifier)):
        assert list(documented_ones) == list(kind.__init__.__kwdefaults__ or {})
    own = {"target", "class_weight"}
    assert regressor.keys() ^ classifier.keys() == own
    assert all(regressor[name] == classifier[name] for name in regressor.keys() - own)


def test_settings_are_documented_as_the_recipe_does():
    parameters = parameters_of(ScaleMixRegressor)
    for name, entry in documented(without=("task",)).items():
        assert parameters[name] == entry
