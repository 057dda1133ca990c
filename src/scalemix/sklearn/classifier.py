"""`ScaleMixClassifier`, for classes."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from scalemix._warnings import warn
from scalemix.data.bins import Bins
from scalemix.data.preparation import InputWarning
from scalemix.data.values import check_classes
from scalemix.fitting.settings import Task
from scalemix.posterior.streaming import refuse_lost
from scalemix.sklearn.base import ScaleMixEstimator
from scalemix.sklearn.targets import ClassWeight, MissingTarget, weigh_classes, with_targets


class ScaleMixClassifier(ClassifierMixin, ScaleMixEstimator):
    """A Bayesian network for classes: probabilities that know what they do not know.

    Columns are standardised inside.

    Parameters
    ----------
    class_weight : dict or "balanced", optional
        How many rows a row of each class counts as, by class; classes that are not named count
        once. With "balanced" all classes count the same together. Weights make rare classes more
        probable than they are: probabilities are then those of a table with so many rows of each.
    prior : {"ard", "drop-connect", "add", "ard-add"}, default="ard-add"
        Which weights share a scale: those of a unit ("ard"), those of a layer ("add"), both
        ("ard-add"), or none ("drop-connect"). In layers that no path leads around, "add" and
        "ard-add" mean "ard".
    mixture : str, default="auto"
        The family of the scales: bernoulli, beta, exponential, gamma, gaussian, half-cauchy,
        inverse-gamma, inverse-nakagami, log-uniform, rayleigh, uniform, or auto, which is bernoulli
        for noise training and inverse-gamma otherwise. With auto, the first layer of EM has
        half-Cauchy scales by column instead, where columns became several inputs. A family that is
        named holds for all layers.
    mixture_parameters : dict, optional
        Parameters of the family by name, such as keep for Bernoulli scales. The others keep their
        defaults.
    inference : {"em", "noise", "mcmc"}, default="em"
        Variational EM ("em"), training under noise ("noise": dropout and its relatives), or Markov
        chain Monte Carlo ("mcmc").
    bins : int, "auto" or None, default="auto"
        How many extra inputs to make of each column of numbers, up to this number, so that networks
        can bend where its values lie. A column of few values gives fewer, and one of two values
        gives none. Bins help where trees do well. With "auto", their number follows that of the
        rows, each number that many rows share has an input of its own as well, and held-out rows
        that choose among settings also decide whether networks read them. That takes variational EM
        with `mixture="auto"`, a prior other than "drop-connect", and a setting that is left to
        held-out rows, and at least 40 rows to train on; otherwise there are no bins then. With
        `None` there are none.
    hidden : sequence of int, optional
        The width of each hidden layer. All are equal in a residual network. By default 50 and 50,
        and 16 and 16 for MCMC.
    residual : bool, optional
        Whether every hidden layer but the first has a path around it. By default so, except for
        MCMC.
    num_members : int, optional
        How many networks the ensemble has; for MCMC, how many chains run. By default 16 for EM with
        up to 20,000 rows, and 8 otherwise.
    num_trial_members : int, optional
        How many networks are fitted to try each combination of settings that held-out rows choose
        among. Each holds out another quarter of the rows. By default 2, and 1 for more than 20,000
        rows.
    max_steps : int, optional
        Steps of training; for MCMC, steps of each chain, the first half of which adapt the sampler.
        By default 8,000, and 10,000 for more than 5,000 rows; 3,200 for MCMC; for EM 4,000 with up
        to 500 rows, 6,000 with up to 1,000, and 4,000 with more than 20,000, whose batches are
        larger; for EM with classes 4,000, and 5,000 for 5,000 to 20,000 rows.
    batch_size : int, optional
        Rows in a step of training. By default 64; 128 for more than 5,000 rows; and 512 for EM with
        more than 20,000. Chains use all rows.
    learning_rate : float, optional
        Where the rate of Adam starts. It falls to zero along a cosine. By default 0.01; for EM 0.02
        with up to 500 rows and no classes, and 0.003 with classes and more than 20,000 rows.
    temperature : float or "auto", default="auto"
        How strongly EM weighs the prior; 1 is Bayes' rule. With "auto", held-out rows choose.
    noise_floor : float or "auto", default="auto"
        The least noise of a real target, in standard deviations of it; of other numbers, the
        `floor` of their likelihood. With "auto", held-out rows choose for EM; otherwise it is
        0.001, or the likelihood's own. Classes have no such noise.
    objective : str, default="tail_adaptive"
        What noise training maximises: lower_bound, importance_weighted, truncated, pareto_smoothed,
        tail_adaptive, hierarchical.
    num_draws : int, default=10
        Draws of the noise in each step of noise training.
    sampler : {"nuts", "mclmc"}, default="mclmc"
        The sampler of MCMC.
    devices : int, optional
        How many devices the networks or chains are spread over. By default all there are.
    missing_target : {"error", "drop"}, default="error"
        What to do with rows that have no target, which are NaN or None in `y`: refuse them, or
        leave them out with a warning that has their number.
    calibration : float, optional
        The share of the rows, up to 10,000 of them, that the fit leaves out to calibrate conformal
        intervals or sets of classes. By default none, as with 0, and `calibrate` takes rows of
        one's own.
    random_state : int, RandomState instance or None, default=None
        The source of all randomness. One fitted estimator always predicts the same.
    verbose : bool, default=False
        Whether to show a progress bar.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    posterior_ : scalemix.Posterior
        What the fit returned. Its classes are the positions in `classes_`.
    trials_ : tuple of scalemix.recipes.Trial
        The settings that held-out rows chose from, and how each fared. Empty if none were tried.
    encoder_ : object
        What became of the columns: `encoder_.layout` has the column of each input.
    bin_edges_ : tuple of tuple of float
        The ends of each column's bins, empty without `bins`.
    repeated_numbers_ : tuple of tuple of float
        The numbers of each column that have inputs of their own, empty unless `bins` is "auto".
    relevance_ : ndarray of shape (columns,)
        Each column's share of the variance that the prior gives to what the first layer reads: the
        prior variance of a weight times the variance of its input over the training rows, summed
        over the inputs that the column became.
    effective_width_ : ndarray of shape (hidden layers,)
        How many units of each hidden layer are on, a mean over the members.
    effective_depth_ : float
        How many hidden layers are on, a mean over the members.
    conformal_ : scalemix.posterior.conformal.Conformal or None
        What rows that were kept apart say of conformal intervals or sets; `None` without such rows.
    ranges_ : Ranges
        What the training data lie between. Rows far outside are said in a
        `scalemix.RangeWarning`, and `outside(X).by_row` has how far each row is.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        The names of the columns, if the estimator was fitted to a data frame.

    Examples
    --------
    >>> from scalemix.sklearn import ScaleMixClassifier
    >>> estimator = ScaleMixClassifier(
    ...     max_steps=20, num_members=2, temperature=1.0, noise_floor=0.1, random_state=0
    ... )
    >>> labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    >>> estimator.fit(x, labels).classes_.tolist()
    ['high', 'low', 'middle']
    >>> estimator.predict_proba(x[:5]).shape
    (5, 3)
    """

    task: ClassVar[Task] = "classification"
    class_weight: ClassWeight
    classes_: np.ndarray

    def __init__(
        self,
        *,
        class_weight: ClassWeight = None,
        prior: str = "ard-add",
        mixture: str = "auto",
        mixture_parameters: Mapping[str, float] | None = None,
        inference: Literal["em", "noise", "mcmc"] = "em",
        bins: Bins = "auto",
        hidden: Sequence[int] | None = None,
        residual: bool | None = None,
        num_members: int | None = None,
        num_trial_members: int | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
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
        settings = dict(locals())
        del settings["self"]
        vars(self).update(settings)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ScaleMixClassifier":
        """Fit the estimator to a table and the class of each row.

        Parameters
        ----------
        X : array-like or data frame of shape (rows, columns)
            A table of numbers; or a data frame of pandas or polars, in which there may also be
            text, categories, truth values, dates and gaps.
        y : array-like of shape (rows,)
            The classes: text, whole numbers or truth values.
        sample_weight : float or array-like of shape (rows,), optional
            How many rows each row counts as. By default each counts once.

        Returns
        -------
        ScaleMixClassifier
            The estimator itself.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixClassifier
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0}
        >>> ScaleMixClassifier(**settings).fit(x, np.arange(40) % 3).classes_
        array([0, 1, 2])
        """
        X, y, sample_weight = with_targets(self.missing_target, X, y, sample_weight)
        X, y = self._check(X, y, numeric=False)
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise ValueError(f"{error} ScaleMixRegressor predicts numbers.") from None
        self.classes_, numbers = np.unique(y, return_inverse=True)
        check_classes(self.classes_.tolist())
        weight = weigh_classes(self.class_weight, y, sample_weight)
        self._fit(X, numbers, weight, len(self.classes_))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class for each row.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.

        Returns
        -------
        ndarray of shape (rows, classes)
            Probabilities in the order of `classes_`. Each row adds up to one.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixClassifier
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0}
        >>> ScaleMixClassifier(**settings).fit(x, np.arange(40) % 3).predict_proba(x[:5]).shape
        (5, 3)
        """
        shares = self.predict_dist(X).mean
        # They add up to one in single precision; here they do so in double.
        return shares / shares.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.

        Returns
        -------
        ndarray of shape (rows,)
            One of `classes_` for each row.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixClassifier
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0}
        >>> ScaleMixClassifier(**settings).fit(x, np.arange(40) % 3).predict(x[:5]).shape
        (5,)
        """
        shares = self.predict_proba(X)
        # A label has no way to say that nothing is known.
        refuse_lost(np.isnan(shares[:, 0]))
        return self.classes_[shares.argmax(axis=1)]

    def predict_set(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """The classes that each row may well have: a set that holds its own with a probability.

        Sets hold the class of at least this share of new rows on average, as long as the rows are
        drawn like those that calibrated them (`calibration=`, or `calibrate`). None is empty.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.
        coverage : float, default=0.9
            The probability of a set to hold the row's class.

        Returns
        -------
        ndarray of bool, of shape (rows, classes)
            Whether each of `classes_` is in the set of the row.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixClassifier
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "calibration": 0.5}
        >>> ScaleMixClassifier(**settings).fit(x, np.arange(40) % 3).predict_set(x[:5]).shape
        (5, 3)
        """
        predictive = self.predict_dist(X)
        calibrated = self._calibrated()
        sets = calibrated.sets(predictive, coverage)
        if not calibrated.is_sure_of(coverage):
            warn(
                f"{len(calibrated.plausibility):,} rows are too few to be sure of {coverage:.4g}: "
                f"sets of so much hold all classes.",
                InputWarning,
            )
        return sets

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose class is the most probable one.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.
        y : array-like of shape (rows,)
            Its classes, as `fit` takes them. Rows without one are refused, or left out, as
            `missing_target` says.
        sample_weight : array-like of shape (rows,), optional
            How many rows each row counts as. By default each counts once.

        Returns
        -------
        float
            The accuracy; higher is better.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixClassifier
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0}
        >>> labels = np.arange(40) % 3
        >>> 0 <= ScaleMixClassifier(**settings).fit(x, labels).score(x, labels) <= 1
        True
        """
        X, y, sample_weight = with_targets(self.missing_target, X, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    def _outcomes(self, y: Any) -> np.ndarray:
        known = np.asarray(y)
        unknown = sorted({str(one) for one in known[~np.isin(known, self.classes_)]})
        if unknown:
            raise ValueError(f"y has classes that fit has not seen: {', '.join(unknown[:5])}.")
        return np.searchsorted(self.classes_, known)
