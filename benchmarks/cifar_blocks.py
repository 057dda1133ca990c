"""Which blocks and channels of a residual network are on, and networks without those that are not.

A network keeps all its blocks, with a mask of the channels in each, until cifar_cut.py cuts it.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from cifar_networks import Block, Images, ResNet

import scalemix as sx
from scalemix.posterior.relevance_rule import measure_layers

THRESHOLD = 0.01
JUDGED = 2000


def blocks_of(network: ResNet) -> list[Block]:
    """All blocks, from the first stage to the last."""
    return [block for stage in network.stages for block in stage]


def masks_of(network: ResNet) -> list[np.ndarray]:
    """Which channels between the convolutions of each block are on."""
    return [
        np.ones(block.first.out_channels, bool) if block.on is None else np.asarray(block.on)
        for block in blocks_of(network)
    ]


def masked(network: ResNet, on: Sequence[np.ndarray]) -> ResNet:
    """The network with only these channels between the convolutions of its blocks."""
    return eqx.tree_at(
        lambda net: [block.on for block in blocks_of(net)],
        network, [jnp.asarray(mask) for mask in on], is_leaf=lambda node: node is None,
    )  # fmt: skip


def without_blocks(network: ResNet) -> ResNet:
    """The network without the blocks of which no channel is on."""
    stages = [
        [block for block in stage if block.on is None or bool(np.any(block.on))]
        for stage in network.stages
    ]
    return eqx.tree_at(lambda net: net.stages, network, stages)


def with_blocks(whole: ResNet, small: ResNet) -> ResNet:
    """What `without_blocks` left, as it is now, among the blocks that it took out of the whole."""
    left = iter(blocks_of(small))
    stages = [
        [next(left) if block.on is None or bool(np.any(block.on)) else block for block in stage]
        for stage in whole.stages
    ]
    return eqx.tree_at(lambda net: net.stages, small, stages)


def channels_on(post: sx.Posterior) -> list[np.ndarray]:
    """The channels of each block that are on: those with scales of their own, or all or none."""
    layers = measure_layers(post.networks.members[0], THRESHOLD)
    by_layer = isinstance(next(iter(post.model.structures.values())), sx.ADD)
    return [
        np.full(len(each.lines["unit"].on), each.on) if by_layer else each.lines["unit"].on
        for each in layers.values()
    ]


def fewer_blocks(network: ResNet, images: Images, most: int) -> ResNet:
    """The network with no more blocks than that.

    One block goes after the other: the one without which the first training images are the most
    likely.
    """
    x, y = jnp.asarray(images.x[:JUDGED]), jnp.asarray(images.y[:JUDGED])
    on = masks_of(network)

    def without(gone: int) -> list[np.ndarray]:
        return [mask & (i != gone) for i, mask in enumerate(on)]

    while len(left := [i for i, mask in enumerate(on) if mask.any()]) > most:
        likely = [float(log_likelihood(masked(network, without(i)), x, y)) for i in left]
        on = without(left[int(np.argmax(likely))])
    return masked(network, on)


@eqx.filter_jit
def log_likelihood(network: ResNet, x: jax.Array, y: jax.Array) -> jax.Array:
    """The mean log-probability of these classes."""
    log_probs = jax.nn.log_softmax(jax.vmap(network)(x))
    return jnp.mean(jnp.take_along_axis(log_probs, y[:, None], axis=1))
