"""The no-U-turn sampler, with step size and diagonal metric adapted in growing windows."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.adaptation.mass_matrix import mass_matrix_adaptation
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.adaptation.window_adaptation import build_schedule
from blackjax.mcmc import nuts
from jaxtyping import Array, PRNGKeyArray

from scalemix.inference.chains.sampler import (
    LogDensity,
    Sampler,
    Transition,
    as_blackjax_likes_it,
    strongly_typed,
    typed_like,
)

# Where the search for a step size begins. The search is fast, and first trajectories are short.
FIRST_STEP_SIZE = 0.1


class NUTSState(NamedTuple):
    """The chain, the search for a step size and the estimate of the metric."""

    chain: Any
    step_size: Any
    metric: Any


@dataclasses.dataclass(frozen=True)
class NUTS(Sampler):
    """Trajectories that end where they turn back, of `2 ** max_depth` leaps at most."""

    num_warmup: int
    target_acceptance: float
    max_depth: int

    def init(self, logdensity_fn: LogDensity, position: Array, key: PRNGKeyArray) -> NUTSState:
        with as_blackjax_likes_it():
            first, _, _ = dual_averaging_adaptation(self.target_acceptance)
            blank, _, _ = mass_matrix_adaptation(True)
            chain = nuts.init(position, logdensity_fn)
            step_size = first(jnp.asarray(FIRST_STEP_SIZE, position.dtype))
            return strongly_typed(NUTSState(chain, step_size, blank(position.size)))

    def step(
        self, logdensity_fn: LogDensity, state: NUTSState, index: Array, key: PRNGKeyArray
    ) -> tuple[NUTSState, Transition]:
        warming = index < self.num_warmup
        logs = state.step_size
        step_size = jnp.exp(jnp.where(warming, logs.log_step_size, logs.log_step_size_avg))
        with as_blackjax_likes_it():
            kernel: Any = nuts.build_kernel()
            chain, info = kernel(
                key, state.chain, logdensity_fn, step_size, state.metric.inverse_mass_matrix,
                self.max_depth,
            )  # fmt: skip
            moved = state._replace(chain=chain)
            following = jax.lax.cond(
                warming,
                lambda: typed_like(self._adapt(moved, index, info.acceptance_rate), state),
                lambda: typed_like(moved, state),
            )
        return following, Transition(
            chain.logdensity, info.energy, info.acceptance_rate, info.is_divergent,
            info.num_integration_steps,
        )  # fmt: skip

    def _adapt(self, state: NUTSState, index: Array, acceptance: Array) -> NUTSState:
        restart, better, settled = dual_averaging_adaptation(self.target_acceptance)
        _, add, conclude = mass_matrix_adaptation(True)
        slow, window_ends = jnp.asarray(build_schedule(self.num_warmup))[index]
        step_size = better(state.step_size, acceptance)
        metric = jax.lax.cond(
            slow == 1, lambda: add(state.metric, state.chain.position), lambda: state.metric
        )
        step_size, metric = jax.lax.cond(
            window_ends == 1,
            lambda: typed_like(
                (restart(settled(step_size)), conclude(metric)), (step_size, metric)
            ),
            lambda: (step_size, metric),
        )
        return NUTSState(state.chain, step_size, metric)
