"""Arrays that stand in for weights, and whose value may never have to be computed.

A weight that differs from example to example would be copied for each of them. But a network mostly
multiplies data by a weight, and there the difference can move elsewhere: a factor on an axis that
is summed over can multiply the data, and one on any other axis can multiply the output, so that all
examples share one weight. `networks/interpreter.py` runs a network on such arrays. An operation
that it has no rule for gets the value itself, which is always right.
"""

import abc
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, DTypeLike

from scalemix._types import Shaped

# Added under the square root, so that a unit that is off has a finite gradient.
TINY = 1e-16
# How many numbers of single precision a processor takes at once, at the most.
VECTOR = 16


class Product(NamedTuple):
    """A product of a weight with data, linear in both."""

    multiply: Callable[[Array, Array], Array]
    """(weight, data) -> output."""
    data: Array
    summed: dict[int, int]
    """Each axis of the weight that is summed over, with the axis of the data that it meets. The
    latter may be several times as long: groups, one after the other."""
    kept: dict[int, int]
    """Each axis of the weight that the output keeps, with its place there."""
    dtype: DTypeLike
    """The type of the output."""
    once: bool
    """Whether each entry of the weight meets one entry of the data, and not several."""


class Deferred(eqx.Module):
    """An array whose value is computed only where it is needed."""

    @property
    @abc.abstractmethod
    def like(self) -> Shaped:
        """Its shape and type."""

    @abc.abstractmethod
    def value(self) -> Array:
        """The array itself."""

    @abc.abstractmethod
    def transpose(self, permutation: tuple[int, ...]) -> "Deferred | Array":
        """The same with its axes in another order."""

    @abc.abstractmethod
    def astype(self, dtype: DTypeLike) -> "Deferred":
        """The same in another type."""

    @abc.abstractmethod
    def times(self, product: Product) -> Array:
        """The output of a product with data."""

    def repeated(self) -> "Deferred | Array":
        """What takes its place in a loop."""
        return self

    def looked_up(self, starts: dict[int, Array]) -> None:
        """Learn that parts are taken from here on, along some of its axes."""

    def part(self, take: Callable[[Array], Array]) -> Array | None:
        """What an operation takes of it, each entry once at the most; `None` if it does not say."""
        return None


class Term(eqx.Module):
    """An array times one factor for some of its axes.

    A factor may be several times as long as its axis: groups of a convolution, one after the other,
    of which each belongs to as many entries of the axis `outputs`.
    """

    held: Array
    factors: dict[int, Array]
    outputs: int | None = eqx.field(static=True, default=None)
    turned: bool = eqx.field(static=True, default=False)
    """Whether the array held is the transpose."""

    @property
    def base(self) -> Array:
        """The array without its factors."""
        return self.held.T if self.turned else self.held

    def turn(self) -> "Term":
        """The same with the transpose held."""
        return Term(self.base.T, self.factors, self.outputs, turned=True)

    def value(self) -> Array:
        """The array with its factors multiplied in."""
        value = self.base
        for axis, factor in self.factors.items():
            value = value * self._spread(axis, factor)
        return value

    def _spread(self, axis: int, factor: Array) -> Array:
        return spread(factor, axis, self.base.shape, self.outputs)

    @property
    def grouped(self) -> bool:
        """Whether some factor is longer than its axis."""
        return any(len(f) != self.base.shape[axis] for axis, f in self.factors.items())

    def times(self, product: Product) -> Array:
        """The product, with the factors moved to the data and to the output."""
        base, data, after = self.base, product.data, []
        for axis, factor in self.factors.items():
            place, length = product.summed.get(axis), self.base.shape[axis]
            if (
                place is not None
                and len(factor) in (length, data.shape[place])
                and holds(data.dtype, factor.dtype)
            ):
                groups = data.shape[place] // len(factor)
                factor = jnp.tile(factor.astype(data.dtype), groups)
                data = data * along(factor, place, data.ndim)
            elif (
                axis in product.kept
                and len(factor) == length
                and holds(product.dtype, factor.dtype)
            ):
                after.append((factor.astype(product.dtype), product.kept[axis]))
            else:
                base = base * self._spread(axis, factor)
        output = product.multiply(base, data)
        for factor, place in after:
            output = output * along(factor, place, output.ndim)
        return output

    def move(self, base: Array, places: dict[int, int]) -> "Term":
        """The term after an operation on its base that put its axes elsewhere."""
        return Term(base, {places[axis]: factor for axis, factor in self.factors.items()})


