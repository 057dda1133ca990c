"""What both estimators share: the settings, and everything that follows from a posterior."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Literal

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from scalemix.data.bins import check_bins, find_edges, ramps
from scalemix.data.values import check_weights, refuse_masked
from scalemix.fitting.recipes import Recipe, Trial
from scalemix.fitting.settings import Task, settings_of
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive
from scalemix.posterior.pruning import Report
from scalemix.posterior.storage import from_bytes, to_bytes

# What the constructors hand on to a recipe. The task is a matter of the class.
RECIPE_SETTINGS = tuple(name for name in settings_of(Recipe) if name != "task")


class ScaleMixEstimator(BaseEstimator):
    """The base of both estimators."""

    task: ClassVar[Task]
    posterior_: Posterior
    bin_edges_: tuple[tuple[float, ...], ...]
    trials_: tuple[Trial, ...]
    n_features_in_: int

    def __init__(
        self,
        *,
        prior: str = "ard-add",
        mixture: str = "auto",
        mixture_parameters: Mapping[str, float] | None = None,
        inference: Literal["em", "noise", "mcmc"] = "em",
        bins: int | None = None,
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
        random_state: Any = None,
        verbose: bool | int = False,
    ):
        self.prior = prior
        self.mixture = mixture
        self.mixture_parameters = mixture_parameters
        self.inference = inference
        self.bins = bins
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
        self.random_state = random_state
        self.verbose = verbose

    def _check(
        self, X: Any, y: Any, *, numeric: bool, several: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Table and target, of which there may be `several`, by the rules of scikit-learn."""
        refuse_masked("X", X)
        refuse_masked("y", y)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=numeric, multi_output=several)
        return X, column_or_1d(y, warn=True) if y.shape[1:] == (1,) else y

    def _fit(self, x: np.ndarray, y: np.ndarray, weight: Any, num_classes: int | None) -> None:
        recipe = Recipe(task=self.task, **{name: getattr(self, name) for name in RECIPE_SETTINGS})
        check_bins(self.bins)
        if weight is not None:
            # scikit-learn's own estimators take one number for all rows.
            if isinstance(weight, Real):
                weight = np.full(len(x), weight)
            weight = check_weights(weight, len(x))
        self.bin_edges_ = tuple(
            () if self.bins is None else find_edges(column, self.bins, weight) for column in x.T
        )
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        fitted = recipe.fit(
            self._encode(x), y, key=jax.random.key(seed), num_classes=num_classes,
            sample_weight=weight, progress=bool(self.verbose),
        )  # fmt: skip
        self.posterior_, self.trials_ = fitted

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
        return self._encode(np.asarray(validate_data(self, X, reset=False, dtype=np.float64)))

    def _encode(self, x: np.ndarray) -> np.ndarray:
        binned = [ramps(column, edges) for column, edges in zip(x.T, self.bin_edges_, strict=True)]
        return np.concatenate([x, *binned], axis=1)

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

    @property
    def relevance_(self) -> np.ndarray:
        """Each column's share of the prior variance of the weights that read it.

        With `bins`, a column counts with the mean of the inputs that were made of it; a sum would
        favour columns with many bins.
        """
        check_is_fitted(self, "posterior_")
        num_bins = [max(len(edges) - 1, 0) for edges in self.bin_edges_]
        columns = np.arange(len(num_bins))
        owners = np.concatenate([columns, np.repeat(columns, num_bins)])
        means = np.bincount(owners, self.posterior_.relevance().inputs) / np.bincount(owners)
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
        super().__setstate__(state)
