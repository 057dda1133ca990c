"""`ScaleMixRegressor`, for targets that are numbers."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import RegressorMixin

from scalemix._warnings import warn
from scalemix.data.bins import Bins
from scalemix.data.preparation import InputWarning
from scalemix.fitting.settings import Task
from scalemix.posterior.conformal import refuse_unobserved
from scalemix.sklearn.base import ScaleMixEstimator
from scalemix.sklearn.targets import (
    MissingTarget,
    check_numbers,
    names_of_targets,
    refuse_text,
    with_targets,
)


class ScaleMixRegressor(RegressorMixin, ScaleMixEstimator):
    """A Bayesian network for a target of numbers: predictions with calibrated uncertainty.

    Columns and real targets are standardised inside. Several targets, `y` of the shape
    (rows, targets), are fitted by one network, each with its noise. They then share one relevance
    of the columns.

    Parameters
    ----------
    target : {"real", "positive", "count", "share", "time"}, default="real"
        What numbers the target has: any ("real"), above zero ("positive"), whole from zero
        ("count"), strictly between zero and one ("share"), or times that are below zero where they
        were not observed to the end ("time").
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
    posterior_ : scalemix.Posterior
        What the fit returned.
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
    target_names_ : list of str or None
        What several targets are called, if they were columns of a data frame.
    n_features_in_ : int
        The number of columns.
    feature_names_in_ : ndarray of str
        The names of the columns, if the estimator was fitted to a data frame.

    Examples
    --------
    >>> from scalemix.sklearn import ScaleMixRegressor
    >>> estimator = ScaleMixRegressor(
    ...     max_steps=20, num_members=2, temperature=1.0, noise_floor=0.1, random_state=0
    ... )
    >>> estimator.fit(x, y).predict(x).shape
    (40,)
    >>> estimator.relevance_.shape
    (3,)
    """

    task: ClassVar[Task] = "regression"
    target: str
    target_names_: list[str] | None

    def __init__(
        self,
        *,
        target: Literal["real", "positive", "count", "share", "time"] = "real",
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ScaleMixRegressor":
        """Fit the estimator to a table and a target, or several of them.

        Parameters
        ----------
        X : array-like or data frame of shape (rows, columns)
            A table of numbers; or a data frame of pandas or polars, in which there may also be
            text, categories, truth values, dates and gaps.
        y : array-like of shape (rows,) or (rows, targets)
            The target, or several.
        sample_weight : float or array-like of shape (rows,), optional
            How many rows each row counts as. By default each counts once.

        Returns
        -------
        ScaleMixRegressor
            The estimator itself.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> ScaleMixRegressor(**settings).fit(x, y).n_features_in_
        3
        """
        names = names_of_targets(y)
        X, y, sample_weight = with_targets(self.missing_target, X, y, sample_weight)
        refuse_text(y)
        X, y = self._check(X, y, numeric=True, several=True)
        check_numbers(self.target, y, sample_weight)
        if self.target == "time" and self.calibration:
            # Now, and not after the fit.
            refuse_unobserved(y)
        self._fit(X, y, sample_weight, None)
        self.target_names_ = names
        return self

    def _outcomes(self, y: Any) -> Any:
        refuse_text(y)
        return y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any, return_std: bool = False, quantiles: Any = None) -> Any:
        """The mean of each row's target, or some of its quantiles.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.
        return_std : bool, default=False
            Whether to give the standard deviation of each row's target, too.
        quantiles : float or sequence of float, optional
            Levels in (0, 1). Their quantiles are then given in place of the means.

        Returns
        -------
        ndarray of shape (rows,) or (rows, targets), or a pair of them
            The means, or the means and the standard deviations. With a sequence of `quantiles`, an
            array that has one axis more, the levels: (rows, levels) or (rows, targets, levels).
            Rows come first in all that an estimator predicts; `predict_dist(X).quantile` has the
            levels first, as in `numpy.quantile`.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> estimator = ScaleMixRegressor(**settings).fit(x, y)
        >>> mean, std = estimator.predict(x[:5], return_std=True)
        >>> mean.shape, bool((std > 0).all())
        ((5,), True)
        >>> estimator.predict(x[:5], quantiles=[0.1, 0.5, 0.9]).shape
        (5, 3)
        >>> estimator.predict(x[:5], quantiles=0.5).shape
        (5,)
        """
        if return_std and quantiles is not None:
            raise ValueError("Ask for return_std or for quantiles, not for both at once.")
        predictive = self.predict_dist(X)
        if quantiles is not None:
            values = predictive.quantile(quantiles)
            return np.moveaxis(values, 0, -1) if np.ndim(quantiles) else values
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        interval: Literal["posterior", "conformal"] = "posterior",
    ) -> tuple[np.ndarray, np.ndarray]:
        """Intervals that hold each row's target with a given probability.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.
        coverage : float, default=0.9
            The probability of an interval to hold its target.
        interval : {"posterior", "conformal"}, default="posterior"
            Those of the posterior, which held-out rows have calibrated where they chose among
            settings (see `scalemix.Predictive.interval`), or conformal ones. These hold at least
            this share of new rows' targets on average, as long as the rows are drawn like those
            that calibrated them (`calibration=`, or `calibrate`).

        Returns
        -------
        (ndarray, ndarray), each of shape (rows,) or (rows, targets)
            The lower and the upper ends.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> estimator = ScaleMixRegressor(calibration=0.5, **settings).fit(x, y)
        >>> lower, upper = estimator.predict_interval(x[:5], interval="conformal")
        >>> bool((lower < upper).all())
        True
        """
        if interval not in ("posterior", "conformal"):
            raise ValueError(f"interval must be 'posterior' or 'conformal', got {interval!r}.")
        predictive = self.predict_dist(X)
        if interval == "conformal":
            calibrated = self._calibrated()
            ends = calibrated.interval(predictive, coverage)
            if not calibrated.is_sure_of(coverage):
                warn(
                    f"{len(calibrated.plausibility):,} rows are too few to be sure of "
                    f"{coverage:.4g}: conformal intervals of so much reach as far as targets can.",
                    InputWarning,
                )
            return ends
        return predictive.interval(coverage)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """How well the targets of a table are predicted: the share of their variance, R^2.

        For `target="time"` it is the mean log-likelihood instead: how far off a prediction is of a
        time that was not observed to the end, nobody knows.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.
        y : array-like of shape (rows,) or (rows, targets)
            Its targets, as `fit` takes them. Rows without one are refused, or left out, as
            `missing_target` says.
        sample_weight : array-like of shape (rows,), optional
            How many rows each row counts as. By default each counts once.

        Returns
        -------
        float
            The score; higher is better.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> ScaleMixRegressor(**settings).fit(x, y).score(x, y) <= 1
        True
        """
        X, y, sample_weight = with_targets(self.missing_target, X, y, sample_weight)
        refuse_text(y)
        if self.target == "time":
            log_prob = self.predict_dist(X).log_prob(y)
            return float(np.average(log_prob, weights=sample_weight))
        return float(super().score(X, y, sample_weight))
