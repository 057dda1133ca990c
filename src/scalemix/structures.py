"""Who shares a scale: a structure gives the scales of a weight matrix, in groups.

A group named `unit` has one scale for each row (a row holds the outgoing weights of one unit),
`weight` one for each weight, `layer` one for the whole matrix; `networks/groups.py` says how these
act on a layer. Where a structure has several groups, their scales multiply.
"""

import abc
from typing import ClassVar

import equinox as eqx

from scalemix._parameters import Real, as_parameter, require
from scalemix.mixtures import ScaleMixture

__all__ = ["ADD", "ARD", "ARDADD", "DropConnect", "Structure"]


class Structure(eqx.Module):
    """A scale mixture, and who shares its scales: the prior of one weight matrix.

    The base class of `ARD`, `DropConnect`, `ADD` and `ARDADD`.

    Parameters
    ----------
    mixture : ScaleMixture
        The distribution of the scales.
    scale : float, default 1.0
        The standard deviation of the Gaussian that the noise multiplies (`sigma0` in the paper).
        Infinite means flat: no penalty on the weights, and a prior that cannot be sampled.
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

    def __check_init__(self) -> None:
        name = type(self).__name__
        for mixture in self.groups.values():
            if not isinstance(mixture, ScaleMixture):
                raise ValueError(
                    f"{name} takes a scale mixture, such as {name}(HalfCauchy(1.0)), "
                    f"got {mixture!r}."
                )
        require(self.scale > 0, f"{name}: scale must be positive, got {self.scale}.")


class ARD(Structure):
    """One scale for each unit: automatic relevance determination. As noise: dropout.

    Parameters
    ----------
    mixture : ScaleMixture
        The distribution of each unit's scale.
    scale : float, default 1.0
        The standard deviation of the Gaussian that the noise multiplies; infinite is flat.

    Examples
    --------
    >>> sx.ARD(sx.HalfCauchy(1.0)).groups
    {'unit': HalfCauchy(scale=1)}
    """

    summary: ClassVar[str] = (
        "All weights that leave a unit share one scale (automatic relevance determination), so "
        "that an input or a unit which the data do not need can be switched off."
    )

    @property
    def groups(self) -> dict[str, ScaleMixture]:
        return {"unit": self.mixture}


class DropConnect(Structure):
    """One scale for each weight. As noise: DropConnect.

    Parameters
    ----------
    mixture : ScaleMixture
        The distribution of each weight's scale.
    scale : float, default 1.0
        The standard deviation of the Gaussian that the noise multiplies; infinite is flat.

    Examples
    --------
    >>> sx.DropConnect(sx.Bernoulli(0.9)).groups
    {'weight': Bernoulli(keep=0.9)}
    """

    summary: ClassVar[str] = "Each weight has a scale of its own."

    @property
    def groups(self) -> dict[str, ScaleMixture]:
        return {"weight": self.mixture}


class ADD(Structure):
    """One scale for each layer: automatic depth determination. As noise: stochastic depth.

    Only layers with a path around them, as in a residual network, can carry it.

    Parameters
    ----------
    mixture : ScaleMixture
        The distribution of each layer's scale.
    scale : float, default 1.0
        The standard deviation of the Gaussian that the noise multiplies; infinite is flat.

    Examples
    --------
    >>> sx.ADD(sx.Bernoulli(0.9)).groups
    {'layer': Bernoulli(keep=0.9)}
    """

    summary: ClassVar[str] = (
        "All weights of a residual layer share one scale (automatic depth determination), so that "
        "a layer which the data do not need can be switched off."
    )

    @property
    def groups(self) -> dict[str, ScaleMixture]:
        return {"layer": self.mixture}


class ARDADD(Structure):
    """A scale for each unit times one for the layer: ARD and ADD together.

    Only layers with a path around them, as in a residual network, can carry it.

    Parameters
    ----------
    mixture : ScaleMixture
        The distribution of each unit's scale.
    layer_mixture : ScaleMixture, optional
        The distribution of each layer's scale; that of the units by default.
    scale : float, default 1.0
        The standard deviation of the Gaussian that the noise multiplies; infinite is flat.

    Examples
    --------
    >>> sx.ARDADD(sx.HalfCauchy(1.0), sx.Exponential(1.0)).groups
    {'unit': HalfCauchy(scale=1), 'layer': Exponential(rate=1)}
    """

    summary: ClassVar[str] = (
        "Weights share a scale by unit and another by layer, so that units and whole layers which "
        "the data do not need can be switched off."
    )

    layer_mixture: ScaleMixture | None = None

    @property
    def groups(self) -> dict[str, ScaleMixture]:
        return {"unit": self.mixture, "layer": self.layer_mixture or self.mixture}
