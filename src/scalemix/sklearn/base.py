"""What both estimators share: the settings, and everything that follows from a posterior."""

from functools import partial
from numbers import Real
from typing import Any, ClassVar

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, check_X_y

from scalemix._text import listing, shortened
from scalemix._warnings import Said, warn
from scalemix.analysis.column_relevance import input_variances, shares_of_columns
from scalemix.data.bins import Bins, check_bins
from scalemix.data.preparation import InputWarning
from scalemix.data.ranges import (
    Outside,
    Ranges,
    find_ranges,
    strays_in_words,
    warn_outside,
)
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
    note_columns,
    take,
    validated,
)
from scalemix.sklearn.targets import MissingTarget, with_targets
from scalemix.tables import Table, is_frame, table_of

# What the constructors hand on to a recipe, where they have it. The task is a matter of the class.
RECIPE_SETTINGS = tuple(name for name in settings_of(Recipe) if name != "task")


class ScaleMixEstimator(BaseEstimator):
    """The base of both estimators.

    scikit-learn reads the settings of an estimator off its constructor, so that each of the two has
    a signature of its own.
    """

    task: ClassVar[Task]
    posterior_: Posterior
    encoder_: Encoder
    trials_: tuple[Trial, ...]
    input_variances_: np.ndarray
    conformal_: Conformal | None
    # Whether pruning made an earlier calibration void; pickles from before do not say it.
    _calibration_pruned: bool = False
    # Inputs that pruning has left unread, likewise.
    _unread: tuple[int, ...] = ()
    # Which remarks were made on which rows. It changes as predictions are made, and is of no use to
    # another process.
    _said: Said
    ranges_: Ranges | None
    n_features_in_: int
    bins: Bins
    missing_target: MissingTarget
    calibration: float | None
    random_state: Any
    verbose: bool | int

    def _check(
        self, X: Any, y: Any, *, numeric: bool, several: bool = False
    ) -> tuple[Rows, np.ndarray]:
        """Table and target, of which there may be `several`, by the rules of scikit-learn."""
        refuse_masked("X", X)
        refuse_masked("y", y)
        if is_frame(X) and not len(X):
            raise ValueError("X has no rows: there is nothing to learn from.")
        if needs_encoding(X):
            note_columns(self, X, reset=True)
            table = table_of(X)
            # Targets are checked together with an array, which is not looked at.
            _, y = check_X_y(
                np.zeros((table.num_rows, 1)), y, y_numeric=numeric, multi_output=several
            )
            X = table
        else:
            X, y = validated(self, X, y, dtype=np.float64, y_numeric=numeric, multi_output=several)
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
        # Held-out rows decide on what "auto" adds, where they decide on anything.
        num_rows = count(x) if weight is None else int(np.count_nonzero(weight))
        can_choose = recipe.can_choose_bins(num_rows)
        bins = None if self.bins == "auto" and not can_choose else self.bins
        self.encoder_ = learn_encoder(x, bins, weight, look_up=recipe.can_look_up)
        if lost := self.encoder_.lost:
            told = shortened(f"{name!r} ({why})" for name, why in lost.items())
            warn(f"Nothing is learned from these columns: {told}.", InputWarning)
        inputs = self.encoder_.encode(x)
        counted = inputs if weight is None else inputs[weight > 0]
        names = self._column_names()
        numbers, number_names = self.encoder_.numbers(counted), self.encoder_.number_names(names)
        if (said := strays_in_words(numbers, number_names)) is not None:
            warn(said, InputWarning)
        self.ranges_ = find_ranges(numbers, number_names)
        fitted = recipe.fit(
            inputs, y, key=jax.random.key(seed), num_classes=num_classes, sample_weight=weight,
            layout=self.encoder_.layout, progress=bool(self.verbose),
        )  # fmt: skip
        self.posterior_, self.trials_ = fitted
        self.input_variances_ = input_variances(self.posterior_, inputs, weight)
        self.conformal_, self._calibration_pruned, self._unread = None, False, ()
        self._said = Said()
        if len(apart):
            self.conformal_ = calibrate(
                self.posterior_.predict(self.encoder_.encode(to_calibrate)), outcomes
            )

    def _column_names(self) -> list[str]:
        numbered = [f"column {i}" for i in range(self.n_features_in_)]
        return list(getattr(self, "feature_names_in_", numbered))

    def encode(self, X: Any) -> np.ndarray:
        """The inputs that `posterior_` takes: the columns and, with `bins`, what these add.

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
        x, outside = self._look(X)
        if outside is not None:
            warn_outside(outside, self._said, x)
        return x

    def outside(self, X: Any) -> Outside:
        """How far rows lie outside those of training, column by column and together.

        Parameters
        ----------
        X : array-like or data frame of shape (rows, columns)
            A table, as `fit` takes it.

        Returns
        -------
        scalemix.data.ranges.Outside
            `by_row` is one number for each row: zero inside, else by how much it is outside; one or
            more for a row with a word that training did not have, which is in `unknown`, or without
            any value. `is_far` says which rows are far outside, above 0.5; these are the ones that
            a `RangeWarning` counts.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> estimator = ScaleMixRegressor(**settings).fit(x, y)
        >>> estimator.outside(x).by_row.max(), bool((estimator.outside(100 * x).by_row > 0).all())
        (np.float64(0.0), True)
        """
        _, outside = self._look(X)
        if outside is None:
            raise ValueError("The estimator is from before ranges were kept: fit it again.")
        return outside

    def _look(self, X: Any) -> tuple[np.ndarray, Outside | None]:
        """The inputs of networks, and how far rows lie outside, as far as it is known."""
        check_is_fitted(self, "posterior_")
        refuse_masked("X", X)
        surprises: list[str] = []
        if isinstance(self.encoder_, NumberEncoder):
            rows: Rows = np.asarray(validated(self, X, reset=False, dtype=np.float64))
        else:
            if not is_frame(X):
                raise ValueError(
                    f"The estimator was fitted to a data frame with the columns "
                    f"{listing(self.encoder_.names)}; got {type(X).__name__}."
                )
            note_columns(self, X, reset=False)
            rows = table_of(X)
            surprises = self.encoder_.columns.surprises(rows)
        x = self.encoder_.encode(rows)
        if surprises:
            told = f"Training had nothing like this: {'; '.join(surprises)}."
            self._said.warn(told, InputWarning, x)
        if self.ranges_ is None:
            return x, None
        return x, self.encoder_.outside(self.ranges_, rows, x)

    @property
    def bin_edges_(self) -> tuple[tuple[float, ...], ...]:
        """The ends of each column's bins."""
        check_is_fitted(self, "posterior_")
        return self.encoder_.edges

    @property
    def repeated_numbers_(self) -> tuple[tuple[float, ...], ...]:
        """The numbers of each column that have inputs of their own."""
        check_is_fitted(self, "posterior_")
        return self.encoder_.repeated_numbers

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
        >>> ScaleMixRegressor(**settings).fit(x, y).predict_dist(x[:5]).quantile(0.5).shape
        (5,)
        """
        # Encoding comes first: it says so if nothing has been fitted yet.
        x = self.encode(X)
        predictive = self.posterior_.predict(x)
        predictive._warn = partial(self._said.warn, rows=x)
        return predictive

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
        >>> lower, upper = estimator.predict_interval(x[:5], 0.8, interval="conformal")
        >>> bool((lower < upper).all())
        True
        """
        X, y, _ = with_targets(self.missing_target, X, y, None)
        predictive = self.predict_dist(X)
        self.conformal_ = calibrate(predictive, self._outcomes(y))
        return self

    def _outcomes(self, y: Any) -> Any:
        """Targets as the likelihood takes them."""
        return y

    def _calibrated(self) -> Conformal:
        """What rows that were kept apart say, or a `ValueError` that says how to get it."""
        check_is_fitted(self, "posterior_")
        if self.conformal_ is None and self._calibration_pruned:
            raise ValueError(
                "Pruning dropped the calibration, for it was that of other predictions: call "
                "calibrate(X, y) with rows that fit has not seen, or use the estimator as it was "
                "before pruning."
            )
        if self.conformal_ is None and getattr(self, "target", None) == "time":
            raise ValueError(
                "Nothing is calibrated, and conformal intervals are not available for times that "
                "were not all observed to the end. Where all were, fit with calibration=0.2."
            )
        if self.conformal_ is None:
            raise ValueError(
                "Nothing is calibrated: fit with calibration=0.2, which keeps a fifth of the rows "
                "apart, or call calibrate(X, y) with rows that fit has not seen."
            )
        return self.conformal_

    @property
    def relevance_(self) -> np.ndarray:
        """Each column's share of the variance that the prior gives to what the first layer reads.

        A column counts by all inputs that were made of it, its bins or categories, together: each
        with the prior variance of its weights times its own variance over the training rows.
        """
        check_is_fitted(self, "posterior_")
        places = self.encoder_.places
        return shares_of_columns(self.posterior_, self.input_variances_, places)

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
        self._calibration_pruned = self.conformal_ is not None or self._calibration_pruned
        self.conformal_ = None
        names = self._column_names()
        columns = dict(zip(names, self.encoder_.places, strict=True))
        report = pruned.report.by_column(columns, self._unread)
        self._unread = report.inputs_off
        return report

    # Networks hold functions that do not pickle, so a posterior travels as the file that it saves.

    def __getstate__(self) -> dict[str, Any]:
        inherited: Any = super().__getstate__()
        state = dict(inherited)
        if "posterior_" in state:
            state["posterior_"] = to_bytes(state["posterior_"])
        state.pop("_said", None)
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
        if "posterior_" in state:
            # Pickles from before it was kept take all inputs to vary alike.
            state.setdefault("input_variances_", np.ones(1))
            state["_said"] = Said()
        super().__setstate__(state)
