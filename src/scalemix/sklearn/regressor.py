"""`ScaleMixRegressor`, for real targets."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from scalemix.fitting.settings import Task
from scalemix.sklearn.base import ScaleMixEstimator


class ScaleMixRegressor(RegressorMixin, ScaleMixEstimator):
    """A Bayesian network for a real target: predictions with calibrated uncertainty.

    Columns and target are standardised inside. Several targets, `y` of the shape (rows, targets),
    are fitted by one network, each with its noise. They then share one relevance of the columns.

    Parameters
    ----------
    prior : {"ard", "drop-connect", "add", "ard-add"}, default="ard-add"
        Which weights share a scale: those of a unit ("ard"), those of a layer ("add"), both
        ("ard-add"), or none ("drop-connect"). In layers that no path leads around, "add" and
        "ard-add" mean "ard".
    mixture : str, default="auto"
        The family of the scales: bernoulli, beta, exponential, gamma, gaussian, half-cauchy,
        inverse-gamma, inverse-nakagami, log-uniform, rayleigh, uniform, or auto, which is bernoulli
        for noise training and inverse-gamma otherwise.
    mixture_parameters : dict, optional
        Parameters of the family by name, such as keep for Bernoulli scales. The others keep their
        defaults.
    inference : {"em", "noise", "mcmc"}, default="em"
        Variational EM ("em"), training under noise ("noise": dropout and its relatives), or Markov
        chain Monte Carlo ("mcmc").
    bins : int, optional
        How many extra inputs to make of each column, up to this number, so that networks can bend
        where its values lie; 8 is a good number. A column of few values gives fewer, and one of two
        values gives none. Bins help where trees do well, and harm where the target is smooth:
        compare `None` and 8 by cross-validation.
    hidden : sequence of int, default=(50, 50)
        The width of each hidden layer. All are equal in a residual network.
    residual : bool, default=True
        Whether every hidden layer but the first has a path around it.
    num_members : int, optional
        How many networks the ensemble has; for MCMC, how many chains run. By default 16 for EM, and
        8 otherwise.
    num_trial_members : int, default=4
        How many networks are fitted to try each combination of temperature and noise floor.
    max_steps : int, optional
        Steps of training; for MCMC, steps of each chain, the first half of which adapt the sampler.
        By default 14,000 for EM and 8,000 for noise training (17,000 and 10,000 for more than 5,000
        rows), and 4,000 for MCMC.
    batch_size : int, optional
        Rows in a step of training. By default 64, and 128 for more than 5,000 rows. Chains use all
        rows.
    learning_rate : float, default=0.01
        Where the rate of Adam starts. It falls to zero along a cosine.
    temperature : float or "auto", default="auto"
        How strongly EM weighs the prior; 1 is Bayes' rule. With "auto", held-out rows choose.
    noise_floor : float or "auto", default="auto"
        The least noise of a real target, in standard deviations of it. With "auto", held-out rows
        choose for EM, and it is 0.001 otherwise. Classes have no such noise.
    objective : str, default="tail_adaptive"
        What noise training maximises: lower_bound, importance_weighted, truncated, pareto_smoothed,
        tail_adaptive, hierarchical.
    num_draws : int, default=10
        Draws of the noise in each step of noise training.
    sampler : {"nuts", "mclmc"}, default="mclmc"
        The sampler of MCMC.
    devices : int, optional
        How many devices the networks or chains are spread over. By default all there are.
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
    bin_edges_ : tuple of tuple of float
        The ends of each column's bins, empty without `bins`.
    relevance_ : ndarray of shape (columns,)
        Each column's share of the prior variance of the weights that read it.
    effective_width_ : ndarray of shape (hidden layers,)
        How many units of each hidden layer are on, a mean over the members.
    effective_depth_ : float
        How many hidden layers are on, a mean over the members.
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ScaleMixRegressor":
        """Fit the estimator to a table and a real target, or several of them.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table of numbers.
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
        self._fit(*self._check(X, y, numeric=True, several=True), sample_weight, None)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of each row's target.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.
        return_std : bool, default=False
            Whether to give the standard deviation of each row's target, too.

        Returns
        -------
        ndarray of shape (rows,) or (rows, targets), or a pair of them
            The means, or the means and the standard deviations.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> mean, std = ScaleMixRegressor(**settings).fit(x, y).predict(x[:5], return_std=True)
        >>> mean.shape, bool((std > 0).all())
        ((5,), True)
        """
        predictive = self.predict_dist(X)
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """Intervals that hold each row's target with a given probability.

        Where held-out rows chose among settings, they have calibrated the intervals, too: see
        `scalemix.Predictive.interval`.

        Parameters
        ----------
        X : array-like of shape (rows, columns)
            A table.
        coverage : float, default=0.9
            The probability of an interval to hold its target.

        Returns
        -------
        (ndarray, ndarray), each of shape (rows,) or (rows, targets)
            The lower and the upper ends.

        Examples
        --------
        >>> from scalemix.sklearn import ScaleMixRegressor
        >>> settings = {"max_steps": 20, "num_members": 2, "temperature": 1.0, "noise_floor": 0.1}
        >>> lower, upper = ScaleMixRegressor(**settings).fit(x, y).predict_interval(x[:5])
        >>> bool((lower < upper).all())
        True
        """
        return self.predict_dist(X).interval(coverage)
