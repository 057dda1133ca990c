"""What both estimators share: the settings, and everything that follows from a posterior."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from scalemix._warnings import warn
from scalemix.data.bins import Bins, check_bins
from scalemix.data.preparation import InputWarning
from scalemix.data.ranges import Ranges, find_ranges, warn_outside
from scalemix.data.values import check_weights, refuse_masked
from scalemix.fitting.recipes import Recipe, Trial
from scalemix.fitting.settings import Task, settings_of
from scalemix.posterior.conformal import Conformal, calibrate, rows_apart
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive
from scalemix.posterior.pruning import Report
from scalemix.posterior.storage import from_bytes, to_bytes
from scalemix.sklearn.inputs import (
    Encoder,
    NumberEncoder,
    Rows,
    count,
    learn_encoder,
    needs_encoding,
    take,
)
from scalemix.sklearn.targets import MissingTarget
from scalemix.tables import Table, is_frame, table_of
from scalemix.tables.reading import listing

# What the constructors hand on to a recipe, where they have it. The task is a matter of the class.
RECIPE_SETTINGS = tuple(name for name in settings_of(Recipe) if name != "task")


class ScaleMixEstimator(BaseEstimator):
    """The base of both estimators, whose constructors have one option more each."""

    task: ClassVar[Task]
    posterior_: Posterior
    encoder_: Encoder
    trials_: tuple[Trial, ...]
    conformal_: Conformal | None
    ranges_: Ranges | None
    n_features_in_: int

    def __init__(
        self,
        *,
        prior: str = "ard-add",
        mixture: str = "auto",
        mixture_parameters: Mapping[str, float] | None = None,
        inference: Literal["em", "noise", "mcmc"] = "em",
        bins: Bins = None,
        hidden: Sequence[int] = (50, 50),
        residual: bool = True,
        num_members: int | None = None,
        num_trial_members: int = 4,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float = 1e-2,
        temperature: float | Literal["auto"] = "auto",
        noise_floor: float | Literal["auto"] = "auto",
        objective: str = "tail_adaptive",
        num_draws: int = 10,
        sampler: str = "mclmc",
        devices: int | None = None,
        missing_target: MissingTarget = "error",
        calibration: float | None = None,
        random_state: Any = None,
        verbose: bool | int = False,
    ):
        self.prior = prior
        self.mixture = mixture
        self.mixture_parameters = mixture_parameters
        self.inference = inference
        self.bins: Bins = bins
        self.hidden = hidden
        self.residual = residual
        self.num_members = num_members
        self.num_trial_members = num_trial_members
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.temperature = temperature
        self.noise_floor = noise_floor
        self.objective = objective
        self.num_draws = num_draws
        self.sampler = sampler
        self.devices = devices
        self.missing_target = missing_target
        self.calibration = calibration
        self.random_state = random_state
        self.verbose = verbose

    def _check(
        self, X: Any, y: Any, *, numeric: bool, several: bool = False
    ) -> tuple[Rows, np.ndarray]:
        """Table and target, of which there may be `several`, by the rules of scikit-learn."""
        refuse_masked("X", X)
        refuse_masked("y", y)
        if needs_encoding(X):
            # Names and number of columns are noted; the cells are for the encoder to check.
            validate_data(self, X, skip_check_array=True)
            table = table_of(X)
            # Targets are checked together with an array, which is not looked at.
            _, y = check_X_y(
                np.zeros((table.num_rows, 1)), y, y_numeric=numeric, multi_output=several
            )
            X = table
        else:
            X, y = validate_data(
                self, X, y, dtype=np.float64, y_numeric=numeric, multi_output=several
            )
        return X, column_or_1d(y, warn=True) if y.shape[1:] == (1,) else y

    def _fit(self, x: Rows, y: np.ndarray, weight: Any, num_classes: int | None) -> None:
        given = self.get_params(deep=False)
        settings = {name: given[name] for name in RECIPE_SETTINGS if name in given}
        recipe = Recipe(task=self.task, **settings)
        check_bins(self.bins)
        if weight is not None:
            # scikit-learn's own estimators take one number for all rows.
            if isinstance(weight, Real):
                weight = np.full(count(x), weight)
            weight = check_weights(weight, count(x))
            if isinstance(x, Table):
                # Rows of weight zero are as good as none, whatever their cells hold.
                counting = np.flatnonzero(weight)
                x, y, weight = take(x, counting), y[counting], weight[counting]
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        kept, apart = rows_apart(self.calibration, count(x), weight, np.random.default_rng(seed))
        (x, to_calibrate), (y, outcomes) = (take(x, kept), take(x, apart)), (y[kept], y[apart])
        weight = None if weight is None else weight[kept]
        # Held-out rows decide on such bins, where they decide on anything.
        bins = None if self.bins == "auto" and not recipe.can_choose_bins else self.bins
        self.encoder_ = learn_encoder(x, bins, weight)
        inputs = self.encoder_.encode(x)
        counted = inputs if weight is None else inputs[weight > 0]
        names = getattr(
            self, "feature_names_in_", [f"column {i}" for i in range(self.n_features_in_)]
        )
        self.ranges_ = find_ranges(
            self.encoder_.numbers(counted), self.encoder_.number_names(list(names))
        )
        fitted = recipe.fit(
            inputs, y, key=jax.random.key(seed), num_classes=num_classes, sample_weight=weight,
            layout=self.encoder_.layout, progress=bool(self.verbose),
        )  # fmt: skip
        self.posterior_, self.trials_ = fitted
        self.conformal_ = None
        if len(apart):
            self.conformal_ = calibrate(
                self.posterior_.predict(self.encoder_.encode(to_calibrate)), outcomes
            )

    def encode(self, X: Any) -> np.ndarray:
        """The inputs that `posterior_` takes: the columns and, with `bins`, their bins.

        All other methods do this themselves.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.

        Returns
        -------
        ndarray of shape (rows, inputs)
            The inputs of the networks, in double precision.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> ScaleMixRegressor(bins=2, **settings).fit(x, y).encode(x).shape
        (40, 9)
        """
        check_is_fitted(self, "posterior_")
        refuse_masked("X", X)
        if isinstance(self.encoder_, NumberEncoder):
            rows: Rows = np.asarray(validate_data(self, X, reset=False, dtype=np.float64))
        else:
            if not is_frame(X):
                raise ValueError(
                    f"The estimator was fitted to a data frame with the columns "
                    f"{listing(self.encoder_.names)}; got {type(X).__name__}."
                )
            validate_data(self, X, reset=False, skip_check_array=True)
            rows = table_of(X)
            if surprises := self.encoder_.columns.surprises(rows):
                warn(f"Training had nothing like this: {'; '.join(surprises)}.", InputWarning)
        x = self.encoder_.encode(rows)
        if self.ranges_ is not None:
            warn_outside(self.ranges_, self.encoder_.numbers(x))
        return x

    @property
    def bin_edges_(self) -> tuple[tuple[float, ...], ...]:
        """The ends of each column's bins."""
        check_is_fitted(self, "posterior_")
        return self.encoder_.edges

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of the targets: moments, quantiles, densities, samples.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.

        Returns
        -------
        scalemix.Predictive
            One distribution a row. Classes are numbered as in `classes_`.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> ScaleMixRegressor(**settings).fit(x, y).predict_dist(x).quantile(0.5).shape
        (40,)
        """
        # Encoding comes first: it says so if nothing has been fitted yet.
        x = self.encode(X)
        return self.posterior_.predict(x)

    def calibrate(self, X: Any, y: Any) -> Any:
        """Calibrate conformal intervals, or sets of classes, by rows that `fit` has not seen.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table of such rows, drawn like those that are to be predicted.
        y : array-like of shape (rows,) or (rows, targets)
            Their targets.

        Returns
        -------
        ScaleMixRegressor or ScaleMixClassifier
            The estimator itself.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> estimator = ScaleMixRegressor(**settings).fit(x[:20], y[:20]).calibrate(x[20:], y[20:])
        >>> lower, upper = estimator.predict_interval(x, 0.8, interval="conformal")
        >>> bool((lower < upper).all())
        True
        """
        predictive = self.predict_dist(X)
        self.conformal_ = calibrate(predictive, self._outcomes(y))
        return self

    def _outcomes(self, y: Any) -> Any:
        """Targets as the likelihood takes them."""
        return y

    def _calibrated(self) -> Conformal:
        """What rows that were kept apart say, or a `ValueError` that says how to get it."""
        check_is_fitted(self, "posterior_")
        if self.conformal_ is None:
            raise ValueError(
                "Nothing is calibrated: fit with calibration=0.2, which keeps a fifth of the rows "
                "apart, or call calibrate(X, y) with rows that fit has not seen."
            )
        return self.conformal_

    @property
    def relevance_(self) -> np.ndarray:
        """Each column's share of the prior variance of the weights that read it.

        With `bins`, a column counts with the mean of the inputs that were made of it; a sum would
        favour columns with many bins.
        """
        check_is_fitted(self, "posterior_")
        means = self.encoder_.by_column(self.posterior_.relevance().inputs)
        return means / means.sum()

    @property
    def effective_width_(self) -> np.ndarray:
        """How many units of each hidden layer are on, a mean over the members."""
        check_is_fitted(self, "posterior_")
        return np.array(list(self.posterior_.relevance().effective_width.values()))

    @property
    def effective_depth_(self) -> float:
        """How many hidden layers are on, a mean over the members."""
        check_is_fitted(self, "posterior_")
        return self.posterior_.relevance().effective_depth

    def prune(
        self, X: Any = None, *, threshold: float = 0.01, tolerance: float | None = None
    ) -> Report:
        """Remove the units and layers that are off from the fitted networks.

        The estimator itself becomes smaller; `sklearn.base.clone` and a new fit give the full one.
        Conformal intervals have to be calibrated anew.

        Parameters
        ----------
        X : array-like of shape (rows, columns), optional
            A table on which the change of predictions is measured.
        threshold : float, default=0.01
            The ratio of signal to noise below which a unit is off.
        tolerance : float, optional
            With `X`: remove the least relevant parts first, and only as long as the mean
            predictions change by no more than this share of their spread.

        Returns
        -------
        scalemix.pruning.Report
            What was removed, and how much predictions changed.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> report = ScaleMixRegressor(**settings).fit(x, y).prune(x)
        >>> report.num_members
        2
        """
        check_is_fitted(self, "posterior_")
        X = None if X is None else self.encode(X)
        pruned = self.posterior_.prune(X, threshold=threshold, tolerance=tolerance)
        self.posterior_ = pruned.posterior
        # What was calibrated were the predictions of other networks.
        self.conformal_ = None
        return pruned.report

    # Networks hold functions that do not pickle, so a posterior travels as the file that it saves.

    def __getstate__(self) -> dict[str, Any]:
        inherited: Any = super().__getstate__()
        state = dict(inherited)
        if "posterior_" in state:
            state["posterior_"] = to_bytes(state["posterior_"])
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "posterior_" in state:
            state = state | {"posterior_": from_bytes(state["posterior_"])}
        # Pickles from before some settings, and from before there was an encoder.
        defaults = type(self)().get_params(deep=False)
        state = {**defaults, **state}
        if "bin_edges_" in state:
            edges = state.pop("bin_edges_")
            state |= {"encoder_": NumberEncoder(edges, False), "conformal_": None, "ranges_": None}
        super().__setstate__(state)
