"""scikit-learn estimators: `ScaleMixRegressor` and `ScaleMixClassifier`."""

from scalemix.sklearn.estimators import ScaleMixClassifier, ScaleMixRegressor

__all__ = ["ScaleMixClassifier", "ScaleMixRegressor"]
