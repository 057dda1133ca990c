"""Variational EM: a Gaussian posterior for each weight, scales in closed form."""

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._random import check_key, noise_key
from scalemix._types import PyTree
from scalemix.data.batches import Batch, Data, as_batch
from scalemix.data.values import is_number
from scalemix.inference.training.depth import places_in_depth, shares_of_steps
from scalemix.inference.training.engine import State, Terms
from scalemix.inference.training.passes import expected_log_likelihood
from scalemix.inference.training.scales import (
    best_variances,
    falls_at_zero,
    have_maximum,
    kl_divergence,
    log_hyperprior,
)
from scalemix.inference.training.scoring import RowScores, score_rows
from scalemix.inference.training.settings import Training
from scalemix.model.model import Model
from scalemix.networks.calling import state_of
from scalemix.networks.gaussians import draw_network
from scalemix.posterior.networks import GaussianNetworks

# A score takes at least so many draws. A step makes do with fewer.
LEAST_SCORED = 8


class Gaussians(NamedTuple):
    """What gradient steps adjust: a Gaussian for each weight."""

    means: PyTree
    """A tree of what the model learns, the means in place of the weights."""
    log_deviations: dict[str, Array]
    """By site."""

    @property
    def deviations(self) -> dict[str, Array]:
        """The standard deviations, by site."""
        return {name: jnp.exp(value) for name, value in self.log_deviations.items()}


