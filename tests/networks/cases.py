"""Networks that use their weights in every way there is, for tests that must hold for all."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import scalemix as sx

KEY = jax.random.key(0)


class Convolutional(eqx.Module):
    conv: eqx.nn.Conv1d
    last: eqx.nn.Linear

    def __init__(self, groups=1):
        self.conv = eqx.nn.Conv1d(2, 2, 2, groups=groups, key=KEY)
        self.last = eqx.nn.Linear(2, 2, key=KEY)

    def __call__(self, x):
        return self.last(jnp.mean(jnp.tanh(self.conv(x.reshape(2, 3))), axis=1))


class Twice(eqx.Module):
    """The same layer one after the other."""

    layer: eqx.nn.Linear
    unused: eqx.nn.Linear

    def __init__(self):
        self.layer = eqx.nn.Linear(6, 6, key=KEY)
        self.unused = eqx.nn.Linear(2, 2, key=KEY)

    def __call__(self, x):
        return self.layer(jnp.tanh(self.layer(x)))[:2]


class Positions(eqx.Module):
    """One layer at every position, and no further layer: outputs covary."""

    layer: eqx.nn.Linear

    def __init__(self):
        self.layer = eqx.nn.Linear(2, 1, key=KEY)

    def __call__(self, x):
        return jax.vmap(self.layer)(x.reshape(3, 2))[:2, 0]


class Scanned(eqx.Module):
    """A recurrent network: its weights act at every step."""

    read: eqx.nn.Linear
    turn: eqx.nn.Linear
    checkpointed: bool = eqx.field(static=True, default=False)

    def __init__(self, checkpointed=False):
        self.read, self.turn = eqx.nn.Linear(2, 2, key=KEY), eqx.nn.Linear(2, 2, key=KEY)
        self.checkpointed = checkpointed

    def __call__(self, x):
        def step(state, x):
            return jnp.tanh(self.read(x) + self.turn(state)), None

        step = jax.checkpoint(step) if self.checkpointed else step
        return jax.lax.scan(step, jnp.zeros(2, x.dtype), x.reshape(3, 2))[0]


class Tied(eqx.Module):
    """A layer that is called, and whose weight is read besides."""

    layer: eqx.nn.Linear

    def __init__(self):
        self.layer = eqx.nn.Linear(6, 2, key=KEY)

    def __call__(self, x):
        return self.layer(jnp.tanh(self.layer(x) @ self.layer.weight))


class Bent(eqx.nn.Linear):
    """A dense layer that is not linear in its weight, whatever its base class."""

    def __call__(self, x, *, key=None):
        return jnp.tanh(super().__call__(x)) + jnp.sum(self.weight**2, axis=1)


class Attentive(eqx.Module):
    attention: eqx.nn.MultiheadAttention

    def __init__(self):
        self.attention = eqx.nn.MultiheadAttention(1, 2, key=KEY)

    def __call__(self, x):
        tokens = x.reshape(3, 2)
        return self.attention(tokens, tokens, tokens)[0]


class Jitted(eqx.Module):
    layers: tuple[eqx.nn.Linear, ...]

    def __init__(self):
        self.layers = eqx.nn.Linear(6, 3, key=KEY), eqx.nn.Linear(3, 2, key=KEY)

    @jax.jit
    def __call__(self, x):
        return self.layers[1](jnp.tanh(jax.checkpoint(lambda x: self.layers[0](x))(x)))


class Switched(eqx.Module):
    """A layer in one branch of a condition, where nothing can be followed."""

    layer: eqx.nn.Linear

    def __init__(self):
        self.layer = eqx.nn.Linear(6, 2, key=KEY)

    def __call__(self, x):
        return jax.lax.cond(x[0] > -100, lambda x: self.layer(x), lambda x: x[:2], x)


class Matrix(eqx.Module):
    """A layer that is given a matrix, which it multiplies from the left."""

    layer: eqx.nn.Linear

    def __init__(self):
        self.layer = eqx.nn.Linear(2, 2, use_bias=False, key=KEY)

    def __call__(self, x):
        return jnp.tanh(self.layer(x[:4].reshape(2, 2)))[0]


class Cast(eqx.Module):
    """Weights in other types on the way: rounded, complex, half as precise."""

    layer: eqx.nn.Linear
    to: str = eqx.field(static=True)

    def __call__(self, x):
        weight = (3 * self.layer.weight).astype(self.to)
        if self.to == "complex64":
            return jnp.abs(weight @ jax.lax.complex(x, jnp.sin(2 * x)))
        return weight.astype(x.dtype) @ x


class Before(eqx.Module):
    """A network that reads its input in another form."""

    change: Callable = eqx.field(static=True)
    body: eqx.Module

    def __call__(self, x):
        return self.body(self.change(x))


class Flat(eqx.Module):
    """A body, and a dense layer that reads what it puts out."""

    body: eqx.Module
    head: eqx.nn.Linear

    def __init__(self, body, size):
        self.body, self.head = body, eqx.nn.Linear(size, "scalar", key=KEY)

    def __call__(self, x):
        return self.head(jnp.tanh(jnp.ravel(self.body(x))))


class Along(eqx.Module):
    """A recurrent cell along a sequence: its last state."""

    cell: eqx.nn.GRUCell | eqx.nn.LSTMCell

    def __call__(self, x):
        first = jnp.zeros(self.cell.hidden_size, x.dtype)
        first = (first, first) if isinstance(self.cell, eqx.nn.LSTMCell) else first
        last, _ = jax.lax.scan(lambda state, x: (self.cell(x, state), None), first, x)
        return last[0] if isinstance(last, tuple) else last


class Words(eqx.Module):
    """An embedding of tokens, the first of which is looked up twice, and perhaps of places."""

    table: eqx.nn.Embedding
    places: eqx.nn.Embedding | None = None

    def __call__(self, x):
        words = jax.vmap(self.table)(x)
        words = words if self.places is None else words + self.places.weight
        return jnp.tanh(words).sum(axis=0) * (1 + self.table(x[0]))


class Stack(eqx.Module):
    """Residual layers stacked in one, which run in a loop."""

    layers: eqx.nn.Linear

    def __init__(self, size, num):
        self.layers = eqx.filter_vmap(lambda key: eqx.nn.Linear(size, size, key=key))(
            jax.random.split(KEY, num)
        )

    def __call__(self, x):
        arrays, rest = eqx.partition(self.layers, eqx.is_array)

        def step(x, arrays):
            return x + jnp.tanh(eqx.combine(arrays, rest)(x)), None

        return jax.lax.scan(step, x, arrays)[0]


class Autoencoder(eqx.Module):
    """Two layers, of which the second has the weight of the first."""

    layers: eqx.nn.Shared

    def __init__(self, size, width):
        pair = eqx.nn.Linear(size, width, key=KEY), eqx.nn.Linear(width, size, key=KEY)
        self.layers = eqx.nn.Shared(
            pair, lambda pair: pair[1].weight, lambda pair: jnp.transpose(pair[0].weight)
        )

    def __call__(self, x):
        first, last = self.layers()
        return last(jnp.tanh(first(x)))


def steps(x):
    return x.reshape(3, 2)


def tokens(x):
    return jnp.clip(2 * x + 2, 0, 4).astype(jnp.int32)


class Upwards(eqx.Module):
    conv: eqx.nn.ConvTranspose1d

    def __call__(self, x):
        return jnp.tanh(self.conv(x.reshape(2, 3))).sum(axis=1)


def tree():
    """A convolution and a dense layer as Flax has them: outputs last."""
    keys = jax.random.split(KEY, 4)
    params = {
        "Conv_0": {"kernel": jax.random.normal(keys[0], (2, 2, 3)), "bias": jnp.ones(3)},
        "Dense_0": {"kernel": jax.random.normal(keys[1], (3, 2)), "bias": jnp.ones(2)},
    }

    def apply(params, x):
        conv, dense = params["Conv_0"], params["Dense_0"]
        x = jax.lax.conv_general_dilated(
            x.reshape(1, 3, 2),
            conv["kernel"],
            (1,),
            "VALID",
            dimension_numbers=("NWC", "WIO", "NWC"),
        )[0]
        x = jnp.mean(jnp.tanh(x + conv["bias"][None]), axis=0)
        return x @ dense["kernel"] + dense["bias"]

    return sx.networks.from_function(apply, params)


class Chain(eqx.Module):
    """Parts of random kinds one after the other, each from six numbers to six."""

    parts: tuple[tuple[str, eqx.Module], ...]
    last: eqx.nn.Linear

    def __init__(self, rng):
        kinds = rng.choice(["dense", "conv", "twice", "positions", "scan"], rng.integers(1, 4))
        sizes = {"dense": (6, 6), "twice": (6, 6), "positions": (2, 2), "scan": (3, 3)}
        keys = iter(jax.random.split(jax.random.key(rng.integers(2**31)), 4))
        self.parts = tuple(
            (
                str(kind),
                eqx.nn.Conv1d(2, 2, 3, padding=1, groups=int(rng.integers(1, 3)), key=next(keys))
                if kind == "conv"
                else eqx.nn.Linear(*sizes[kind], use_bias=bool(rng.integers(2)), key=next(keys)),
            )
            for kind in kinds
        )
        self.last = eqx.nn.Linear(6, 2, key=next(keys))

    def __call__(self, x):
        for kind, layer in self.parts:
            x = getattr(self, f"_{kind}")(layer, x)
        return self.last(x)

    def _dense(self, layer, x):
        return jnp.tanh(layer(x))

    def _conv(self, layer, x):
        return jnp.tanh(layer(x.reshape(2, 3))).reshape(6)

    def _twice(self, layer, x):
        return x + layer(jnp.tanh(layer(x)))

    def _positions(self, layer, x):
        return jnp.tanh(jax.vmap(layer)(x.reshape(3, 2))).reshape(6)

    def _scan(self, layer, x):
        def step(state, x):
            state = jnp.tanh(layer(state) + x)
            return state, state

        return jax.lax.scan(step, x[:3], x.reshape(2, 3))[1].reshape(6)


# Each takes six numbers and gives two. The sites whose weights act once, by name.
NETWORKS = {
    "dense": (lambda: eqx.nn.MLP(6, 2, 3, 1, key=KEY), {"layers.0", "layers.1"}),
    "no bias": (lambda: eqx.nn.Linear(6, 2, use_bias=False, key=KEY), {"network"}),
    "convolution": (Convolutional, {"last"}),
    "grouped convolution": (lambda: Convolutional(groups=2), {"last"}),
    "kernel as large as the input": (
        lambda: eqx.nn.Sequential(
            [
                eqx.nn.Lambda(lambda x: x.reshape(2, 3)),
                eqx.nn.Conv1d(2, 2, 3, key=KEY),
                eqx.nn.Lambda(lambda x: x[:, 0]),
            ]
        ),
        {"layers.1"},
    ),
    "called twice": (Twice, set()),
    "at every position": (Positions, set()),
    "scanned": (Scanned, set()),
    "scanned, checkpointed": (lambda: Scanned(checkpointed=True), set()),
    "tied": (Tied, set()),
    "a subclass that is not linear": (lambda: Bent(6, 2, key=KEY), set()),
    "attention": (Attentive, set()),
    "jit and checkpoint": (Jitted, {"layers.0", "layers.1"}),
    "cond": (Switched, set()),
    "a matrix at once": (Matrix, set()),
    "GRU": (lambda: Before(steps, Along(eqx.nn.GRUCell(2, 2, key=KEY))), set()),
    "LSTM": (lambda: Before(steps, Along(eqx.nn.LSTMCell(2, 2, key=KEY))), set()),
    "embedding": (lambda: Before(tokens, Words(eqx.nn.Embedding(5, 2, key=KEY))), set()),
    "one lookup": (
        lambda: Before(lambda x: tokens(x)[0], eqx.nn.Embedding(5, 2, key=KEY)),
        {"body"},
    ),
    "stacked": (lambda: Before(lambda x: x[:2], Stack(2, 2)), set()),
    "MLP in a loop": (lambda: eqx.nn.MLP(6, 2, 2, 3, scan=True, key=KEY), {"layers.0", "layers.2"}),
    "transposed convolution": (
        lambda: Upwards(eqx.nn.ConvTranspose1d(2, 2, 2, groups=2, key=KEY)),
        set(),
    ),
    "a tree of parameters": (tree, {"params.Dense_0.kernel"}),
    "rounded": (lambda: Cast(eqx.nn.Linear(6, 2, key=KEY), "int32"), set()),
    "complex": (lambda: Cast(eqx.nn.Linear(6, 2, key=KEY), "complex64"), set()),
    "half precision": (lambda: Cast(eqx.nn.Linear(6, 2, key=KEY), "float16"), set()),
}


def assert_same_moments(first, second):
    """Two sets of samples, (num, entries), have the same first and second moments.

    Each moment, those of pairs of entries among them, differs by less than five standard errors.
    """
    first, second = (np.asarray(samples, np.float64) for samples in (first, second))
    for power in (_entries, _pairs):
        ours, theirs = power(first), power(second)
        variance = ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs)
        difference = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
        assert np.all(difference <= 5 * np.sqrt(variance) + 1e-6), difference / np.sqrt(variance)


def _entries(samples):
    return samples


def _pairs(samples):
    return (samples[:, :, None] * samples[:, None, :]).reshape(len(samples), -1)
