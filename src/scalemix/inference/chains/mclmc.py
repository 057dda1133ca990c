"""Microcanonical Langevin Monte Carlo: no rejections, two gradients a step.

Its bias is held down by the step size: the variance of the error in energy, per unknown, is kept
at a tolerance. Step size and metric are adapted in three windows of the warm-up:

1. the step size alone;
2. the step size, while the variance of each unknown is measured;
3. the step size anew, in the metric of those variances.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from blackjax.mcmc import mclmc
from jaxtyping import Array, PRNGKeyArray

from scalemix.inference.chains.sampler import (
    LogDensity,
    Sampler,
    Transition,
    as_blackjax_likes_it,
    strongly_typed,
    typed_like,
)

# The first step, as a share of the size of the space, which is the square root of its dimension. It
# is short, so that a chain that starts well is not thrown out.
FIRST_STEP = 1e-3
# The most by which one step may be longer than the last.
MOST_GROWTH = 1.2
# How many steps the estimate of the step size remembers, and how far off, in logarithms, an error
# may be to be trusted.
MEMORY = 150.0
TRUST = 9.0
# A step whose error is this many times the tolerated one (a ratio of squares) is not taken.
LARGEST_RATIO = 1e4


class MCLMCState(NamedTuple):
    """The chain, and what its adaptation remembers."""

    chain: Any
    step_size: Array
    error: Array
    """The remembered sum of errors, each over the sixth power of its step size."""
    memory: Array
    """The remembered sum of their weights."""
    mean: Array
    squares: Array
    num_measured: Array
    inverse_mass: Array


@dataclasses.dataclass(frozen=True)
class MCLMC(Sampler):
    """Steps along the gradient's direction at constant speed, with momentum renewed on the way."""

    num_warmup: int
    energy_tolerance: float

    def init(self, logdensity_fn: LogDensity, position: Array, key: PRNGKeyArray) -> MCLMCState:
        if position.size < 2:
            raise ValueError("MCLMC needs two unknowns at least. Use sampler='nuts'.")
        zero, zeros = jnp.zeros((), position.dtype), jnp.zeros_like(position)
        with as_blackjax_likes_it():
            chain = mclmc.init(position, logdensity_fn, key)
            step_size = jnp.asarray(FIRST_STEP * math.sqrt(position.size), position.dtype)
            return strongly_typed(
                MCLMCState(chain, step_size, zero, zero, zeros, zeros, zero, zeros + 1)
            )

    def step(
        self, logdensity_fn: LogDensity, state: MCLMCState, index: Array, key: PRNGKeyArray
    ) -> tuple[MCLMCState, Transition]:
        num = state.chain.position.size
        with as_blackjax_likes_it():
            kernel: Any = mclmc.build_kernel(
                desired_energy_var_max_ratio=LARGEST_RATIO, desired_energy_var=self.energy_tolerance
            )
            # In a metric of unit variances the momentum is forgotten over the width of the space.
            chain, info = kernel(
                key, state.chain, logdensity_fn, state.inverse_mass, math.sqrt(num), state.step_size
            )
            # A step that was not taken reports no change at all.
            refused = ~info.nonans | ((info.energy_change == 0) & (info.kinetic_change == 0))
            moved = typed_like(state._replace(chain=chain), state)
            following = jax.lax.cond(
                index < self.num_warmup,
                lambda: typed_like(self._adapt(moved, index, info.energy_change, refused), state),
                lambda: moved,
            )
        acceptance = 1.0 - refused.astype(chain.position.dtype)
        return following, Transition(
            chain.logdensity, jnp.full_like(chain.logdensity, jnp.nan), acceptance, refused,
            jnp.asarray(2, jnp.int32),
        )  # fmt: skip

    def _adapt(self, state: MCLMCState, index: Array, change: Array, refused: Array) -> MCLMCState:
        num = state.chain.position.size
        # The error grows with the sixth power of the step size, so that each step tells which size
        # would have been right, more reliably the closer it was (Robnik et al. 2023, section 4).
        ratio = jnp.where(refused, LARGEST_RATIO, change**2 / (num * self.energy_tolerance) + 1e-8)
        weight = jnp.exp(-0.5 * (jnp.log(ratio) / TRUST) ** 2)
        forget = (MEMORY - 1) / (MEMORY + 1)
        error = forget * state.error + weight * ratio / state.step_size**6
        memory = forget * state.memory + weight
        wanted = (error / memory) ** (-1 / 6)
        step_size = jnp.minimum(wanted, MOST_GROWTH * state.step_size)
        state = state._replace(step_size=step_size, error=error, memory=memory)

        first, second = self.num_warmup // 3, 2 * self.num_warmup // 3
        measuring = (index >= first) & (index < second)
        count = state.num_measured + jnp.where(measuring, 1.0, 0.0)
        apart = state.chain.position - state.mean
        mean = state.mean + jnp.where(measuring, apart / jnp.maximum(count, 1.0), 0.0)
        squares = state.squares + jnp.where(measuring, apart * (state.chain.position - mean), 0.0)
        state = state._replace(mean=mean, squares=squares, num_measured=count)
        return jax.lax.cond(index == second, self._change_metric, lambda s: s, state)

    def _change_metric(self, state: MCLMCState) -> MCLMCState:
        # The mean variance counts as a few samples, lest an unknown that hardly moved stalls.
        variance = state.squares / jnp.maximum(state.num_measured, 1.0)
        total = state.num_measured + 5.0
        variance = (state.num_measured * variance + 5.0 * jnp.mean(variance)) / total
        variance = jnp.where(jnp.all(variance > 0), variance, jnp.ones_like(variance))
        # At first no unknown moves further than before. The estimate starts anew from there.
        step_size = state.step_size / jnp.sqrt(jnp.max(variance))
        zero = jnp.zeros_like(state.error)
        state = state._replace(inverse_mass=variance, step_size=step_size, error=zero, memory=zero)
        return strongly_typed(state)
