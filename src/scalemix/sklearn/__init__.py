"""scikit-learn estimators: `ScaleMixRegressor` and `ScaleMixClassifier`."""

try:
    from scalemix.sklearn.classifier import ScaleMixClassifier
    from scalemix.sklearn.regressor import ScaleMixRegressor
except ModuleNotFoundError as _error:
    if (_error.name or "").split(".")[0] != "sklearn":
        raise
    raise ModuleNotFoundError(
        'The estimators need scikit-learn: pip install "scalemix[sklearn]"', name="sklearn"
    ) from None

__all__ = ["ScaleMixClassifier", "ScaleMixRegressor"]
