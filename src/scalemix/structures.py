"""Who shares a scale: a structure gives the scales of a weight matrix, in groups.

A group named `unit` has one scale for each row (a row holds the outgoing weights of one unit),
`output` one for the weights that lead to each output, `column` one for the inputs that were made of
one column of a table, `part` one for those that belong together within a column, `weight` one for
each weight, `layer` one for the whole matrix; `networks/groups.py` says how these act on a layer.
Where a structure has several groups, their scales multiply. What they multiply is the structure's
base.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Literal, get_args

import equinox as eqx

from scalemix._parameters import Real, as_parameter, require
from scalemix.bases import Base, Normal
from scalemix.mixtures import ScaleMixture

__all__ = ["ADD", "ARD", "ARDADD", "DropConnect", "Structure"]

By = Literal["unit", "output", "head", "token", "column", "part"]
"""Who may share a scale within a layer, but for all of it and for nobody."""
# The words of summaries.
SHARING = {
    "unit": ("that leave a unit", "an input or a unit"),
    "output": ("that lead to an output", "an output of a layer, or a filter of a convolution,"),
    "head": ("that leave a head of attention", "a head"),
    "token": ("of a token", "a token"),
    "column": ("that read a column of the table", "a column"),
    "part": ("that read a part of a column", "a part of a column"),
}


class Structure(eqx.Module):
    """A scale mixture, and who shares its scales: the prior of one weight matrix.

    The base class of `ARD`, `DropConnect`, `ADD` and `ARDADD`.

    Parameters
    ----------
    mixture : ScaleMixture
        The distribution of the scales.
    scale : float, default 1.0
        The scale of what the noise multiplies, its standard deviation where it is Gaussian
        (`sigma0` in the paper). Infinite means flat: no penalty on the weights, and a prior that
        cannot be sampled.
    base : Base, default Normal()
        The distribution that the noise multiplies, in its standard form: one of `scalemix.bases`.
    """

    mixture: ScaleMixture
    scale: Real = eqx.field(default=1.0, converter=as_parameter, kw_only=True)
    base: Base = eqx.field(default=Normal(), kw_only=True)

    @property
    @abc.abstractmethod
    def summary(self) -> str:
        """What the structure can switch off, in a sentence for a report."""

    @property
    @abc.abstractmethod
    def groups(self) -> dict[str, ScaleMixture]:
        """The mixture of each group of scales, by the group's name."""

    @property
    def title(self) -> str:
        """What to call the structure in a table: its class, and what is not as usual in it."""
        by = [f" by {group}" for group in self.groups if group in SHARING and group != "unit"]
        base = "" if self.base.quadratic else f" with a {type(self.base).__name__} base"
        return type(self).__name__ + "".join(by) + base

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
        if not isinstance(self.base, Base):
            raise ValueError(
                f"{name}: base must be one of scalemix.bases, such as Laplace(), got {self.base!r}."
            )

    def __repr__(self) -> str:
        # Whatever is as it is by default goes without saying.
        values = ((f, getattr(self, f.name)) for f in dataclasses.fields(self))
        shown = [
            f"{f.name}={value:g}" if isinstance(value, float) else f"{f.name}={value!r}"
            for f, value in values
            if not (type(value) is type(f.default) and value == f.default)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def _check_by(by: By | Sequence[By]) -> By | tuple[By, ...]:
    several = (by,) if isinstance(by, str) else tuple(by)
    if not several or len(set(several)) < len(several) or not set(several) <= set(get_args(By)):
        raise ValueError(f"by must be one of {get_args(By)}, or several of them; got {by!r}.")
    return several[0] if len(several) == 1 else several


def _check_one(by: By) -> By:
    if by not in get_args(By):
        raise ValueError(f"by must be one of {get_args(By)}, got {by!r}.")
    return by


class ARD(Structure):
    """One scale for each unit: automatic relevance determination. As noise: dropout.

    Parameters
    ----------
    mixture : ScaleMixture
        The distribution of each unit's scale.
    scale : float, default 1.0
        The scale of what the noise multiplies, its standard deviation where it is Gaussian;
        infinite is flat.
    base : Base, default Normal()
        The distribution that the noise multiplies, in its standard form: one of `scalemix.bases`.
    by : {"unit", "output", "head", "token", "column", "part"} or several of them, default "unit"
        Which weights share a scale: those that leave a unit, or an input channel of a convolution,
        or make up a dimension of an embedding; those that lead to an output, a filter of a
        convolution; those that leave a head of attention (in its output projection); those of a
        token of an embedding; or those that read the inputs made of one column of a table, or of a
        part of one (in `ColumnLinear` and `LevelTable` of `scalemix.networks`). As noise, scales by
        output multiply what the layer puts out, before the bias. Scales of several kinds multiply.

    Examples
    --------
    >>> sx.ARD(sx.HalfCauchy(1.0)).groups
    {'unit': HalfCauchy(scale=1)}
    >>> sx.ARD(sx.HalfCauchy(1.0), by="output").groups
    {'output': HalfCauchy(scale=1)}
    >>> list(sx.ARD(sx.HalfCauchy(1.0), by=("column", "part")).groups)
    ['column', 'part']
    """

    by: By | tuple[By, ...] = eqx.field(
        default="unit", static=True, kw_only=True, converter=_check_by
    )

    @property
    def summary(self) -> str:
        words = [SHARING[by] for by in self.groups]
        which, what = (" or ".join(each) for each in zip(*words, strict=True))
        product = " Scales of both kinds multiply." if len(words) > 1 else ""
        return (
            f"All weights {which} share one scale (automatic relevance determination), so that "
            f"{what} which the data do not need can be switched off.{product}"
        )

    @property
    def groups(self) -> dict[str, ScaleMixture]:
        return dict.fromkeys((self.by,) if isinstance(self.by, str) else self.by, self.mixture)


class DropConnect(Structure):
    """One scale for each weight. As noise: DropConnect.

    Parameters
    ----------
    mixture : ScaleMixture
        The distribution of each weight's scale.
    scale : float, default 1.0
        The scale of what the noise multiplies, its standard deviation where it is Gaussian;
        infinite is flat.
    base : Base, default Normal()
        The distribution that the noise multiplies, in its standard form: one of `scalemix.bases`.

    Examples
    --------
    >>> sx.DropConnect(sx.Bernoulli(0.9)).groups
    {'weight': Bernoulli(keep=0.9)}
    """

    @property
    def summary(self) -> str:
        return "Each weight has a scale of its own."

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
        The scale of what the noise multiplies, its standard deviation where it is Gaussian;
        infinite is flat.
    base : Base, default Normal()
        The distribution that the noise multiplies, in its standard form: one of `scalemix.bases`.

    Examples
    --------
    >>> sx.ADD(sx.Bernoulli(0.9)).groups
    {'layer': Bernoulli(keep=0.9)}
    """

    @property
    def summary(self) -> str:
        return (
            "All weights of a residual layer share one scale (automatic depth determination), so "
            "that a layer which the data do not need can be switched off."
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
        The scale of what the noise multiplies, its standard deviation where it is Gaussian;
        infinite is flat.
    base : Base, default Normal()
        The distribution that the noise multiplies, in its standard form: one of `scalemix.bases`.
    by : {"unit", "output", "head", "token", "column", "part"}, default "unit"
        Which weights share a scale, as in `ARD`.

    Examples
    --------
    >>> sx.ARDADD(sx.HalfCauchy(1.0), sx.Exponential(1.0)).groups
    {'unit': HalfCauchy(scale=1), 'layer': Exponential(rate=1)}
    """

    layer_mixture: ScaleMixture | None = None
    by: By = eqx.field(default="unit", static=True, kw_only=True, converter=_check_one)

    @property
    def summary(self) -> str:
        return (
            f"Weights share a scale by {self.by} and another by layer, so that {self.by}s and "
            f"whole layers which the data do not need can be switched off."
        )

    @property
    def groups(self) -> dict[str, ScaleMixture]:
        return {self.by: self.mixture, "layer": self.layer_mixture or self.mixture}
