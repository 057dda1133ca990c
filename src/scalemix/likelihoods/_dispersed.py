"""Noise of some scale, which is learned or decided by the network."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from scalemix._parameters import Real, as_array, as_parameter, require
from scalemix.likelihoods._base import Likelihood


class Dispersed(Likelihood):
    """A target around what the network's first output says, with noise of some scale.

    The scale is one number that is learned, or with `per_input` the network's second output. Either
    way it is `floor + softplus(raw)`, and cannot fall to the floor or below. What it measures, each
    likelihood says.
    """

    raw_scale: Array
    floor: Real
    per_input: bool = eqx.field(static=True)
    learned: ClassVar[tuple[str, ...]] = ("raw_scale",)

    @property
    def num_outputs(self) -> int:
        return 2 if self.per_input else 1

    @property
    def noise_outputs(self) -> tuple[int, ...]:
        return (1,) if self.per_input else ()

    def in_words(self) -> str:
        level = ", whose level the network says for each row" if self.per_input else ""
        return super().in_words() + level

    def scale(self, output: Array) -> Array:
        """The noise scale for this output."""
        raw = self.one(output)[1] if self.per_input else self.raw_scale.astype(output.dtype)
        return self.floor + jax.nn.softplus(raw)

    def leverage(self, output: Array) -> Array:
        return self.scale(output) ** 2 if self.per_input else super().leverage(output)


class LocationScale(Dispersed):
    """A real target around the network's first output."""

    continuous_units = True

    def mean(self, output: Array) -> Array:
        return self.one(output)[0]

    def error(self, output: Array, y: ArrayLike) -> Array:
        """How far a target is from the mean, in units of the noise scale."""
        return (as_array(self.target(y)) - self.mean(output)) / self.scale(output)

    @abc.abstractmethod
    def joint_log_prob(self, square: Array, num: Array) -> Array:
        """The log density of `num` errors that are uncorrelated and not further dependent than
        the family makes them, given the sum of their squares."""

    @abc.abstractmethod
    def joint_sample(self, num: int, dtype: Any, *, key: PRNGKeyArray) -> Array:
        """So many errors, drawn together."""


def raw_from_scale(name: str, scale: ArrayLike, floor: ArrayLike) -> Array:
    """The number whose softplus, above the floor, is the scale."""
    scale, floor = as_parameter(scale), as_parameter(floor)
    require(floor >= 0, f"{name}: floor must not be negative, got {floor}.")
    require(scale > floor, f"{name}: scale must lie above the floor, {floor}, got {scale}.")
    above = as_array(scale) - floor
    # Strongly typed: what training adjusts must not change its type on the way.
    return jnp.asarray(_raw(above), above.dtype)


@jax.jit
def _raw(above: Array) -> Array:
    # One program: five of one operation each take five times as long to compile.
    return above + jnp.log(-jnp.expm1(-above))
