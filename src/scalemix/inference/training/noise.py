"""Noise training: dropout, and its kin, as marginal MAP inference under the prior."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._pareto import LEAST_DRAWS
from scalemix._random import side_key
from scalemix._types import PyTree, Shaped
from scalemix.data.batches import Batch, Data
from scalemix.data.rows import row_like
from scalemix.data.values import is_whole
from scalemix.inference.training.engine import State, Terms
from scalemix.inference.training.objectives import OBJECTIVES, objective_value
from scalemix.inference.training.reduction import Weighting, batch_sums
from scalemix.inference.training.scoring import RowScores, score_rows
from scalemix.inference.training.settings import Training
from scalemix.inference.training.weights import OF_DRAWS, importance_weights
from scalemix.mixtures import ScaleMixture
from scalemix.model.model import Model
from scalemix.networks.calling import state_of
from scalemix.networks.demands import is_random
from scalemix.networks.placing import Scales
from scalemix.networks.rows import mean_state
from scalemix.posterior.networks import Networks, NoisyNetworks, OneNetwork

ObjectiveName = Literal[
    "lower_bound",
    "importance_weighted",
    "truncated",
    "pareto_smoothed",
    "tail_adaptive",
    "hierarchical",
]
Sharing = Literal["example", "batch", "sequence"]
# Objectives whose weights are importance weights, which belong to the batch.
IMPORTANCE = ("importance_weighted", "truncated", "pareto_smoothed")


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True)
class NoiseTraining(Training):
    """Train the weights under noise drawn from the prior: dropout and its kin.

    All parameters but the first are best given by keyword.

    Parameters
    ----------
    objective : str, default "lower_bound"
        What training maximises.

        - `"lower_bound"`: the mean log-likelihood over draws, as in dropout.
        - `"importance_weighted"`: a tighter bound, the log of the mean likelihood over draws.
        - `"truncated"`: the same gradient, but the largest weights in it are cut. A draw that alone
          has any weight keeps it.
        - `"pareto_smoothed"`: the same gradient, but the largest weights are smoothed by a fitted
          tail. Needs 21 draws or more.
        - `"tail_adaptive"`: draws weighted by the rank of their likelihood.
        - `"hierarchical"`: no noise in the network; the penalty holds its effect.
    num_draws : int, default 10
        The number of noise draws in each step. `"hierarchical"` needs none.
    noise_sharing : {"example", "batch", "sequence"}, optional
        Who shares a draw.

        - `"example"`: each example has draws of its own, as dropout is used.
        - `"batch"`: all rows of a batch share their draws.
        - `"sequence"`: all steps of a sequence share theirs. Each row of `x` must be a whole
          sequence, which the network takes as one example. A draw holds for all that a network does
          with one example, so this is what `"example"` does as well. By this name, inputs that have
          no axis of steps are refused.

        Unless given it follows the objective: `"batch"` for importance weights, plain, truncated or
        smoothed, where noise belongs to the weights and the bound is on the likelihood of the batch
        with the noise averaged out; `"example"` for the others. Importance weights by example make
        each row a mixture of its own, which is another model: see
        `scalemix.inference.training.objectives`.
    weighting : {"example", "batch"}, optional
        Who weighs the draws: each example (or sequence) for itself, or the batch as a whole. Unless
        given it follows `noise_sharing`.
    record_weights : bool, default False
        Whether the posterior's history holds the importance weights of the last step of every
        chunk. Where steps take all rows, zeros stand for the rows that only fill the batch up to a
        round number.
    steps : int, optional
        The number of gradient steps. Give this or `epochs`; with neither it is 5,000.
    epochs : float, optional
        The length of training in passes over the data.
    batch_size : int or None, default 32
        The number of rows in each step. `None` takes all rows in every step.
    learning_rate : float or optax.Schedule, default 1e-2
        Adam's rate, which falls to zero along a cosine. A schedule is taken as it is. Must be left
        alone where `optimizer` is given.
    optimizer : optax.GradientTransformation, optional
        An optimiser in place of Adam. It brings a learning rate of its own.
    validation_fraction : float, default 0.0
        The share of the rows to hold out. The state that scores best on them is kept, and training
        stops early when no better one comes.
    patience : int, default 10
        The number of chunks without a better score after which training stops. Counts only with
        `validation_fraction`.
    chunk_steps : int, default 200
        The number of steps that run on the device before Python looks in: to score held-out rows,
        report progress and write checkpoints. The weights that come out do not depend on it unless
        rows are held out.
    num_members : int, default 1
        The size of the ensemble. Its members run side by side and predictions mix them. The first
        starts from the network as given, the others from the same values in another order.
    stream_above : int, default 2 GiB
        Data of more bytes than this stay in host memory and go to the device chunk by chunk.

    See Also
    --------
    scalemix.inference.Training : The settings from `steps` on, in more words.

    Examples
    --------
    >>> method = sx.NoiseTraining("tail_adaptive", num_draws=4, steps=20)
    >>> post = sx.fit(model, x, y, method, key=key)
    >>> post.predict(x).mean.shape
    (40,)
    """

    objective: ObjectiveName = "lower_bound"
    num_draws: int = 10
    noise_sharing: Sharing | None = None
    weighting: Weighting | None = None
    record_weights: bool = False

    data: ClassVar[tuple[str, ...]] = ("objective", "learning_rate")

    def __post_init__(self) -> None:
        self.check()
        if self.objective not in OBJECTIVES:
            raise ValueError(
                f"objective must be one of {', '.join(OBJECTIVES)}; got {self.objective!r}."
            )
        if not (is_whole(self.num_draws) and self.num_draws > 0):
            raise ValueError(f"num_draws must be a positive whole number, got {self.num_draws!r}.")
        if self.noise_sharing not in (None, *get_args(Sharing)):
            raise ValueError(
                f"noise_sharing must be 'example', 'batch' or 'sequence', got "
                f"{self.noise_sharing!r}."
            )
        if self.weighting not in (None, *get_args(Weighting)):
            raise ValueError(f"weighting must be 'example' or 'batch', got {self.weighting!r}.")
        if self.noise_sharing == "batch" and self.weighting == "example":
            raise ValueError("A draw shared by the batch can only be weighed by the batch.")
        if self.objective == "pareto_smoothed" and self.num_draws < LEAST_DRAWS:
            raise ValueError(
                f"pareto_smoothed fits a distribution to the largest of num_draws weights, of "
                f"which {self.num_draws} are too few: it would be importance_weighted. Give "
                f"num_draws={LEAST_DRAWS} or more, or use truncated, which needs no tail."
            )

    @property
    def deterministic(self) -> bool:
        """Whether the network is trained, and predicts, without noise."""
        return isinstance(self.objective, str) and self.objective == "hierarchical"

    @property
    def sharing(self) -> Sharing:
        """Who shares a draw: what was asked for, or else what suits the objective."""
        if self.noise_sharing is not None:
            return self.noise_sharing
        by_batch = self.objective in IMPORTANCE and self.weighting != "example"
        return "batch" if by_batch else "example"

    @property
    def weighs_batches(self) -> bool:
        # The logarithm of a mean over draws is no bound of rows that are counted more than once.
        return "batch" in (self.sharing, self.weighting)

    @classmethod
    def side_by_side(cls, engines: Sequence[Any]) -> list[Any]:
        if not all(isinstance(engine, cls) for engine in engines):
            return list(engines)
        # An objective that is data can no longer decide who shares a draw.
        engines = [dataclasses.replace(engine, noise_sharing=engine.sharing) for engine in engines]
        names = [engine.objective for engine in engines]
        # One objective for all stays a name, and the others need not be computed.
        if len(set(names)) == 1 or not set(names) <= set(OF_DRAWS):
            return engines
        first = engines[0]
        for i, engine in enumerate(engines):
            if engine.noise_sharing != first.noise_sharing:
                raise ValueError(
                    f"Fits that run together share their noise alike. Method 0, "
                    f"{first.objective}, has draws for each {first.noise_sharing}; method {i}, "
                    f"{engine.objective}, for each {engine.noise_sharing}. Give both the same "
                    f"noise_sharing, or fit them apart."
                )
        places = [np.asarray(OF_DRAWS.index(str(name)), np.int32) for name in names]
        return [
            eqx.tree_at(lambda e: e.objective, engine, place)
            for engine, place in zip(engines, places, strict=True)
        ]

    def check_model(self, model: Model) -> None:
        """Raise `ValueError` for a prior or an input that these settings cannot use."""
        if self.sharing == "sequence" and model.example is not None:
            _check_steps(model.example)
        if self.deterministic:
            for prior in model.site_priors:
                prior.check_hierarchical()
        for name, structure in model.structures.items():
            for mixture in structure.groups.values():
                if not self.deterministic:
                    _check_sampling(name, mixture)
                else:
                    _check_inverse_square(name, mixture)

    @property
    def remedies(self) -> tuple[str, ...]:
        return "more steps", "a prior that lets more of the network through"

    def start(self, model: Model) -> State:
        learned = eqx.filter(model, model.learnable())
        return State(learned, {}, network_state=state_of(model.network))

    def terms(
        self,
        state: State,
        model: Model,
        batch: Batch,
        num_data: ArrayLike,
        key: PRNGKeyArray,
        temperature: ArrayLike | None = None,
    ) -> Terms:
        weighting = self.weighting or ("batch" if self.sharing == "batch" else "example")
        current = model.with_learned(state.learned).with_state(state.network_state)
        values, network_state = self._log_likelihoods(current, batch, key)
        log_likelihood = objective_value(
            self.objective, values, batch.weight, total=batch.total, weighting=weighting
        )
        penalty = current.penalty("hierarchical" if self.deterministic else "expanded")
        if temperature is not None:
            penalty = jnp.asarray(temperature, penalty.dtype) * penalty
        recorded = {}
        if self.record_weights:
            recorded["importance_weights"] = self._importance_weights(values, batch, weighting)
        objective = log_likelihood - penalty / num_data
        return Terms(objective, log_likelihood, recorded, network_state)

    def _importance_weights(self, values: Array, batch: Batch, weighting: Weighting) -> Array:
        """`(draws, examples)`, or one example in place of a batch that is weighed as one."""
        if weighting == "batch":
            return importance_weights(self.objective, batch_sums(values, batch.weight)[:, None])
        # No draw counts for an example that only pads.
        weights = importance_weights(self.objective, values)
        return jnp.where(batch.weight > 0, weights, 0.0)

    def _log_likelihoods(
        self, model: Model, batch: Batch, key: PRNGKeyArray
    ) -> tuple[Array, PyTree]:
        """`l[s, n]`, draws first, examples second; and the network's state after the batch."""
        if self.deterministic:
            alone, state = model.training_outputs(batch.x, None, key=side_key(key))
            outputs = alone[None]
        else:
            if self.sharing == "sequence":
                _check_steps(row_like(batch.x))
            # A sequence is an example: the network sees all its steps under one draw.
            sharing = "batch" if self.sharing == "batch" else "example"
            per_draw = () if sharing == "batch" else batch.weight.shape
            scales = model.draw((self.num_draws, *per_draw), key=key)
            keys = jax.random.split(side_key(key), self.num_draws)

            def under(drawn: Scales, key: PRNGKeyArray) -> tuple[Array, PyTree]:
                return model.training_outputs(batch.x, drawn, key=key, noise_sharing=sharing)

            outputs, states = jax.vmap(under)(scales, keys)
            state = mean_state(states, 1)
        log_prob = jax.vmap(model.likelihood.log_prob)
        return jax.vmap(lambda out: log_prob(out, batch.y))(outputs), state

    def score_rows(
        self,
        state: State,
        model: Model,
        data: Data,
        key: PRNGKeyArray,
        num_draws: int | None = None,
    ) -> RowScores:
        current = model.with_learned(state.learned).with_state(state.network_state)

        def network(key: PRNGKeyArray) -> Any:
            return (
                current.network
                if self.deterministic
                else current.with_scales(current.draw(key=key))
            )

        num_draws = num_draws or self.num_draws
        certain = self.deterministic and not is_random(model.network)
        keys = jax.random.split(key, 1 if certain else num_draws)
        return score_rows(network, current.likelihood, keys, data)

    def magnitudes(self, state: State, model: Model, key: PRNGKeyArray) -> dict[str, Array]:
        learned = {site.name: site.weight(state.learned.network) for site in model.sites}
        return {name: jnp.max(jnp.abs(weight)) for name, weight in learned.items()}

    def networks(self, state: State, model: Model) -> Networks:
        learned = model.with_learned(state.learned).with_state(state.network_state)
        return OneNetwork(learned) if self.deterministic else NoisyNetworks(learned)


