"""Who shares a scale: a structure turns the shape of a weight matrix into the shape of its scales.

Scales come in groups. A group named `unit` has one scale for each row (a row holds the outgoing
weights of one unit), `weight` one for each weight, `layer` one for the whole matrix. Where a
structure has several groups, their scales multiply.
"""

import abc

import equinox as eqx

from scalemix._parameters import Real, as_parameter, require
from scalemix.mixtures import ScaleMixture


class Structure(eqx.Module):
    """A scale mixture, and who shares its scales: the prior of one weight matrix.

    `scale` is the standard deviation of the Gaussian that the noise multiplies (sigma0 in the
    paper). Infinite means flat: no penalty on the weights, and a prior that cannot be sampled.
    """

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

    @property
    def groups(self):
        return {"unit": self.mixture}


class DropConnect(Structure):
    """One scale for each weight. As noise: DropConnect."""

    @property
    def groups(self):
        return {"weight": self.mixture}


class ADD(Structure):
    """One scale for each layer: automatic depth determination. As noise: stochastic depth."""

    @property
    def groups(self):
        return {"layer": self.mixture}


class ARDADD(Structure):
    """A scale for each unit times one for the layer, of the same mixture unless one is given."""

    layer_mixture: ScaleMixture | None = None

    @property
    def groups(self):
        return {"unit": self.mixture, "layer": self.layer_mixture or self.mixture}
