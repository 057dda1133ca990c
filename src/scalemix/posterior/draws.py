"""The draws of a prediction: made all at once where that takes little memory, else one by one."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._random import side_key
from scalemix._remembered import remembered
from scalemix._types import PyTree
from scalemix.networks.rows import seed
from scalemix.posterior.networks import AnyNetworks, Drawn

# Numbers in all networks that are drawn at once: 32 MB in float32.
NUMBERS_AT_ONCE = 8 * 1024**2


class Draws(eqx.Module):
    """Draws that are made wherever they are used: they take no memory."""

    networks: AnyNetworks
    indices: Array | np.ndarray
    """The places that they take."""
    key: PRNGKeyArray

    @property
    def num(self) -> int:
        """How many there are."""
        return len(self.indices)

    def entries(self) -> PyTree:
        """What tells one from another, along a leading axis."""
        return self.indices, jax.random.split(self.key, self.num)

    def one(self, entry: PyTree) -> Drawn:
        """The draw that has this entry."""
        index, key = entry
        network, likelihood = self.networks(index, key)
        return Drawn(seed(network, side_key(key)), likelihood)


class MadeDraws(eqx.Module):
    """The same once they are made."""

    num: int = eqx.field(static=True)
    drawn: Drawn
    """All networks, and their likelihoods: arrays have a leading axis of draws."""

    def entries(self) -> PyTree:
        """The draws themselves."""
        return self.drawn

    def one(self, entry: PyTree) -> Drawn:
        """The draw that has this entry, which is the draw."""
        return entry


AnyDraws = Draws | MadeDraws


def make_draws(draws: Draws, owner: Any = None) -> AnyDraws:
    """The draws, made if that takes little memory.

    `owner` is an object that never changes and has the same draws whenever it has as many. They are
    kept for it, as far as there is room.
    """
    if draws.num * _size(draws.networks) > NUMBERS_AT_ONCE:
        return draws
    if owner is None:
        return _program()(draws)
    # Networks may be in double precision, where that is switched on.
    precision = jax.dtypes.canonicalize_dtype(np.float64)
    settings: Any = jax.config
    # Which numbers come of a key is a setting of JAX's.
    named = ("draws", draws.num, precision, settings.jax_threefry_partitionable)
    return remembered(owner, named, lambda: _program()(draws))


def _size(networks: AnyNetworks) -> int:
    """How many numbers one draw holds: as many as the model that all draws are like."""
    parts = networks.model.network, networks.model.likelihood
    return sum(leaf.size for leaf in jax.tree.leaves(parts) if eqx.is_array(leaf))


def _make(draws: Draws) -> MadeDraws:
    fixed: list[Any] = []

    def make(entry: PyTree) -> PyTree:
        varying, rest = eqx.partition(draws.one(entry), eqx.is_array)
        fixed.append(rest)
        return varying

    # What is no array is the same for all draws, and known once one is traced.
    return MadeDraws(draws.num, eqx.combine(jax.vmap(make)(draws.entries()), fixed[0]))


@functools.cache
def _program() -> Callable[[Draws], MadeDraws]:
    """`_make`, compiled with little effort where the generator takes seconds of it: on a CPU.

    It runs once for many predictions, and gives the same numbers.
    """
    level: dict[str, Any] = {"compiler_options": {"xla_backend_optimization_level": 1}}
    return eqx.filter_jit(_make, **level if jax.default_backend() == "cpu" else {})
