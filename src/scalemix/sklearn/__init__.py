"""scikit-learn estimators: `ScaleMixRegressor` and `ScaleMixClassifier`, and their encoder."""

try:
    from scalemix.sklearn.classifier import ScaleMixClassifier
    from scalemix.sklearn.regressor import ScaleMixRegressor
    from scalemix.sklearn.table_encoder import TableEncoder
except ModuleNotFoundError as _error:
    if (_error.name or "").partition(".")[0] != "sklearn":
        raise
    raise ModuleNotFoundError(
        'The estimators need scikit-learn: pip install "scalemix[sklearn]"', name="sklearn"
    ) from None

__all__ = ["ScaleMixClassifier", "ScaleMixRegressor", "TableEncoder"]
