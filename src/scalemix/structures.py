"""Who shares a scale: a structure turns the shape of a weight matrix into the shape of its scales.

Scales come in groups. A group named `unit` has one scale for each row (a row holds the outgoing
weights of one unit), `weight` one for each weight, `layer` one for the whole matrix. Where a
structure has several groups, their scales multiply.
"""

import abc
from typing import ClassVar

import equinox as eqx

from scalemix._parameters import Real, as_parameter, require
from scalemix.mixtures import ScaleMixture


def group_shape(group: str, weight_shape: tuple[int, ...], num_rows: int) -> tuple[int, ...]:
    """The shape of a group's scales, for a weight of this shape with this many rows."""
    return {"unit": (num_rows,), "weight": weight_shape, "layer": ()}[group]


class Structure(eqx.Module):
    """A scale mixture, and who shares its scales: the prior of one weight matrix.

    `scale` is the standard deviation of the Gaussian that the noise multiplies (sigma0 in the
    paper). Infinite means flat: no penalty on the weights, and a prior that cannot be sampled.
    """

    summary: ClassVar[str] = ""
    """What the structure can switch off, in a sentence for a report."""

    mixture: ScaleMixture
    scale: Real = eqx.field(default=1.0, converter=as_parameter, kw_only=True)

    @property
    @abc.abstractmethod
    def groups(self) -> dict[str, ScaleMixture]:
        """The mixture of each group of scales, by the group's name."""

    @property
    def needs_path_around(self) -> bool:
        """Whether the structure can switch a whole layer off, so that something must bypass it."""
        return "layer" in self.groups

    def __check_init__(self):
        name = type(self).__name__
        for mixture in self.groups.values():
            if not isinstance(mixture, ScaleMixture):
                raise ValueError(
                    f"{name} takes a scale mixture, such as {name}(HalfCauchy(1.0)), "
                    f"got {mixture!r}."
                )
        require(self.scale > 0, f"{name}: scale must be positive, got {self.scale}.")


class ARD(Structure):
    """One scale for each unit: automatic relevance determination. As noise: dropout."""

    summary: ClassVar[str] = (
        "All weights that leave a unit share one scale (automatic relevance determination), so "
        "that an input or a unit which the data do not need can be switched off."
    )

    @property
    def groups(self):
        return {"unit": self.mixture}


class DropConnect(Structure):
    """One scale for each weight. As noise: DropConnect."""

    summary: ClassVar[str] = "Each weight has a scale of its own."

    @property
    def groups(self):
        return {"weight": self.mixture}


class ADD(Structure):
    """One scale for each layer: automatic depth determination. As noise: stochastic depth."""

    summary: ClassVar[str] = (
        "All weights of a residual layer share one scale (automatic depth determination), so that "
        "a layer which the data do not need can be switched off."
    )

    @property
    def groups(self):
        return {"layer": self.mixture}


class ARDADD(Structure):
    """A scale for each unit times one for the layer, of the same mixture unless one is given."""

    summary: ClassVar[str] = (
        "Weights share a scale by unit and another by layer, so that units and whole layers which "
        "the data do not need can be switched off."
    )

    layer_mixture: ScaleMixture | None = None

    @property
    def groups(self):
        return {"unit": self.mixture, "layer": self.layer_mixture or self.mixture}
