"""scikit-learn estimators: `ScaleMixRegressor` and `ScaleMixClassifier`."""

from scalemix.sklearn.classifier import ScaleMixClassifier
from scalemix.sklearn.regressor import ScaleMixRegressor

__all__ = ["ScaleMixClassifier", "ScaleMixRegressor"]
