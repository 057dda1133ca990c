"""What an engine of training is: pure functions of one model, and how they end in a posterior."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import optax
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._random import check_key, noise_key
from scalemix._types import PyTree
from scalemix.data.batches import Batch, Data, as_batch
from scalemix.data.scaling import UNSCALED
from scalemix.inference.training.scoring import RowScores
from scalemix.posterior.networks import Networks
from scalemix.posterior.posterior import History, Posterior


class State(NamedTuple):
    """How far training has come.

    Attributes
    ----------
    learned : PyTree
        What gradient steps adjust. Under noise training that is a tree like
        `eqx.filter(model, model.learnable())`. Under variational EM it is a pair: such a tree with
        the means of the weights, `learned.means`, and the logarithms of their standard deviations
        by site, `learned.log_deviations`.
    variances : dict of str to dict of str to Array
        The prior's scales as variances, by site and group, which variational EM solves for. Empty
        under noise training, where scales are drawn.
    optimizer : PyTree
        The state of the optimiser that was given to `init`.
    network_state : PyTree
        What the network itself carries from step to step, such as running statistics: what
        `loss_and_state` gave last. `None` for most networks.

    Examples
    --------
    >>> method = sx.VariationalEM()
    >>> state = method.init(model)
    >>> state.variances["layers.0"]["unit"]
    Array([1., 1., 1.], dtype=float32)
    """

    learned: PyTree
    variances: dict[str, dict[str, Array]]
    optimizer: PyTree = None
    network_state: PyTree = None


class Terms(NamedTuple):
    """What training maximises, on one batch."""

    objective: Array
    """Per datum."""
    log_likelihood: Array
    """The part of the objective that is about the data, per datum."""
    recorded: dict[str, Array]
    """Whatever is recorded on request."""
    network_state: PyTree = None
    """What the network's own state is after the batch, where it has one."""