class Factored(Deferred):
    """A sum of arrays, each times factors along some of its axes.

    `num_stacked` first axes of all arrays and factors stack weights, and are not counted as axes.
    """

    terms: tuple[Term, ...]
    num_stacked: int = eqx.field(static=True, default=0)

    @property
    def like(self) -> Shaped:
        base = self.terms[0].base
        return jax.ShapeDtypeStruct(base.shape, base.dtype)

    def value(self) -> Array:
        value = Term.value
        for _ in range(self.num_stacked):
            value = jax.vmap(value)
        first, *rest = (value(term) for term in self.terms)
        return sum(rest, start=first)

    def one_of_stack(self) -> "Factored":
        """One of the weights that are stacked, once the first axis of the arrays is gone."""
        return type(self)(self.terms, self.num_stacked - 1)

    def plain(self) -> bool:
        """Whether axes of the factors are axes of the arrays, and as long."""
        return self.num_stacked == 0 and not any(term.grouped for term in self.terms)

    def repeated(self) -> "Factored":
        # The gradient of a matrix is summed up over the steps of a loop as the matrix is held. On
        # a CPU, XLA is slower at it where rows are shorter than the processor's vectors: a step of
        # the GRU in benchmarks/networks.py takes a twentieth longer.
        narrow = len(self.like.shape) == 2 and self.like.shape[1] < VECTOR <= self.like.shape[0]
        return self.map(Term.turn) if narrow and not self.num_stacked else self

    def map(self, change: Callable[[Term], Term]) -> "Factored":
        """The sum with each term changed."""
        return type(self)(tuple(change(term) for term in self.terms))

    def transpose(self, permutation: tuple[int, ...]) -> "Factored | Array":
        if not self.plain():
            return jnp.transpose(self.value(), permutation)
        places = {old: new for new, old in enumerate(permutation)}
        return self.map(lambda term: term.move(jnp.transpose(term.base, permutation), places))

    def astype(self, dtype: DTypeLike) -> "Factored":
        return jax.tree.map(lambda leaf: leaf.astype(dtype), self)

    def times(self, product: Product) -> Array:
        if self.num_stacked:
            return product.multiply(self.value(), product.data)
        first, *rest = (term.times(product) for term in self.terms)
        # Named, so that it is kept where sums are computed again: the terms are twice as large.
        return checkpoint_name(sum(rest, start=first), "product") if rest else first


class Cut(Factored):
    """A weight that is multiplied with zeros in place of the data.

    What comes after it then depends on the weight, and on nothing that came before.
    """

    def times(self, product: Product) -> Array:
        return product.multiply(self.value(), jnp.zeros_like(product.data))


class LocalGaussian(Deferred):
    """Independent Gaussian weights that act in one product with data, and nowhere else.

    The product is Gaussian too, with mean `h mu` and variance `h^2 sigma^2`, and is drawn in place
    of the weights (local reparametrization). Or a part of them is taken once, such as the entry of
    a table: then that part alone is drawn. `noise` is a standard normal number for each entry of
    the product, or of the part.
    """

    mean: Array
    variance: Array
    noise: Array

    @property
    def like(self) -> Shaped:
        return jax.ShapeDtypeStruct(self.mean.shape, self.mean.dtype)

    def value(self) -> Array:
        raise AssertionError("The weight acts once, in a product: see find_uses.")

    def transpose(self, permutation: tuple[int, ...]) -> "LocalGaussian":
        mean, variance = (jnp.transpose(a, permutation) for a in (self.mean, self.variance))
        return LocalGaussian(mean, variance, self.noise)

    def astype(self, dtype: DTypeLike) -> "LocalGaussian":
        return jax.tree.map(lambda leaf: leaf.astype(dtype), self)

    def times(self, product: Product) -> Array:
        mean = product.multiply(self.mean, product.data)
        spread = product.multiply(self.variance, product.data * product.data)
        return self._drawn(mean, spread)

    def part(self, take: Callable[[Array], Array]) -> Array:
        return self._drawn(take(self.mean), take(self.variance))

    def _drawn(self, mean: Array, variance: Array) -> Array:
        noise = self.noise.reshape(mean.shape).astype(mean.dtype)
        return mean + jnp.sqrt(variance + TINY) * noise