def _check_sampling(name: str, mixture: ScaleMixture) -> None:
    """Raise `ValueError` if the noise of this layer cannot be drawn."""
    try:
        jax.eval_shape(lambda: mixture.sample(key=jax.random.key(0)))
    except ValueError as error:
        raise ValueError(f"The prior on {name!r}: {error}") from None


def _check_inverse_square(name: str, mixture: ScaleMixture) -> None:
    """Raise `ValueError` if the noise of this layer has no finite `E[xi^-2]`."""
    strength = np.asarray(mixture.inverse_square_mean)
    if np.isnan(strength).any():
        raise ValueError(
            f"The hierarchical objective needs E[xi^-2], and the density of {mixture!r} on "
            f"{name!r} could not be integrated: does log_prob integrate to one over the support? "
            f"Give the family an inverse_square_mean of its own, or use another objective."
        )
    if np.isinf(strength).any():
        raise ValueError(
            f"The hierarchical objective needs E[xi^-2], which is infinite for {mixture!r} on "
            f"{name!r}. It is finite for InverseGamma and InverseNakagami, Gamma with shape above "
            f"1, Beta with a above 2, Uniform with low above 0, and a family of your own whose "
            f"density at zero falls faster than xi. Or use another objective."
        )


def _check_steps(example: PyTree) -> None:
    """Raise `ValueError` unless an input, or one of several, has an axis of steps."""

    def has_steps(part: Shaped) -> bool:
        # Whole numbers stand for words or the like, one for each step; all else has features.
        return len(part.shape) >= (1 if jnp.issubdtype(part.dtype, jnp.integer) else 2)

    parts = jax.tree.leaves(example)
    if not any(map(has_steps, parts)):
        shapes = ", ".join(str(part.shape) for part in parts)
        raise ValueError(
            f"noise_sharing='sequence' takes each row of x as a sequence, (steps, features), and "
            f"this network takes inputs of shape {shapes}. Give a network that takes whole "
            f"sequences. If the rows of a table are steps, make each sequence one row; if they are "
            f"examples by themselves, use noise_sharing='example'."
        )