class Engine(abc.ABC):
    """How to train: pure functions of one model, which the loop maps over many.

    `state` is what the engine adjusts, `model` is what it started from. `num_data` is the number of
    training data, each counted as often as its weight says: the N of every mean.

    `init`, `update_scales`, `loss` and `posterior` are for loops that users write themselves. The
    loop of `fit` takes the same steps.
    """

    @property
    @abc.abstractmethod
    def remedies(self) -> tuple[str, ...]:
        """What to try, beside a smaller rate, if a fit comes out no better than a constant."""

    @classmethod
    def side_by_side(cls, engines: Sequence[Any]) -> list[Any]:
        """Engines for one program: settings that may differ, and do, turned into arrays."""
        return list(engines)

    def without_schedule(self) -> Self:
        """The engine as programs see it, which take the length of a run and its batches as data."""
        return self

    @abc.abstractmethod
    def check_model(self, model: Any) -> None:
        """Raise `ValueError`, naming the layer, for a model that cannot be trained like this."""

    @abc.abstractmethod
    def start(self, model: Any) -> State:
        """The first state, without an optimiser. The model is not checked."""

    @abc.abstractmethod
    def terms(
        self,
        state: State,
        model: Any,
        batch: Batch,
        num_data: ArrayLike,
        key: PRNGKeyArray,
        temperature: ArrayLike | None = None,
    ) -> Terms:
        """The objective on a batch, and what else a step records."""

    def init(self, model: Any, optimizer: optax.GradientTransformation | None = None) -> State:
        """The state to start from, in a loop of your own.

        Call it outside of `jax.jit`: it checks that the method suits the model.

        Parameters
        ----------
        model : Model
            The model to train.
        optimizer : optax.GradientTransformation, optional
            Your optimiser, whose first state is then `state.optimizer`.

        Returns
        -------
        State
            `learned`, `variances` and `optimizer`.

        Raises
        ------
        ValueError
            If the method cannot train this model.

        Examples
        --------
        >>> state = sx.VariationalEM().init(model)
        >>> sorted(state.learned.log_deviations)
        ['layers.0', 'layers.1', 'layers.2']
        """
        self.check_model(model)
        return self.begin(model, optimizer)

    def begin(self, model: Any, optimizer: optax.GradientTransformation | None) -> State:
        """The first state, with that of the optimiser. The model is not checked."""
        state = self.start(model)
        if optimizer is None:
            return state
        return state._replace(optimizer=optimizer.init(state.learned))

    def update_scales(self, state: State, model: Any) -> State:
        """The state with the prior's scales solved for, given what is learned so far.

        `fit` does this at the beginning of each step. Scales at their best take no part in the
        gradient, so none flows through them. Noise training has no scales to solve for, and gives
        the state back as it is.

        Parameters
        ----------
        state : State
            The state so far.
        model : Model
            The model that training started from.

        Returns
        -------
        State
            The same with other `variances`.

        Examples
        --------
        >>> method = sx.VariationalEM()
        >>> state = method.update_scales(method.init(model), model)
        >>> state.variances["layers.0"]["unit"].shape
        (3,)
        """
        return state

    def temperature_at(self, step: ArrayLike, num_steps: ArrayLike) -> ArrayLike:
        """The temperature that `fit` has at a step: a factor on everything the prior says.

        Parameters
        ----------
        step : int
            The number of the step, from zero.
        num_steps : int
            The number of all steps. In the programs of `fit` it is an array, as `step` is.

        Returns
        -------
        float
            For `VariationalEM` the method's `temperature`, which rises from zero during `warm_up`.
            For `NoiseTraining` one.

        Examples
        --------
        >>> method = sx.VariationalEM(warm_up=0.5)
        >>> [round(float(method.temperature_at(step, 100)), 2) for step in (0, 24, 49, 99)]
        [0.02, 0.5, 1.0, 1.0]
        """
        return 1.0

    def loss(
        self,
        learned: PyTree,
        state: State,
        model: Any,
        batch: tuple[Any, ...],
        num_data: ArrayLike,
        *,
        key: PRNGKeyArray,
        temperature: ArrayLike | None = None,
    ) -> Array:
        """What a gradient step makes smaller: minus the objective per datum.

        Parameters
        ----------
        learned : PyTree
            What the gradient is for: `state.learned`, or other values of it.
        state : State
            The state, whose scales hold.
        model : Model
            The model that training started from.
        batch : tuple
            `(x, y)`: inputs and targets as the network and the likelihood take them. Nothing is
            standardised here. Weights of the rows may follow as a third entry. A fourth is what
            their weighted sum is divided by, unless that is the sum of these weights: the average
            weight of that many rows of the training data.
        num_data : int or float
            The number of all training data, the sum of their weights where they have some. What
            the prior says is divided by it.
        key : PRNG key
            Where the noise of this step comes from.
        temperature : float, optional
            A factor on everything the prior says, such as `temperature_at` gives. Unless given it
            is the method's own `temperature`, or one where the method has none.

        Returns
        -------
        Array
            One number.

        Examples
        --------
        >>> method = sx.NoiseTraining("tail_adaptive", num_draws=4)
        >>> dropout = sx.Model(net, sx.ARD(sx.Bernoulli(0.9)), sx.likelihoods.Gaussian())
        >>> state = method.init(dropout)
        >>> batch = jnp.asarray(x), jnp.asarray(y)
        >>> value_and_slope = eqx.filter_jit(jax.value_and_grad(method.loss))
        >>> value, slope = value_and_slope(state.learned, state, dropout, batch, len(x), key=key)
        >>> slope.network.layers[0].weight.shape
        (8, 3)
        """
        return self.loss_and_state(
            learned, state, model, batch, num_data, key=key, temperature=temperature
        )[0]

    def loss_and_state(
        self,
        learned: PyTree,
        state: State,
        model: Any,
        batch: tuple[Any, ...],
        num_data: ArrayLike,
        *,
        key: PRNGKeyArray,
        temperature: ArrayLike | None = None,
    ) -> tuple[Array, PyTree]:
        """The loss, and the network's own state after the batch, for networks that have one.

        Parameters
        ----------
        learned : PyTree
            As in `loss`.
        state : State
            As in `loss`.
        model : Model
            As in `loss`.
        batch : tuple
            As in `loss`.
        num_data : int or float
            As in `loss`.
        key : PRNG key
            As in `loss`.
        temperature : float, optional
            As in `loss`.

        Returns
        -------
        loss : Array
            One number.
        network_state : PyTree
            For `state._replace(network_state=...)`.

        Examples
        --------
        >>> method = sx.VariationalEM()
        >>> state, batch = method.init(model), (jnp.asarray(x), jnp.asarray(y))
        >>> slope_and_state = eqx.filter_jit(jax.grad(method.loss_and_state, has_aux=True))
        >>> slope, network_state = slope_and_state(
        ...     state.learned, state, model, batch, len(x), key=key
        ... )
        >>> state = state._replace(network_state=network_state)
        """
        state = state._replace(learned=learned)
        whole = as_batch(batch, model.dtype)
        key = noise_key(check_key(key, "key"))
        terms = self.terms(state, model, whole, num_data, key, temperature)
        return -terms.objective, terms.network_state

    def posterior(
        self,
        state: State,
        model: Any,
        *,
        key: PRNGKeyArray,
        objective: ArrayLike | Sequence[ArrayLike] = (),
    ) -> Posterior:
        """The posterior that a state stands for, as `fit` returns one.

        It takes inputs and gives predictions in the units in which the network was trained.

        Parameters
        ----------
        state : State
            The last state.
        model : Model
            The model that training started from.
        key : PRNG key
            The key of predictions that are given none, so that these too can be repeated.
        objective : array_like, optional
            The objective at each step, minus the loss, for `posterior.history`.

        Returns
        -------
        Posterior
            With `predict`, `relevance`, `prune` and `save`.

        Examples
        --------
        >>> method = sx.VariationalEM()
        >>> posterior = method.posterior(method.init(model), model, key=key)
        >>> posterior.predict(x).mean.shape
        (40,)
        """
        history = History(np.asarray(objective, np.float32), np.zeros(0, np.float32), {})
        return Posterior(self.networks(state, model), UNSCALED, history, check_key(key, "key"))

    @abc.abstractmethod
    def score_rows(
        self,
        state: State,
        model: Any,
        data: Data,
        key: PRNGKeyArray,
        num_draws: int | None = None,
    ) -> RowScores:
        """What the state says of each held-out row, by `num_draws` draws or the engine's own."""

    @abc.abstractmethod
    def magnitudes(self, state: State, model: Any, key: PRNGKeyArray) -> dict[str, Array]:
        """The largest value at each site, non-finite if any is, to find where a run diverged."""

    @abc.abstractmethod
    def networks(self, state: State, model: Any) -> Networks:
        """The distribution over networks that a final state stands for.

        It must also work, element by element, where the arrays of both have a leading axis: the
        members of an ensemble are kept like that.
        """


class DivergenceError(RuntimeError):
    """Training or sampling met a number that is not finite.

    The message says at which step, in which model and at which layer, and what to try.

    Examples
    --------
    >>> try:
    ...     sx.fit(model, x, y, sx.VariationalEM(steps=20, learning_rate=1e30), key=key)
    ... except sx.DivergenceError as error:
    ...     print(str(error).split(" at step")[0])
    Training diverged
    """


@dataclasses.dataclass(frozen=True)
class Schedule:
    """How long to train, on which batches, and what happens between chunks."""

    num_steps: int
    batch_size: int | None
    """`None` takes all data in every step."""
    chunk_steps: int
    patience: int
    """Chunks without a better score before a run with held-out data stops."""
    stream: bool
    """Whether data stay in host memory and go to the device chunk by chunk."""