class Bound(NamedTuple):
    """The evidence lower bound in its three terms."""

    log_likelihood: Array
    """`E_q log p(y | x, W)`, per datum."""
    kl: Array
    """`KL[q(W) || p(W | v)]`, a sum over weights."""
    log_hyperprior: Array
    """`log p(v)`, a sum over scales."""
    network_state: PyTree = None
    """What the network's state is after the batch, where it has one."""

    def per_datum(self, num_data: ArrayLike, temperature: ArrayLike) -> Array:
        """The bound divided by N, the divergence tempered."""
        # Settings are single precision where the network may be double.
        temperature = jnp.asarray(temperature, self.kl.dtype)
        return self.log_likelihood - temperature * (self.kl - self.log_hyperprior) / num_data


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True)
class VariationalEM(Training):
    """Learn a mean and a deviation for each weight, with the prior's scales in closed form.

    For priors with a closed-form scale update: inverse gamma, half-Cauchy, log-uniform, exponential
    (Rayleigh) and gamma. Under a Laplace or Student-t base the updates are closed forms in rounds.
    The bound of a Student-t base is one step lower: see `scalemix.bases.StudentT`.

    Layers that a prior may switch off (`ADD`, `ARDADD`) come into play one after the other, so that
    the same settings serve at any depth: the weights of the l-th such layer start with `1 / l` of
    the deviation, and their means take `1 / l` of each step.

    Parameters
    ----------
    num_draws : int, default 2
        The number of noisy passes that estimate the likelihood in each step. An even number is
        drawn in pairs of opposite noise.
    temperature : float, default 1.0
        A factor on everything the prior says. One is the posterior as Bayes has it; less trusts
        the data more.
    num_sweeps : int, default 2
        The number of rounds between the groups of scales of ARD-ADD in each step, starting from
        where the last step left them.
    initial_deviation : float, default 0.02
        Where every weight's standard deviation starts.
    warm_up : float or int, default 0.1
        The time over which the temperature rises from zero: a share of all steps below one, or a
        whole number of steps. A unit that the prior switches off before the likelihood has found a
        use for it does not come back. With `warm_up=0` the prior prunes hardest.
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
    >>> post = sx.fit(model, x, y, sx.VariationalEM(steps=20), key=key)
    >>> sorted(post.networks.deviations)
    ['layers.0', 'layers.1', 'layers.2']
    """

    num_draws: int = 2
    temperature: float = 1.0
    num_sweeps: int = 2
    initial_deviation: float = 0.02
    warm_up: float | int = 0.1

    data: ClassVar[tuple[str, ...]] = ("temperature", "learning_rate")

    def __post_init__(self) -> None:
        self.check()
        for name in ("num_draws", "num_sweeps"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value > 0):
                raise ValueError(f"{name} must be a positive whole number, got {value!r}.")
        if not (isinstance(self.temperature, int | float) and 0 <= self.temperature < math.inf):
            raise ValueError(f"temperature must be zero or more, got {self.temperature!r}.")
        steps = isinstance(self.warm_up, int)
        if not (is_number(self.warm_up) and self.warm_up >= 0 and (steps or self.warm_up < 1)):
            raise ValueError(
                f"warm_up must be a share of all steps, in [0, 1), or a whole number of steps; got "
                f"{self.warm_up!r}."
            )
        if not (is_number(self.initial_deviation) and self.initial_deviation > 0):
            raise ValueError(f"initial_deviation must be positive, got {self.initial_deviation!r}.")

    def check_model(self, model: Model) -> None:
        """Raise `ValueError` for a prior without a closed-form scale update, or a flat one."""
        for prior in model.site_priors:
            structure = prior.structure
            if not math.isfinite(structure.scale):
                raise ValueError(
                    f"The prior on {prior.name!r} is flat (scale = inf): nothing shrinks."
                )
            # Whether these have closed forms, for which nothing has to be computed.
            try:
                for mixture in structure.groups.values():
                    jax.eval_shape(mixture.optimal_variance, 1.0, 1)
                jax.eval_shape(structure.base.expected_energy, prior.weight, prior.weight)
                jax.eval_shape(structure.base.moment, prior.weight, prior.weight, prior.weight)
            except ValueError as error:
                raise ValueError(f"The prior on {prior.name!r}: {error}") from None
            if not falls_at_zero(prior):
                raise ValueError(
                    f"The prior on {prior.name!r}, {structure!r}, has no most probable scales: few "
                    f"weights share one there, and as it shrinks the density rises without bound, "
                    f"however large the weights are. Give {type(structure.base).__name__} lighter "
                    f"tails, or use Laplace(), or a mixture with less density near zero in place "
                    f"of {type(structure.mixture).__name__}."
                )
            if not have_maximum(structure, prior.num_scales):
                raise ValueError(
                    f"The prior on {prior.name!r}, {structure!r}, has no most probable scales: as "
                    f"the scales by {next(iter(structure.groups))} all shrink and the layer's "
                    f"grows, the weights' prior stays the same and the density rises without "
                    f"bound. Use HalfCauchy in place of "
                    f"{type(structure.mixture).__name__}, or ARD in place of "
                    f"{type(structure).__name__}, or layer_mixture=Exponential(1.0)."
                )

    @property
    def remedies(self) -> tuple[str, ...]:
        warm_up = "a longer warm_up (a share of all steps or a number of them)"
        return "more steps", warm_up, "a lower temperature"

    def start(self, model: Model) -> State:
        means = eqx.filter(model, model.learnable())
        places = places_in_depth(model)
        log_deviations = {
            name: jnp.full_like(weight, math.log(self.initial_deviation / places[name]))
            for name, weight in model.weights.items()
        }
        variances = {
            name: {
                group: jnp.ones(shape, model.weights[name].dtype) for group, shape in groups.items()
            }
            for name, groups in model.scale_shapes.items()
        }
        return State(
            Gaussians(means, log_deviations), variances, network_state=state_of(model.network)
        )

    def update_scales(self, state: State, model: Model) -> State:
        means, log_deviations = state.learned
        best = {
            prior.name: best_variances(
                prior,
                prior.site.weight(means.network),
                log_deviations[prior.name],
                state.variances[prior.name],
                self.num_sweeps,
            )
            for prior in model.site_priors
        }
        # The envelope theorem: at their maximum the scales take no part in the gradient.
        return state._replace(variances=jax.lax.stop_gradient(best))

    def bound(
        self, state: State, model: Model, batch: tuple[Any, ...], *, key: PRNGKeyArray
    ) -> Bound:
        """The evidence lower bound in its terms, the likelihood estimated by noisy passes.

        Parameters
        ----------
        state : State
            The means and deviations of the weights, and the scales.
        model : Model
            The model that training started from.
        batch : tuple
            `(x, y)`, and what else `loss` takes.
        key : PRNG key
            Where the noise comes from.

        Returns
        -------
        Bound
            `log_likelihood`, the mean log-likelihood per datum; `kl`, the divergence of the
            Gaussians from the prior, a sum over weights; `log_hyperprior`, the log density of the
            scales, a sum over these. `per_datum(num_data, temperature)` puts them together.

        Examples
        --------
        >>> method = sx.VariationalEM()
        >>> state = method.update_scales(method.init(model), model)
        >>> bound_of = eqx.filter_jit(method.bound)
        >>> bound = bound_of(state, model, (jnp.asarray(x), jnp.asarray(y)), key=key)
        >>> bound.per_datum(len(x), temperature=1.0).shape
        ()
        """
        batch, key = as_batch(batch, model.dtype), noise_key(check_key(key, "key"))
        means, log_deviations = state.learned
        kl, hyper = jnp.zeros(()), jnp.zeros(())
        for prior in model.with_learned(means).site_priors:
            v = state.variances[prior.name]
            kl = kl + kl_divergence(prior, prior.weight, log_deviations[prior.name], v)
            hyper = hyper + log_hyperprior(prior, v)

        learned = means, state.learned.deviations
        fit, after = expected_log_likelihood(
            learned, model, state.network_state, batch, self.num_draws, key
        )
        return Bound(fit, kl, hyper, after)

    def terms(
        self,
        state: State,
        model: Model,
        batch: Batch,
        num_data: ArrayLike,
        key: PRNGKeyArray,
        temperature: ArrayLike | None = None,
    ) -> Terms:
        bound = self.bound(state, model, batch, key=key)
        temperature = self.temperature if temperature is None else temperature
        objective = bound.per_datum(num_data, temperature)
        recorded = {
            "log_likelihood": bound.log_likelihood,
            "kl": bound.kl,
            "log_hyperprior": bound.log_hyperprior,
        }
        return Terms(objective, bound.log_likelihood, recorded, bound.network_state)

    def optimizer_for(self, model: Model, num_steps: ArrayLike) -> optax.GradientTransformation:
        def in_shares(updates: Any, _: Any) -> Any:
            shares = shares_of_steps(model, updates.means)
            means = jax.tree.map(lambda update, share: share * update, updates.means, shares)
            return updates._replace(means=means)

        return optax.chain(super().optimizer_for(model, num_steps), optax.stateless(in_shares))

    def check_steps(self, num_steps: int) -> None:
        if self.warm_up > num_steps:
            raise ValueError(
                f"warm_up={self.warm_up} steps are more than the {num_steps} of all training, by "
                f"whose end the temperature must have risen."
            )

    def temperature_at(self, step: ArrayLike, num_steps: ArrayLike) -> Array:
        if isinstance(num_steps, int):
            self.check_steps(num_steps)
        temperature = jnp.asarray(self.temperature, jnp.float32)
        if self.warm_up == 0:
            return temperature
        length: ArrayLike = self.warm_up
        if isinstance(length, float):
            length = length * jnp.asarray(num_steps, jnp.float32)
        progress = (jnp.asarray(step, jnp.float32) + 1) / length
        return temperature * jnp.minimum(progress, 1.0)

    def score_rows(
        self,
        state: State,
        model: Model,
        data: Data,
        key: PRNGKeyArray,
        num_draws: int | None = None,
    ) -> RowScores:
        current = model.with_learned(state.learned.means).with_state(state.network_state)
        deviations = state.learned.deviations

        def network(key: PRNGKeyArray) -> Any:
            return draw_network(current.network, model.sites, deviations, key)

        keys = jax.random.split(key, num_draws or max(LEAST_SCORED, self.num_draws))
        return score_rows(network, current.likelihood, keys, data)

    def magnitudes(self, state: State, model: Model, key: PRNGKeyArray) -> dict[str, Array]:
        means, deviations = state.learned.means, state.learned.deviations
        return {
            site.name: jnp.max(jnp.abs(site.weight(means.network))) + jnp.max(deviations[site.name])
            for site in model.sites
        }

    def networks(self, state: State, model: Model) -> GaussianNetworks:
        learned = model.with_learned(state.learned.means).with_state(state.network_state)
        deviations = _exp(state.learned.log_deviations)
        return GaussianNetworks(learned, deviations, state.variances)


@jax.jit
def _exp(values: PyTree) -> PyTree:
    """The exponentials of all arrays, as one program."""
    return jax.tree.map(jnp.exp, values)
