"""Networks of many kinds, each with zeros in it, and the shapes that should be left."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

KEY = jax.random.key(0)


class Case(NamedTuple):
    build: Callable[[], Any]
    zeros: tuple[tuple[Callable[[Any], Any], int, tuple[int, ...]], ...]
    """Of which arrays, along which axis, which places are zero."""
    shape: tuple[int, ...]
    left: tuple[tuple[Callable[[Any], Any], tuple[int, ...]], ...]
    """Arrays and the shapes that are left of them."""
    tokens: bool = False

    def network(self) -> Any:
        """The network with random arrays, so that no bias is zero and no norm one, and zeros."""
        rng = np.random.default_rng(0)
        # In NumPy, where every operation on a new shape would be a program to compile.
        network = jax.tree.map(
            lambda a: (
                (np.asarray(a) + 0.3 * rng.normal(size=a.shape)).astype(a.dtype)
                if eqx.is_inexact_array(a)
                else a
            ),
            self.build(),
        )
        for where, axis, places in self.zeros:
            where(network)[(slice(None),) * axis + (np.asarray(places),)] = 0.0
        return jax.tree.map(
            lambda a: jax.device_put(a) if isinstance(a, np.ndarray) else a, network
        )

    def rows(self) -> Any:
        values = np.random.default_rng(1).normal(size=(4, *self.shape))
        return jnp.asarray(np.abs(values) * 2, jnp.int32 if self.tokens else jnp.float32)


class Images(eqx.Module):
    """Convolutions, pooling, flatten, dense layers."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    pool: eqx.nn.MaxPool2d
    dense: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self):
        self.first = eqx.nn.Conv2d(1, 4, 3, key=KEY)
        self.second = eqx.nn.Conv2d(4, 5, 3, padding=1, key=KEY)
        self.pool = eqx.nn.MaxPool2d(2, 2)
        self.dense = eqx.nn.Linear(20, 6, key=KEY)
        self.last = eqx.nn.Linear(6, 2, key=KEY)

    def __call__(self, x):
        x = jax.nn.relu(self.second(jax.nn.relu(self.first(x))))
        c, h, w = x.shape
        # Pooling by hand, and by a layer.
        x = self.pool(x) + x.reshape(c, h // 2, 2, w // 2, 2).max((2, 4))
        return self.last(jax.nn.relu(self.dense(x.reshape(-1))))


class Residual(eqx.Module):
    """A residual stream of images with norms by group, and a norm of running statistics."""

    enter: eqx.nn.Conv1d
    norms: tuple
    convs: tuple
    last: eqx.nn.Linear

    def __init__(self):
        self.enter = eqx.nn.Conv1d(1, 8, 3, key=KEY)
        self.norms = (eqx.nn.GroupNorm(4, 8), eqx.nn.GroupNorm(3, 6))
        self.convs = tuple(
            eqx.nn.Conv1d(*sizes, 3, padding=1, key=KEY) for sizes in ((8, 6), (6, 8))
        )
        self.last = eqx.nn.Linear(8, 2, key=KEY)

    def __call__(self, x):
        h = self.enter(x)
        inner = jax.nn.relu(self.norms[1](self.convs[0](jax.nn.relu(self.norms[0](h)))))
        return self.last((h + self.convs[1](inner)).mean(1))


class Normed(eqx.Module):
    conv: eqx.nn.Conv1d
    norm: eqx.nn.BatchNorm
    state: eqx.nn.State
    last: eqx.nn.Linear

    def __call__(self, x):
        h, _ = self.norm(self.conv(x), self.state)
        return self.last(jax.nn.relu(h).mean(1))


def normed():
    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(6, "batch", mode="batch")
    conv, last = eqx.nn.Conv1d(1, 6, 3, key=KEY), eqx.nn.Linear(6, 2, key=KEY)
    return eqx.nn.inference_mode(Normed(conv, norm, state, last))


class Grouped(eqx.Module):
    """Depthwise, grouped and transposed convolutions."""

    wide: eqx.nn.Conv1d
    deep: eqx.nn.Conv1d
    grouped: eqx.nn.Conv1d
    back: eqx.nn.ConvTranspose1d
    last: eqx.nn.Linear

    def __init__(self):
        self.wide = eqx.nn.Conv1d(1, 6, 1, key=KEY)
        self.deep = eqx.nn.Conv1d(6, 6, 2, groups=6, key=KEY)
        self.grouped = eqx.nn.Conv1d(6, 9, 2, groups=3, key=KEY)
        self.back = eqx.nn.ConvTranspose1d(9, 4, 2, key=KEY)
        self.last = eqx.nn.Linear(4, 2, key=KEY)

    def __call__(self, x):
        h = self.grouped(jnp.tanh(self.deep(jnp.tanh(self.wide(x)))))
        return self.last(self.back(jnp.tanh(h)).mean(1))


class Steps(eqx.Module):
    """A recurrent cell along a sequence, whose size stands in a field of one's own."""

    cell: Any
    last: eqx.nn.Linear
    hidden: int = eqx.field(static=True)

    def __call__(self, x):
        first = jnp.zeros(self.hidden)
        first = (first, first) if isinstance(self.cell, eqx.nn.LSTMCell) else first
        state, _ = jax.lax.scan(lambda state, x: (self.cell(x, state), None), first, x)
        return self.last(state[0] if isinstance(state, tuple) else state)


class Block(eqx.Module):
    norms: tuple
    mixer: eqx.nn.MultiheadAttention
    wide: eqx.nn.Linear
    narrow: eqx.nn.Linear

    def __init__(self):
        self.norms = eqx.nn.LayerNorm(6), eqx.nn.RMSNorm(6)
        self.mixer = eqx.nn.MultiheadAttention(
            3, 6, use_output_bias=True, use_value_bias=True, key=KEY
        )
        self.wide, self.narrow = eqx.nn.Linear(6, 7, key=KEY), eqx.nn.Linear(7, 6, key=KEY)

    def __call__(self, x):
        h = jax.vmap(self.norms[0])(x)
        x = x + self.mixer(h, h, h)
        return x + jax.vmap(lambda t: self.narrow(jax.nn.gelu(self.wide(self.norms[1](t)))))(x)


class Words(eqx.Module):
    table: eqx.nn.Embedding
    block: Block
    last: eqx.nn.Linear

    def __init__(self):
        self.table = eqx.nn.Embedding(5, 6, key=KEY)
        self.block, self.last = Block(), eqx.nn.Linear(6, 2, key=KEY)

    def __call__(self, x):
        return self.last(self.block(jax.vmap(self.table)(x)).mean(0))


class Bag(eqx.Module):
    table: eqx.nn.Embedding
    places: jax.Array
    last: eqx.nn.Linear

    def __init__(self):
        self.table, self.places = eqx.nn.Embedding(5, 6, key=KEY), jnp.ones((4, 6))
        self.last = eqx.nn.Linear(6, 2, key=KEY)

    def __call__(self, x):
        return self.last(jnp.tanh(jax.vmap(self.table)(x) + self.places).mean(0))


class Attention(eqx.Module):
    """An attention of one's own: one projection, split by hand, heads in a field of one's own."""

    project: eqx.nn.Linear
    last: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def __init__(self):
        self.project, self.last = eqx.nn.Linear(3, 24, key=KEY), eqx.nn.Linear(8, 2, key=KEY)
        self.heads = 4

    def __call__(self, x):
        q, k, v = (
            a.reshape(len(x), self.heads, 2)
            for a in jnp.split(jax.vmap(self.project)(x), 3, axis=-1)
        )
        weights = jax.nn.softmax(jnp.einsum("shd,Shd->hsS", q, k))
        return jax.vmap(self.last)(jnp.einsum("hsS,Shd->shd", weights, v).reshape(len(x), -1)).mean(
            0
        )


class Divided(eqx.Module):
    """An attention of one's own that divides by the root of a size, in one place or another."""

    query: eqx.nn.Linear
    key: eqx.nn.Linear
    value: eqx.nn.Linear
    last: eqx.nn.Linear
    heads: int = eqx.field(static=True)
    early: bool = eqx.field(static=True)

    def __init__(self, early):
        keys = jax.random.split(KEY, 3)
        self.query, self.key, self.value = (eqx.nn.Linear(3, 6, key=key) for key in keys)
        self.last, self.heads, self.early = eqx.nn.Linear(6, 2, key=KEY), 2, early

    def __call__(self, x):
        q, k, v = (
            jax.vmap(layer)(x).reshape(len(x), self.heads, -1)
            for layer in (self.query, self.key, self.value)
        )
        if self.early:
            q = q / jnp.sqrt(q.shape[-1])
        logits = jnp.einsum("shd,Shd->hsS", q, k)
        if not self.early:
            logits = logits * q.shape[-1] ** -0.5
        mixed = jnp.einsum("hsS,Shd->shd", jax.nn.softmax(logits), v).reshape(len(x), -1)
        return jax.vmap(self.last)(mixed).mean(0)


class Mixers(eqx.Module):
    """Attention stacked in one."""

    layers: eqx.nn.MultiheadAttention

    def __init__(self):
        keys = jax.random.split(KEY, 3)
        self.layers = eqx.filter_vmap(lambda k: eqx.nn.MultiheadAttention(2, 6, key=k))(keys)

    def __call__(self, x):
        arrays, rest = eqx.partition(self.layers, eqx.is_array)

        def step(h, arrays):
            return h + eqx.combine(arrays, rest)(h, h, h), None

        return jax.lax.scan(step, x, arrays)[0].mean(0)


class Normal(eqx.Module):
    """A stream with norms of its whole width, in a loop or not."""

    enter: eqx.nn.Linear
    norms: Any
    hidden: Any
    last: eqx.nn.Linear
    stacked: bool = eqx.field(static=True)

    def __init__(self, kind, stacked=False):
        keys = jax.random.split(KEY, 2)
        layers = [(kind(6), eqx.nn.Linear(6, 6, key=key)) for key in keys]
        if stacked:
            layers = jax.tree.map(lambda *a: jnp.stack(a) if eqx.is_array(a[0]) else a[0], *layers)
            self.norms, self.hidden = layers
        else:
            self.norms, self.hidden = zip(*layers, strict=True)
        self.enter, self.last = eqx.nn.Linear(3, 6, key=KEY), eqx.nn.Linear(6, 2, key=KEY)
        self.stacked = stacked

    def __call__(self, x):
        h = jax.vmap(self.enter)(x)
        if not self.stacked:
            for norm, layer in zip(self.norms, self.hidden, strict=True):
                h = h + jnp.tanh(jax.vmap(layer)(jax.vmap(norm)(h)))
            return self.last(h.mean(0))
        arrays, rest = eqx.partition((self.norms, self.hidden), eqx.is_array)

        def step(h, arrays):
            norm, layer = eqx.combine(arrays, rest)
            return h + jnp.tanh(jax.vmap(layer)(jax.vmap(norm)(h))), None

        return self.last(jax.lax.scan(step, h, arrays)[0].mean(0))


class Stack(eqx.Module):
    """Layers stacked in one."""

    enter: eqx.nn.Linear
    layers: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self):
        keys = jax.random.split(KEY, 3)
        self.enter = eqx.nn.Linear(3, 5, key=KEY)
        self.layers = eqx.filter_vmap(lambda k: eqx.nn.Linear(5, 5, use_bias=False, key=k))(keys)
        self.last = eqx.nn.Linear(5, 2, key=KEY)

    def __call__(self, x):
        arrays, rest = eqx.partition(self.layers, eqx.is_array)

        def step(h, arrays):
            return h + jnp.tanh(eqx.combine(arrays, rest)(h)), None

        return self.last(jnp.tanh(jax.lax.scan(step, self.enter(x), arrays)[0]))


