"""The two networks of the benchmark, whole and narrowed to the units that are left.

A narrowed network comes in two forms. With room to spare, it has the widths that it is given and a
mask of the units in use, so that networks of different shapes have arrays of one shape and are
fitted as one program. Without, it has the units that are left and no others.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

LENET_5, LENET_300 = "LeNet-5-Caffe", "LeNet-300-100"
NUM_CLASSES, SIDE, KERNEL = 10, 28, 5
# Positions of a channel where the dense layers of LeNet-5 read it: 4 by 4.
POSITIONS = 16
Rows = dict[str, np.ndarray]
"""Which rows of each weight are on, by site."""


class Counts(NamedTuple):
    """The units left, layer by layer, as the literature writes them, and what they cost."""

    units: tuple[int, ...]
    weights: int
    """Numbers in the weight matrices, without biases, as the literature counts them."""
    multiply_adds: int
    """Multiplications of one image's pass."""

    @property
    def shape(self) -> str:
        """Such as 5-10-76-16."""
        return "-".join(map(str, self.units))


def lenet5_weights(first: int, second: int, features: int, hidden: int) -> int:
    """The weights of a LeNet-5 with so many units, without biases."""
    return KERNEL**2 * (first + first * second) + (features + NUM_CLASSES) * hidden


def dense_weights(*units: int) -> int:
    """The weights of dense layers between so many units and the classes, without biases."""
    return sum(a * b for a, b in itertools.pairwise((*units, NUM_CLASSES)))


class PatchConv(eqx.nn.Conv2d):
    """A convolution as one product of the kernel with all patches of the image.

    Kernels of many fits side by side make XLA's convolution a grouped one. This becomes a batched
    product.
    """

    def __init__(self, in_channels: int, out_channels: int, size: int, *, key: PRNGKeyArray):
        super().__init__(in_channels, out_channels, size, key=key)

    def __call__(self, x: Array, *, key: PRNGKeyArray | None = None) -> Array:
        assert self.bias is not None
        high, wide = self.kernel_size
        rows, columns = x.shape[1] - high + 1, x.shape[2] - wide + 1
        shifted = [
            [x[:, top : top + rows, left : left + columns] for left in range(wide)]
            for top in range(high)
        ]
        patches = jnp.stack([jnp.stack(row, axis=1) for row in shifted], axis=1)
        return jnp.tensordot(self.weight, patches, axes=3) + self.bias


class BandConv(eqx.nn.Conv2d):
    """A convolution as one product a row, with a matrix that holds the kernel in bands.

    The matrix takes the rows of the image that a kernel covers to one row of the result. Most of it
    is zero, and yet it is quicker than `PatchConv`: no patch is copied out for each place. Noise on
    the rows of its weight cannot be followed through it.
    """

    def __call__(self, x: Array, *, key: PRNGKeyArray | None = None) -> Array:
        assert self.bias is not None
        high, wide = self.kernel_size
        rows, columns = x.shape[1] - high + 1, x.shape[2] - wide + 1
        bands = np.stack([np.eye(x.shape[2], columns, -left) for left in range(wide)])
        matrix = jnp.einsum("oihw,wab->ihaob", self.weight, jnp.asarray(bands, x.dtype))
        covered = jnp.stack([x[:, top : top + rows] for top in range(high)], axis=1)
        return jnp.einsum("ihra,ihaob->orb", covered, matrix) + self.bias


