"""Residual networks for CIFAR-10, and the images.

A network has the layout of ResNet-20 or ResNet-56: three stages of 16, 32 and 64 channels, with
blocks of two convolutions. Three things differ, so that a prior can take blocks and channels out:

- A block has one norm of its channels, in front of its first convolution. Between its convolutions
  filters are standardised instead, so a channel there can go without a change to the others.
- The second convolution has no bias: where its weights are zero, the block adds nothing.
- Stages are joined by pooling and channels of zeros, outside of the blocks. So every block has a
  path around it, the first of a stage too.
"""

import io
import math
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

WIDTHS, GROUPS, SIDE, CLASSES = (16, 32, 64), 4, 32, 10
SHIFT = 4


class StandardConv(eqx.nn.Conv2d):
    """A convolution whose filters are standardised on the way (Qiao et al. 2019).

    So what comes out has a known scale, without a norm that would tie its channels together.
    """

    def __call__(self, x: Array, *, key: PRNGKeyArray | None = None) -> Array:
        weight = self.weight.astype(jnp.float32)
        axes, fan_in = (1, 2, 3), math.prod(weight.shape[1:])
        centred = weight - weight.mean(axes, keepdims=True)
        scale = jax.lax.rsqrt(fan_in / 2 * (centred**2).mean(axes, keepdims=True) + 1e-6)
        weight = (centred * scale).astype(x.dtype)
        (out,) = jax.lax.conv_general_dilated(x[None], weight, (1, 1), ((1, 1), (1, 1)))
        return out + self.bias


class Block(eqx.Module):
    """What a residual block adds: norm, convolution, convolution."""

    norm: eqx.nn.GroupNorm
    first: StandardConv
    second: eqx.nn.Conv2d
    on: Array | None
    """Which channels between the convolutions are in use; all if `None`.

    So networks of many sizes are trained by one program. In the end they are cut.
    """

    def __init__(self, width: int, share: float, *, key: PRNGKeyArray):
        one, two = jax.random.split(key)
        self.norm = eqx.nn.GroupNorm(GROUPS, width)
        self.first = conv(StandardConv, width, width, key=one)
        second = conv(eqx.nn.Conv2d, width, width, use_bias=False, key=two)
        # Blocks share the work, or the sum would grow with their number.
        self.second = eqx.tree_at(lambda layer: layer.weight, second, share * second.weight)
        self.on = None

    def __call__(self, x: Array) -> Array:
        h = jax.nn.relu(self.first(jax.nn.relu(self.norm(x))))
        h = h if self.on is None else jnp.where(self.on[:, None, None], h, jnp.zeros((), h.dtype))
        return self.second(h)


class ResNet(eqx.Module):
    """A residual network of three stages of `num_blocks` blocks each."""

    stem: eqx.nn.Conv2d
    stages: list[list[Block]]
    norm: eqx.nn.GroupNorm
    head: eqx.nn.Linear

    def __init__(self, num_blocks: int, widths: tuple[int, ...] = WIDTHS, *, key: PRNGKeyArray):
        keys = iter(jax.random.split(key, 2 + len(widths) * num_blocks))
        share = 1 / math.sqrt(len(widths) * num_blocks)
        self.stem = conv(eqx.nn.Conv2d, 3, widths[0], key=next(keys))
        self.stages = [
            [Block(width, share, key=next(keys)) for _ in range(num_blocks)] for width in widths
        ]
        self.norm = eqx.nn.GroupNorm(GROUPS, widths[-1])
        self.head = eqx.nn.Linear(widths[-1], CLASSES, key=next(keys))

    def __call__(self, x: Array) -> Array:
        x = self.stem(x)
        for stage in self.stages:
            for block in stage:
                x = x + block(x)
            if stage is not self.stages[-1]:
                x = halve(x)
        x = jax.nn.relu(self.norm(x))
        return self.head(x.mean(axis=(1, 2)))


def conv(
    kind: type[eqx.nn.Conv2d], inputs: int, outputs: int, *, use_bias: bool = True,
    key: PRNGKeyArray,
) -> Any:  # fmt: skip
    """A convolution of 3 by 3 with He's starting weights and no bias at the start."""
    layer = kind(inputs, outputs, 3, padding=1, use_bias=use_bias, key=key)
    weight = math.sqrt(2 / (9 * inputs)) * jax.random.normal(key, layer.weight.shape)
    layer = eqx.tree_at(lambda each: each.weight, layer, weight)
    return (
        eqx.tree_at(lambda each: each.bias, layer, 0 * layer.bias)
        if layer.bias is not None
        else layer
    )


def halve(x: Array) -> Array:
    """Half the rows and columns, each the mean of two, and twice the channels: the new are zero."""
    channels, rows, columns = x.shape
    x = x.reshape(channels, rows // 2, 2, columns // 2, 2).mean(axis=(2, 4))
    return jnp.concatenate([x, jnp.zeros_like(x)])


def on_moved_images(network: ResNet, x: Array, key: PRNGKeyArray | None = None) -> Array:
    """The network's output; with a key, as in training, of the image moved and perhaps mirrored."""
    return network(x if key is None else moved(x, key))


def moved(x: Array, key: PRNGKeyArray) -> Array:
    """The image shifted by up to four pixels each way, black at the edge, and mirrored or not."""
    where, side = jax.random.split(key)
    top, left = jax.random.randint(where, (2,), 0, 2 * SHIFT + 1)
    padded = jnp.pad(x, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT)))
    x = jax.lax.dynamic_slice(padded, (jnp.zeros_like(top), top, left), x.shape)
    return jnp.where(jax.random.bernoulli(side), x[:, :, ::-1], x)


class Images(NamedTuple):
    """Images as channels of numbers around zero, and what they show."""

    x: np.ndarray
    y: np.ndarray


def read_images(file: str | Path, which: str, most: int | None = None) -> Images:
    """The images of one part of the file, `train` or `test`."""
    from PIL import Image

    with np.load(file, allow_pickle=False) as content:
        data, ends = content[f"jpeg_{which}"], content[f"ends_{which}"][:most]
        y = content[f"y_{which}"][:most].astype(np.int32)
    starts = np.concatenate([[0], ends[:-1]])
    pixels = np.stack(
        [
            np.asarray(Image.open(io.BytesIO(data[start:end].tobytes())))
            for start, end in zip(starts, ends, strict=True)
        ]
    )
    # Means and deviations of the channels are near these, in all of the training images.
    mean, std = np.array([0.49, 0.48, 0.45], np.float32), np.float32(0.25)
    x = (pixels.astype(np.float32) / 255 - mean) / std
    return Images(np.ascontiguousarray(x.transpose(0, 3, 1, 2)), y)