class Use(NamedTuple):
    """A product in which a weight acts."""

    product: Product
    axes: tuple[int, ...]
    """Which axis of the weight has become each axis of what is multiplied."""
    shape: tuple[int, ...]
    """The shape of the output."""


class Lookup(NamedTuple):
    """Parts that are taken of a weight: where they start, by axis of the weight."""

    starts: dict[int, Array]


class Part(NamedTuple):
    """A part that is taken of a weight, each entry once at the most."""

    shape: tuple[int, ...]
    """The shape of the part."""


class Loop(NamedTuple):
    """A loop in which a weight acts."""


class Probe(Deferred):
    """Records how a weight is used.

    `note` is called outside of loops with each product and with each part that is taken once, with
    each loop, and with `None` for any other use. A lookup is told of beforehand.
    """

    blank: Array
    note: Callable[[Use | Lookup | Part | Loop | None], None] = eqx.field(static=True)
    axes: tuple[int, ...] = eqx.field(static=True)

    def __init__(
        self,
        blank: Array,
        note: Callable[[Use | Lookup | Part | Loop | None], None],
        axes: tuple[int, ...] | None = None,
    ):
        self.blank, self.note = blank, note
        self.axes = tuple(range(blank.ndim)) if axes is None else axes

    @property
    def like(self) -> Shaped:
        return jax.ShapeDtypeStruct(self.blank.shape, self.blank.dtype)

    def value(self) -> Array:
        self.note(None)
        return self.blank

    def repeated(self) -> Array:
        self.note(Loop())
        return self.blank

    def looked_up(self, starts: dict[int, Array]) -> None:
        self.note(Lookup({self.axes[axis]: start for axis, start in starts.items()}))

    def part(self, take: Callable[[Array], Array]) -> Array:
        output = take(self.blank)
        self.note(Part(output.shape))
        return output

    def transpose(self, permutation: tuple[int, ...]) -> "Probe":
        axes = tuple(self.axes[axis] for axis in permutation)
        return Probe(jnp.transpose(self.blank, permutation), self.note, axes)

    def astype(self, dtype: DTypeLike) -> "Probe":
        if jnp.finfo(dtype).bits < jnp.finfo(self.blank.dtype).bits:
            # Squares of deviations may underflow in a narrower type.
            self.note(None)
        return Probe(self.blank.astype(dtype), self.note, self.axes)

    def times(self, product: Product) -> Array:
        output = product.multiply(self.blank, product.data)
        self.note(Use(product, self.axes, output.shape))
        return output


def holds(dtype: DTypeLike, of: DTypeLike) -> bool:
    """Whether one type has room for all real numbers of another."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return False
    return jnp.finfo(dtype).bits >= jnp.finfo(of).bits and has_range(dtype, of)


def has_range(dtype: DTypeLike, of: DTypeLike) -> bool:
    """Whether numbers of the one type can be as large as those of the other."""
    return jnp.finfo(dtype).maxexp >= jnp.finfo(of).maxexp


def along(factor: Array, axis: int, ndim: int) -> Array:
    """A vector along one axis of an array with this many axes."""
    return factor.reshape((1,) * axis + (-1,) + (1,) * (ndim - axis - 1))


def spread(factor: Array, axis: int, shape: tuple[int, ...], outputs: int | None) -> Array:
    """A vector along one axis of an array of this shape, broadcastable against it.

    It may be several times as long as the axis: groups, one after the other. Then the entries of
    the axis `outputs` are divided among the groups.
    """
    length, num_groups = shape[axis], len(factor) // shape[axis]
    if num_groups == 1:
        return along(factor, axis, len(shape))
    assert outputs is not None
    by_group = factor.reshape(num_groups, length)
    by_output = jnp.repeat(by_group, shape[outputs] // num_groups, axis=0)
    ordered = by_output if outputs < axis else by_output.T
    return ordered.reshape([n if i in (axis, outputs) else 1 for i, n in enumerate(shape)])
