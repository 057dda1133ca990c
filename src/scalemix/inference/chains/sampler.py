"""What a gradient sampler is: a first state, and steps that adapt during the warm-up."""

import abc
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix._types import PyTree

LogDensity = Callable[[Array], Array]


class Transition(NamedTuple):
    """What is known about a step of one chain; or, as arrays, about steps of many chains."""

    log_density: Any
    energy: Any
    """That of the trajectory. Not a number for MCLMC, whose momentum has a constant length."""
    acceptance: Any
    diverged: Any
    num_gradients: Any


class Sampler(abc.ABC):
    """A sampler from BlackJAX that adapts itself over the first `num_warmup` steps.

    Pure functions of one chain, which may be mapped over many. A state has a `chain` with the
    fields `position`, `logdensity` and `logdensity_grad`.
    """

    @abc.abstractmethod
    def init(self, logdensity_fn: LogDensity, position: Array, key: PRNGKeyArray) -> Any:
        """The first state."""

    @abc.abstractmethod
    def step(
        self, logdensity_fn: LogDensity, state: Any, index: Array, key: PRNGKeyArray
    ) -> tuple[Any, Transition]:
        """The next state; `index` counts the steps from the first of the warm-up on."""

    def refresh(self, logdensity_fn: LogDensity, state: Any) -> Any:
        """The state at the same position of a density that has changed."""
        value, slope = jax.value_and_grad(logdensity_fn)(state.chain.position)
        chain = state.chain._replace(logdensity=value, logdensity_grad=slope)
        return state._replace(chain=chain)


@contextlib.contextmanager
def as_blackjax_likes_it() -> Iterator[None]:
    """A context with the type promotion that BlackJAX relies on, whatever the user has set."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def typed_like(new: PyTree, old: PyTree) -> PyTree:
    """`new` in the types of `old`, which a loop must not change."""
    return jax.tree.map(lambda n, o: jnp.asarray(n, jnp.result_type(o)), new, old)


def strongly_typed(tree: PyTree) -> PyTree:
    """The tree with no weakly typed arrays, which a compiled loop could not carry."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), tree)
