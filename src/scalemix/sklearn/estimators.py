"""scikit-learn estimators: `ScaleMixRegressor` and `ScaleMixClassifier`."""

import tempfile
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal

import jax
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from scalemix.data.bins import check_bins, find_edges, ramps
from scalemix.data.checks import check_weights, refuse_masked
from scalemix.fitting.recipes import Recipe, Task, Trial
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Predictive
from scalemix.posterior.storage import load

# What the constructors hand on as it is.
RECIPE = (
    "prior", "mixture", "mixture_parameters", "inference", "hidden", "residual", "num_members",
    "num_trial_members", "max_steps", "batch_size", "learning_rate", "temperature", "noise_floor",
    "objective", "num_draws", "sampler",
)  # fmt: skip


class _ScaleMixEstimator(BaseEstimator):
    """What both estimators share: the settings, and all that follows from a posterior."""

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
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, x: Any, y: np.ndarray, sample_weight: Any, num_classes: int | None) -> None:
        recipe = Recipe(task=self.task, **{name: getattr(self, name) for name in RECIPE})
        check_bins(self.bins)
        if sample_weight is not None:
            # One number for all rows is a habit of scikit-learn's.
            if isinstance(sample_weight, Real):
                sample_weight = np.full(len(x), sample_weight)
            sample_weight = check_weights(sample_weight, len(x))
        self.bin_edges_ = tuple(
            () if self.bins is None else find_edges(column, self.bins, sample_weight)
            for column in x.T
        )
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        fitted = recipe.fit(
            self._encode(x), y, key=jax.random.key(seed), num_classes=num_classes,
            sample_weight=sample_weight, progress=bool(self.verbose),
        )  # fmt: skip
        self.posterior_, self.trials_ = fitted

    def encode(self, X: Any) -> np.ndarray:
        """A table as the networks of `posterior_` take it: with `bins`, the columns and the bins.

        Without, the table itself. All the estimator's own methods do this themselves.
        """
        check_is_fitted(self, "posterior_")
        refuse_masked("X", X)
        return self._encode(np.asarray(validate_data(self, X, reset=False, dtype=np.float64)))

    def _encode(self, x: np.ndarray) -> np.ndarray:
        binned = [ramps(column, edges) for column, edges in zip(x.T, self.bin_edges_, strict=True)]
        return np.concatenate([x, *binned], axis=1)

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of the targets: moments, quantiles, densities, samples.

        Classes are numbered as in `classes_`.
        """
        x = self.encode(X)
        return self.posterior_.predict(x)

    @property
    def relevance_(self) -> np.ndarray:
        """Each column's share of the prior variance of the weights that read it.

        With `bins`, a column has the mean of the inputs that were made of it: a sum would tell
        how many there are.
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
    ) -> Any:
        """Take out the units and layers that are off, for good; a report of what went.

        The estimator itself becomes smaller: `clone` and fit again for the one it was.
        With `X` the report has the largest change in prediction there, and with `tolerance` as
        much goes as changes predictions there by no more than that. See `Posterior.prune`.
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
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "posterior"
                state["posterior_"].save(path)
                state["posterior_"] = path.read_bytes()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "posterior_" in state:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "posterior"
                path.write_bytes(state["posterior_"])
                state = state | {"posterior_": load(path)}
        super().__setstate__(state)


class ScaleMixRegressor(RegressorMixin, _ScaleMixEstimator):
    """A Bayesian network for a real target: predictions with calibrated uncertainty.

    Columns and target are standardised inside.

    Parameters
    ----------
    prior : {"ard-add", "ard", "add", "drop-connect"}
        Who shares a scale: units and layers, units, layers, or no weight with any other. Layers
        that no path leads around have "ard" in place of "ard-add" and "add".
    mixture : str
        The family of the scales: "inverse-gamma", "half-cauchy", "log-uniform", "bernoulli",
        "rayleigh", ...; "auto" is "inverse-gamma", and "bernoulli" for `inference="noise"`.
    mixture_parameters : dict, optional
        Parameters of the family by name, such as `{"keep": 0.9}`; the others have defaults.
    inference : {"em", "noise", "mcmc"}
        Variational EM, training under noise (dropout and its kin), or Markov chain Monte Carlo.
    bins : int, optional
        With 8, say, each column gives up to eight inputs more, by which networks can bend where
        its values lie; fewer if few values differ, and none if only two do. Helps where trees do
        well, harms where the target is smooth: a search over `[None, 8]` tells.
    hidden : sequence of int
        The width of each hidden layer; one width for all of them if `residual`.
    residual : bool
        Whether hidden layers but the first have a path around them.
    num_members : int, optional
        Networks in the ensemble; for MCMC, chains. By default 16 by EM, else 8.
    num_trial_members : int
        Networks with which each setting of `temperature` and `noise_floor` is tried.
    max_steps : int, optional
        Steps of training; of a chain, half of them to adapt. By default 14,000 by EM,
        8,000 by noise training (17,000 and 10,000 for more than 5,000 rows), and 4,000 for MCMC.
    batch_size : int, optional
        Rows in a step: by default 64, and 128 for more than 5,000 rows.
    learning_rate : float
        Where the rate of Adam starts; it falls to zero along a cosine.
    temperature : float or "auto"
        How much EM heeds the prior, one being what Bayes says. By default held-out rows choose.
    noise_floor : float or "auto"
        The least noise scale, in standard deviations of a real target. By default held-out rows
        choose, for EM. Means nothing for classes.
    objective, num_draws : str, int
        The objective of noise training and its draws in a step.
    sampler : {"mclmc", "nuts"}
        The sampler of MCMC.
    random_state : int, RandomState instance or None
        Where all randomness comes from. Predictions of one fit are always the same.
    verbose : bool
        Whether to show a bar.

    Attributes
    ----------
    posterior_ : scalemix.Posterior
    trials_ : tuple of scalemix.recipes.Trial
        The settings that held-out rows chose from, and how each fared.
    bin_edges_ : tuple of tuple of float
        The ends of each column's bins; `encode` gives what `posterior_` takes.
    relevance_ : ndarray
        Each column's share of the prior variance of the weights that read it.
    effective_width_ : ndarray
        How many units of each hidden layer are on.
    effective_depth_ : float
        How many hidden layers are on.
    n_features_in_, feature_names_in_
        The number of columns and, for a data frame, their names.
    """

    task = "regression"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ScaleMixRegressor":
        """The estimator, fitted to a table and one real target a row."""
        shape = getattr(y, "shape", ())
        if len(shape) == 2 and shape[1] > 1:
            raise ValueError(
                f"y should be a 1d array: one target a row, got the shape {shape}. For several "
                f"targets use sklearn.multioutput.MultiOutputRegressor."
            )
        refuse_masked("X", X)
        refuse_masked("y", y)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        self._fit(X, y, sample_weight, None)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of each row's target; with `return_std` its standard deviation too."""
        predictive = self.predict_dist(X)
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of intervals that hold the target with this probability.

        Where settings were chosen on held-out rows, these have calibrated the intervals too: see
        `scalemix.Predictive.interval`.
        """
        return self.predict_dist(X).interval(coverage)


class ScaleMixClassifier(ClassifierMixin, _ScaleMixEstimator):
    """A Bayesian network for classes: probabilities that know what they do not know.

    Columns are standardised inside. Parameters and attributes are those of `ScaleMixRegressor`, and
    `classes_` besides: the classes, sorted. There is no noise for `noise_floor` to bound.
    """

    task = "classification"
    classes_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ScaleMixClassifier":
        """The estimator, fitted to a table and one class a row."""
        refuse_masked("X", X)
        refuse_masked("y", y)
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            only = self.classes_.tolist()[0]
            raise ValueError(f"y holds one class only, {only!r}: there is nothing to tell apart.")
        self._fit(X, numbers, sample_weight, len(self.classes_))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of `classes_`."""
        shares = self.predict_dist(X).mean
        # They add up to one in single precision; here they do so in double.
        return shares / shares.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]
