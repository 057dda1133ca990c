"""The networks of several fits."""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from scalemix._remembered import remembered
from scalemix._types import PyTree
from scalemix.model.model import Model
from scalemix.posterior.networks._base import Drawn, Networks
from scalemix.posterior.networks.sampled import SampledNetworks


class Ensemble(eqx.Module):
    """Networks of several fits, as `AnyNetworks`. Draws take one member after the other."""

    stacked: Networks
    """One set of networks whose arrays have a leading axis, the members."""
    num_members: int = eqx.field(static=True)

    @property
    def model(self) -> Model:
        """The model of the first member."""
        return self.first.model

    @property
    def first(self) -> Networks:
        """The networks of the first member."""
        return remembered(self, "first", lambda: self.member(0))

    @property
    def lead(self) -> tuple[int, ...]:
        return (self.num_members,)

    def member(self, index: int | Array) -> Networks:
        """The networks of one member."""
        arrays, static = eqx.partition(self.stacked, eqx.is_array)
        return eqx.combine(_entry(arrays, index), static)

    @property
    def members(self) -> tuple[Networks, ...]:
        return tuple(self.member(i) for i in range(self.num_members))

    def with_members(self, members: Sequence[Networks]) -> "Ensemble":
        split = [eqx.partition(member, eqx.is_array) for member in members]
        arrays = _stack([arrays for arrays, _ in split])
        # All members have one form, so that the first has what is not an array for all.
        return Ensemble(eqx.combine(arrays, split[0][1]), len(members))

    @property
    def default_draws(self) -> int:
        # As many for each member.
        return self.num_members * math.ceil(self.first.default_draws / self.num_members)

    @property
    def num_places(self) -> int:
        return self.num_members * self.first.num_places

    @property
    def parts(self) -> tuple[Networks, ...]:
        return tuple(part for member in self.members for part in member.parts)

    def chains(self) -> SampledNetworks:
        return self.stacked.chains()

    def noise(self) -> Networks:
        raise ValueError(
            "Each member of an ensemble weighs its own noise: ask one of posterior.members."
        )

    @property
    def title(self) -> str:
        return f"{self.num_members} x {self.stacked.title}"

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        return self.member(index % self.num_members)(index // self.num_members, key)


# One program for all arrays.


@jax.jit
def _entry(arrays: PyTree, index: int | Array) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[index], arrays)


@jax.jit
def _stack(trees: Sequence[PyTree]) -> PyTree:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)