class Skips(eqx.Module):
    """Concatenation, a choice, weights with a scale, wrapped calls."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear
    scale: jax.Array
    last: eqx.nn.Linear

    def __init__(self):
        self.first, self.second = eqx.nn.Linear(3, 5, key=KEY), eqx.nn.Linear(8, 6, key=KEY)
        self.scale, self.last = jnp.ones(6), eqx.nn.Linear(14, 2, key=KEY)

    def __call__(self, x):
        h = jax.lax.cond(x[0] > 0, jnp.tanh, jax.nn.silu, self.first(x))
        g = jax.jit(jax.checkpoint(lambda h: self.second(h)))(jnp.concatenate([x, h]))
        return self.last(jnp.concatenate([h, self.scale * jax.nn.relu(g), x]))


CASES = {
    "images": Case(
        Images,
        (
            (lambda n: n.second.weight, 1, (1,)),
            (lambda n: n.dense.weight, 1, (0, 1, 2, 3, 12, 13, 14, 15)),
            (lambda n: n.last.weight, 1, (2, 3)),
        ),
        (1, 6, 6),
        (
            (lambda n: n.first.weight, (3, 1, 3, 3)),
            (lambda n: n.second.weight, (3, 3, 3, 3)),
            (lambda n: n.dense.weight, (4, 12)),
        ),
    ),
    "norms by group": Case(
        Residual,
        (
            # A group of the stream that nothing reads; a group inside; a single one of a group.
            (lambda n: n.convs[0].weight, 1, (2, 3, 5)),
            (lambda n: n.last.weight, 1, (2, 3, 5)),
            (lambda n: n.convs[1].weight, 1, (0, 1, 4)),
        ),
        (1, 6),
        ((lambda n: n.enter.weight, (6, 1, 3)), (lambda n: n.convs[0].weight, (4, 6, 3))),
    ),
    "running statistics": Case(
        normed, ((lambda n: n.last.weight, 1, (0, 2)),), (1, 6),
        ((lambda n: n.conv.weight, (4, 1, 3)), (lambda n: n.norm.weight, (4,))),
    ),
    "grouped": Case(
        Grouped,
        (
            # A group; and one place in each of the others.
            (lambda n: n.back.weight, 1, (0, 1, 2, 4, 7)),
            (lambda n: n.last.weight, 1, (3,)),
        ),
        (1, 6),
        (
            (lambda n: n.wide.weight, (4, 1, 1)), (lambda n: n.deep.weight, (4, 1, 2)),
            (lambda n: n.grouped.weight, (4, 2, 2)), (lambda n: n.back.weight, (3, 4, 2)),
        ),
    ),
    "GRU": Case(
        lambda: Steps(eqx.nn.GRUCell(2, 5, key=KEY), eqx.nn.Linear(5, 2, key=KEY), 5),
        ((lambda n: n.cell.weight_hh, 1, (1, 4)), (lambda n: n.last.weight, 1, (1, 4))),
        (3, 2),
        ((lambda n: n.cell.weight_hh, (9, 3)), (lambda n: n.cell.weight_ih, (9, 2))),
    ),
    "LSTM": Case(
        lambda: Steps(eqx.nn.LSTMCell(2, 5, key=KEY), eqx.nn.Linear(5, 2, key=KEY), 5),
        ((lambda n: n.cell.weight_hh, 1, (1, 4)), (lambda n: n.last.weight, 1, (1, 4))),
        (3, 2),
        ((lambda n: n.cell.weight_hh, (12, 3)), (lambda n: n.cell.weight_ih, (12, 2))),
    ),
    "transformer": Case(
        Words,
        (
            (lambda n: n.block.mixer.output_proj.weight, 1, (2, 3)),
            (lambda n: n.block.narrow.weight, 1, (0, 6)),
        ),
        (3,),
        (
            (lambda n: n.block.mixer.query_proj.weight, (4, 6)),
            (lambda n: n.block.wide.weight, (5, 6)),
        ),
        tokens=True,
    ),
    "widths of heads": Case(
        Words, ((lambda n: n.block.mixer.output_proj.weight, 1, (0, 2, 4)),), (3,),
        ((lambda n: n.block.mixer.value_proj.weight, (3, 6)),
         (lambda n: n.block.mixer.query_proj.weight, (6, 6))),
        tokens=True,
    ),
    "widths of queries": Case(
        Words, ((lambda n: n.block.mixer.query_proj.weight, 0, (0, 2, 4)),), (3,),
        ((lambda n: n.block.mixer.query_proj.weight, (3, 6)),
         (lambda n: n.block.mixer.key_proj.weight, (3, 6)),
         (lambda n: n.block.mixer.value_proj.weight, (6, 6))),
        tokens=True,
    ),
    "widths of keys, divided by hand": Case(
        lambda: Divided(early=True),
        ((lambda n: n.key.weight, 0, (1, 4)), (lambda n: n.key.bias, 0, (1, 4))), (3, 3),
        ((lambda n: n.query.weight, (4, 3)), (lambda n: n.key.weight, (4, 3)),
         (lambda n: n.value.weight, (6, 3))),
    ),
    "widths of queries, logits divided": Case(
        lambda: Divided(early=False),
        ((lambda n: n.query.weight, 0, (1, 2, 4, 5)), (lambda n: n.query.bias, 0, (1, 2, 4, 5))),
        (3, 3),
        ((lambda n: n.query.weight, (2, 3)), (lambda n: n.key.bias, (2,))),
    ),
    "widths of queries in a stack": Case(
        Mixers, ((lambda n: n.layers.query_proj.weight, 1, (0, 3)),), (3, 6),
        ((lambda n: n.layers.query_proj.weight, (3, 4, 6)),
         (lambda n: n.layers.key_proj.weight, (3, 4, 6))),
    ),
    "other places of each head": Case(
        Words,
        (
            (lambda n: n.block.mixer.query_proj.weight, 0, (0, 3)),
            (lambda n: n.block.mixer.key_proj.weight, 0, (3, 4)),
            # One head is all off; no place is off in both others.
            (lambda n: n.block.mixer.output_proj.weight, 1, (0, 2, 3, 5)),
        ),
        (3,),
        ((lambda n: n.block.mixer.query_proj.weight, (2, 6)),
         (lambda n: n.block.mixer.value_proj.weight, (2, 6)),
         (lambda n: n.block.mixer.value_proj.bias, (2,)),
         (lambda n: n.block.mixer.output_proj.weight, (6, 2))),
        tokens=True,
    ),
    "other places of each head and layer of a stack": Case(
        Mixers,
        (
            (lambda n: n.layers.key_proj.weight[0], 0, (0, 1, 3)),
            (lambda n: n.layers.key_proj.weight[1], 0, (2, 4, 5)),
            (lambda n: n.layers.query_proj.weight[2], 0, (1, 4)),
            (lambda n: n.layers.output_proj.weight[0], 1, (1, 3)),
            (lambda n: n.layers.output_proj.weight[1], 1, (2, 3)),
            (lambda n: n.layers.value_proj.weight[2], 0, (0, 4)),
        ),
        (3, 6),
        ((lambda n: n.layers.query_proj.weight, (3, 4, 6)),
         (lambda n: n.layers.output_proj.weight, (3, 6, 4))),
    ),
    "width of a LayerNorm": Case(
        lambda: Normal(eqx.nn.LayerNorm),
        (
            # What is added there are biases, whatever the example.
            (lambda n: n.enter.weight, 0, (1, 4)),
            (lambda n: n.hidden[0].weight, 0, (1, 4)), (lambda n: n.hidden[0].weight, 1, (1, 4)),
            (lambda n: n.hidden[1].weight, 0, (1, 4)), (lambda n: n.hidden[1].weight, 1, (1, 4)),
        ),
        (4, 3),
        ((lambda n: n.enter.weight, (4, 3)), (lambda n: n.norms[1].weight, (4,)),
         (lambda n: n.hidden[0].weight, (4, 4)), (lambda n: n.last.weight, (2, 4))),
    ),
    "width of an RMSNorm": Case(
        lambda: Normal(eqx.nn.RMSNorm),
        (
            (lambda n: n.enter.weight, 0, (1, 4)), (lambda n: n.enter.bias, 0, (1, 4)),
            (lambda n: n.hidden[0].weight, 0, (1, 4)), (lambda n: n.hidden[0].weight, 1, (1, 4)),
            (lambda n: n.hidden[1].weight, 0, (1, 4)), (lambda n: n.hidden[1].weight, 1, (1, 4)),
        ),
        (4, 3),
        ((lambda n: n.enter.weight, (4, 3)), (lambda n: n.norms[1].weight, (4,)),
         (lambda n: n.hidden[0].weight, (4, 4)), (lambda n: n.last.weight, (2, 4))),
    ),
    "width of norms in a stack": Case(
        lambda: Normal(eqx.nn.LayerNorm, stacked=True),
        (
            (lambda n: n.enter.weight, 0, (1, 4)), (lambda n: n.enter.bias, 0, (1, 4)),
            (lambda n: n.hidden.weight, 1, (1, 4)), (lambda n: n.hidden.bias, 1, (1, 4)),
            (lambda n: n.hidden.weight, 2, (1, 4)),
        ),
        (4, 3),
        ((lambda n: n.enter.weight, (4, 3)), (lambda n: n.norms.weight, (2, 4)),
         (lambda n: n.hidden.weight, (2, 4, 4)), (lambda n: n.last.weight, (2, 4))),
    ),
    "embedding": Case(
        Bag, ((lambda n: n.last.weight, 1, (0, 5)),), (4,),
        ((lambda n: n.table.weight, (5, 4)), (lambda n: n.places, (4, 4))), tokens=True,
    ),
    "attention of one's own": Case(
        Attention, ((lambda n: n.last.weight, 1, (2, 3)),), (3, 3),
        ((lambda n: n.project.weight, (18, 3)), (lambda n: n.last.weight, (2, 6))),
    ),
    "stack": Case(
        Stack,
        ((lambda n: n.layers.weight, 2, (2,)), (lambda n: n.last.weight, 1, (2,))),
        (3,),
        ((lambda n: n.layers.weight, (3, 4, 4)), (lambda n: n.enter.weight, (4, 3))),
    ),
    "layers of a stack": Case(
        Stack, ((lambda n: n.layers.weight, 0, (1,)),), (3,),
        ((lambda n: n.layers.weight, (2, 5, 5)),),
    ),
    "MLP in a loop": Case(
        lambda: eqx.nn.MLP(3, 2, 5, 3, scan=True, key=KEY),
        ((lambda n: n.layers[1].weight, 2, (2,)), (lambda n: n.layers[2].weight, 1, (2,))),
        (3,),
        ((lambda n: n.layers[0].weight, (4, 3)), (lambda n: n.layers[1].weight, (2, 4, 4))),
    ),
    "slopes by unit": Case(
        lambda: eqx.nn.MLP(3, 2, 5, 2, eqx.nn.PReLU(0.2), key=KEY),
        ((lambda n: n.layers[1].weight, 1, (0, 2)), (lambda n: n.layers[2].weight, 1, (0, 2, 3))),
        (3,),
        ((lambda n: n.layers[1].weight, (3, 3)),),
    ),
    "skips": Case(
        Skips,
        (
            (lambda n: n.second.weight, 1, (4,)),
            (lambda n: n.last.weight, 1, (1, 7)),
            (lambda n: n.scale, 0, (3,)),
        ),
        (3,),
        ((lambda n: n.first.weight, (4, 3)), (lambda n: n.second.weight, (4, 7))),
    ),
}  # fmt: skip