class LeNet5(eqx.Module):
    """Two convolutions of 5 by 5 with pooling, two dense layers: LeNet-5 in the widths of Caffe.

    Its units are the channels of the convolutions, the features that the dense layers read (of 16
    positions a channel) and the hidden units.
    """

    sites: ClassVar[tuple[str, ...]] = ("conv1", "conv2", "dense1", "dense2")
    num_rows: ClassVar[dict[str, int]] = {"conv2": 20, "dense1": 800, "dense2": 500}
    conv1: eqx.nn.Conv2d
    conv2: eqx.nn.Conv2d
    dense1: eqx.nn.Linear
    dense2: eqx.nn.Linear
    features: Array | None
    """Which features are read; all if `None`."""
    on: tuple[Array, Array, Array] | None
    """Masks of the first channels, the features and the hidden units; all on if `None`."""

    def __init__(self, widths: tuple[int, int, int] = (20, 50, 500), *, key: PRNGKeyArray):
        keys = jax.random.split(key, 4)
        first, second, hidden = widths
        self.conv1 = PatchConv(1, first, KERNEL, key=keys[0])
        self.conv2 = PatchConv(first, second, KERNEL, key=keys[1])
        self.dense1 = eqx.nn.Linear(POSITIONS * second, hidden, key=keys[2])
        self.dense2 = eqx.nn.Linear(hidden, NUM_CLASSES, key=keys[3])
        self.features, self.on = None, None

    def __call__(self, x: Array) -> Array:
        return self.dense2(self.readings(x)["dense2"])

    def readings(self, x: Array) -> dict[str, Array]:
        """What each dense layer reads where the network sees this image."""
        first, features, hidden = (None, None, None) if self.on is None else self.on
        h = jax.nn.relu(_pool(self.conv1(x[None])))
        h = h if first is None else jnp.where(first[:, None, None], h, 0.0)
        h = jax.nn.relu(_pool(self.conv2(h))).reshape(-1)
        h = _only(h if self.features is None else h[self.features], features)
        return {"dense1": h, "dense2": _only(jax.nn.relu(self.dense1(h)), hidden)}

    def rows_in_use(self) -> Rows:
        """The rows that the mask leaves, as `narrowed` takes them."""
        assert self.on is not None
        return {
            site: np.asarray(on)
            for site, on in zip(("conv2", "dense1", "dense2"), self.on, strict=True)
        }

    def with_rows(self, rows: Rows) -> "LeNet5":
        """The network with these masks in place of its own, as `rows_in_use` gives them."""
        on = tuple(jnp.asarray(rows[site]) for site in ("conv2", "dense1", "dense2"))
        return _replaced(self, on=on)

    @staticmethod
    def within(rows: Rows, inner: Rows) -> Rows:
        """The rows of the whole network that are on where those of a narrowed one are.

        It has been narrowed, with room to spare, to `rows`, and `inner` are of its own.
        """
        second = np.flatnonzero(rows["dense1"].reshape(-1, POSITIONS).any(axis=1))
        read = np.zeros((len(rows["dense1"]) // POSITIONS, POSITIONS), bool)
        read[second] = inner["dense1"].reshape(-1, POSITIONS)[: len(second)]
        return {
            "conv2": _among(rows["conv2"], inner["conv2"]),
            "dense1": read.reshape(-1),
            "dense2": _among(rows["dense2"], inner["dense2"]),
        }

    @staticmethod
    def count(rows: Rows) -> Counts:
        """The size of the network that has only the rows of weights that are on."""
        by_channel = rows["dense1"].reshape(-1, POSITIONS)
        first, second, features, hidden = units = tuple(
            int(on.sum())
            for on in (rows["conv2"], by_channel.any(axis=1), rows["dense1"], rows["dense2"])
        )
        # A kernel of five moves over 28 rows, and after pooling over 12.
        convolutions = KERNEL**2 * (24**2 * first + 8**2 * first * second)
        dense = features * hidden + NUM_CLASSES * hidden
        return Counts(units, lenet5_weights(*units), convolutions + dense)

    def narrowed(self, rows: Rows, room: Sequence[int] | None = None) -> "LeNet5":
        """The network with the rows of weights that are on.

        `room` is the number of channels, channels and hidden units to make room for.
        """
        by_channel = rows["dense1"].reshape(-1, POSITIONS)
        first, hidden = np.flatnonzero(rows["conv2"]), np.flatnonzero(rows["dense2"])
        second = np.flatnonzero(by_channel.any(axis=1))
        read = by_channel[second].reshape(-1)
        dense = np.asarray(self.dense1.weight)[hidden].reshape(len(hidden), -1, POSITIONS)
        dense = dense[:, second].reshape(len(hidden), -1)
        values = {
            "conv1": _of(self.conv1, first),
            "conv2": _of(self.conv2, second, first),
            "dense1": (dense, np.asarray(self.dense1.bias)[hidden]),
            "dense2": _of(self.dense2, ..., hidden),
        }
        if room is None:
            values["dense1"] = dense[:, read], values["dense1"][1]
            return _with(self, values, features=jnp.asarray(np.flatnonzero(read)), on=None)
        fits = np.ones(len(first), bool), read, np.ones(len(hidden), bool)
        widths = room[0], POSITIONS * room[1], room[2]
        values = {
            "conv1": _enlarged(values["conv1"], widths[0]),
            "conv2": _enlarged(values["conv2"], room[1], widths[0]),
            "dense1": _enlarged(values["dense1"], widths[2], widths[1]),
            "dense2": _enlarged(values["dense2"], NUM_CLASSES, widths[2]),
        }
        on = tuple(jnp.asarray(_padded(f, w)) for f, w in zip(fits, widths, strict=True))
        return _with(self, values, on=on)


class LeNet300(eqx.Module):
    """Dense layers from 784 pixels by 300 and 100 units to ten classes."""

    sites: ClassVar[tuple[str, ...]] = ("dense1", "dense2", "dense3")
    num_rows: ClassVar[dict[str, int]] = {"dense1": 784, "dense2": 300, "dense3": 100}
    dense1: eqx.nn.Linear
    dense2: eqx.nn.Linear
    dense3: eqx.nn.Linear
    pixels: Array | None
    """Which pixels are read; all if `None`."""
    on: tuple[Array, Array, Array] | None
    """Masks of the pixels and the units of both layers; all on if `None`."""

    def __init__(self, widths: tuple[int, int] = (300, 100), *, key: PRNGKeyArray):
        keys = jax.random.split(key, 3)
        self.dense1 = eqx.nn.Linear(SIDE * SIDE, widths[0], key=keys[0])
        self.dense2 = eqx.nn.Linear(widths[0], widths[1], key=keys[1])
        self.dense3 = eqx.nn.Linear(widths[1], NUM_CLASSES, key=keys[2])
        self.pixels, self.on = None, None

    def __call__(self, x: Array) -> Array:
        return self.dense3(self.readings(x)["dense3"])

    def readings(self, x: Array) -> dict[str, Array]:
        """What each dense layer reads where the network sees this image."""
        pixels, first, second = (None, None, None) if self.on is None else self.on
        h = x.reshape(-1)
        h = _only(h if self.pixels is None else h[self.pixels], pixels)
        units = _only(jax.nn.relu(self.dense1(h)), first)
        return {
            "dense1": h,
            "dense2": units,
            "dense3": _only(jax.nn.relu(self.dense2(units)), second),
        }

    def rows_in_use(self) -> Rows:
        """The rows that the mask leaves, as `narrowed` takes them."""
        assert self.on is not None
        return {
            site: np.asarray(on)
            for site, on in zip(("dense1", "dense2", "dense3"), self.on, strict=True)
        }

    def with_rows(self, rows: Rows) -> "LeNet300":
        """The network with these masks in place of its own, as `rows_in_use` gives them."""
        return _replaced(self, on=tuple(jnp.asarray(rows[site]) for site in self.sites))

    @staticmethod
    def within(rows: Rows, inner: Rows) -> Rows:
        """The rows of the whole network that are on where those of a narrowed one are.

        It has been narrowed, with room to spare, to `rows`, and `inner` are of its own.
        """
        units = {site: _among(rows[site], inner[site]) for site in ("dense2", "dense3")}
        return {"dense1": inner["dense1"], **units}

    @staticmethod
    def count(rows: Rows) -> Counts:
        """The size of the network that has only the rows of weights that are on."""
        units = tuple(int(rows[f"dense{i}"].sum()) for i in (1, 2, 3))
        weights = dense_weights(*units)
        return Counts(units, weights, weights)

    def narrowed(self, rows: Rows, room: Sequence[int] | None = None) -> "LeNet300":
        """The network with the rows of weights that are on.

        `room` is the number of units of both layers to make room for.
        """
        pixels, first, second = (np.flatnonzero(rows[f"dense{i}"]) for i in (1, 2, 3))
        if room is None:
            values = {
                "dense1": _of(self.dense1, first, pixels),
                "dense2": _of(self.dense2, second, first),
                "dense3": _of(self.dense3, ..., second),
            }
            return _with(self, values, pixels=jnp.asarray(pixels), on=None)
        values = {
            "dense1": _enlarged(_of(self.dense1, first), room[0]),
            "dense2": _enlarged(_of(self.dense2, second, first), room[1], room[0]),
            "dense3": _enlarged(_of(self.dense3, ..., second), NUM_CLASSES, room[1]),
        }
        used = [np.ones(len(first), bool), np.ones(len(second), bool)]
        on = rows["dense1"], *(_padded(f, w) for f, w in zip(used, room, strict=True))
        return _with(self, values, on=tuple(jnp.asarray(each) for each in on))


Network = LeNet5 | LeNet300
NETWORKS: dict[str, type[LeNet5] | type[LeNet300]] = {LENET_5: LeNet5, LENET_300: LeNet300}
Layer = tuple[np.ndarray, np.ndarray]
"""Weight and bias."""


def with_convolutions(network: Network, kind: type[eqx.nn.Conv2d]) -> Any:
    """The network with convolutions of this class in place of its own, which have its weights."""

    def is_conv(node: object) -> bool:
        return isinstance(node, eqx.nn.Conv2d)

    return jax.tree.map(
        lambda node: _replaced(node, kind) if is_conv(node) else node, network, is_leaf=is_conv
    )


def _pool(x: Array) -> Array:
    """The largest of each 2 by 2 positions."""
    channels, rows, columns = x.shape
    return x.reshape(channels, rows // 2, 2, columns // 2, 2).max(axis=(2, 4))


def _only(h: Array, on: Array | None) -> Array:
    return h if on is None else jnp.where(on, h, 0.0)


def _among(on: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Which are on if those that `on` names, and no others, are on where `inner` says so."""
    result = np.zeros_like(on)
    places = np.flatnonzero(on)
    result[places] = inner[: len(places)]
    return result


def _of(layer: Any, outputs: Any, inputs: Any = ...) -> Layer:
    """The weights that lead from these inputs to these outputs, and the biases."""
    return np.asarray(layer.weight)[outputs][:, inputs], np.asarray(layer.bias)[outputs]


def _enlarged(layer: Layer, *widths: int) -> Layer:
    weight, bias = layer
    return _padded(weight, *widths), _padded(bias, widths[0])


def _padded(values: np.ndarray, *widths: int) -> np.ndarray:
    """The values in the first places of an array that is so wide along its first axes."""
    shape = (*widths, *values.shape[len(widths) :])
    if any(new < old for new, old in zip(shape, values.shape, strict=True)):
        raise ValueError(f"There is room for {shape} and not for {values.shape}: give more.")
    return np.pad(values, [(0, n - m) for n, m in zip(shape, values.shape, strict=True)])


def _with(network: Any, values: dict[str, Layer], **fields: Any) -> Any:
    """The network with these layers, their static sizes corrected, and these fields."""
    changed = dict(fields)
    for name, (weight, bias) in values.items():
        layer = getattr(network, name)
        conv = isinstance(layer, eqx.nn.Conv2d)
        sizes = ("in_channels", "out_channels") if conv else ("in_features", "out_features")
        changed[name] = _replaced(
            layer, weight=jnp.asarray(weight), bias=jnp.asarray(bias),
            **dict(zip(sizes, weight.shape[1::-1], strict=True)),
        )  # fmt: skip
    return _replaced(network, **changed)


def _replaced(module: Any, kind: type | None = None, /, **fields: Any) -> Any:
    """The module, or one of this class, with these fields in place of its own.

    The constructor is not run.
    """
    new = object.__new__(kind or type(module))
    for field in dataclasses.fields(module):
        value = fields.get(field.name, getattr(module, field.name))
        object.__setattr__(new, field.name, value)
    return new
