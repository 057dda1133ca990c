"""Kinds of layers and networks, and what can be done with a posterior over each.

`python -m tests.network_kinds` runs every cell and writes the table of docs/networks.md.
"""

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import scalemix as sx
from scalemix.data.checks import inputs_as_seen

KEY = jax.random.key(0)
PAGE = Path(__file__).parents[1] / "docs" / "networks.md"
START, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
GAUSSIAN = sx.likelihoods.Gaussian()
NUM = 24


class Kind(NamedTuple):
    """A network, the shape of its input, and a prior."""

    build: Callable[[], Any]
    shape: tuple[int, ...]
    prior: Any
    tokens: bool = False

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(NUM, *self.shape)).astype(np.float32)
        y = x.reshape(NUM, -1).mean(axis=1) + 0.1 * rng.normal(size=NUM)
        return (np.clip(2 * x + 2, 0, 4).astype(np.int32) if self.tokens else x), y

    def model(self) -> sx.Model:
        example = jnp.asarray(self.data()[0][0])
        return sx.Model(self.build(), self.prior, GAUSSIAN, example=example)


class Flat(eqx.Module):
    """A body, and a dense layer that reads what it puts out."""

    body: Any
    head: eqx.nn.Linear

    def __init__(self, body: Any, size: int):
        self.body, self.head = body, eqx.nn.Linear(size, "scalar", key=KEY)

    def __call__(self, x):
        return self.head(jnp.tanh(jnp.ravel(self.body(x))))


class Along(eqx.Module):
    """A recurrent cell along a sequence: its last state."""

    cell: Any

    def __call__(self, x):
        first = jnp.zeros(self.cell.hidden_size)
        first = (first, first) if isinstance(self.cell, eqx.nn.LSTMCell) else first
        last, _ = jax.lax.scan(lambda state, x: (self.cell(x, state), None), first, x)
        return last[0] if isinstance(last, tuple) else last


class Words(eqx.Module):
    table: eqx.nn.Embedding
    places: eqx.nn.Embedding

    def __init__(self):
        self.table = eqx.nn.Embedding(5, 3, key=KEY)
        self.places = eqx.nn.Embedding(4, 3, key=KEY)

    def __call__(self, x):
        return jnp.tanh(jax.vmap(self.table)(x) + self.places.weight).mean(axis=0)


class Block(eqx.Module):
    """A block of a transformer, each of its two branches with a path around it."""

    mixer: eqx.nn.MultiheadAttention
    norms: tuple[eqx.nn.LayerNorm, eqx.nn.LayerNorm]
    wide: eqx.nn.Linear
    narrow: eqx.nn.Linear

    def __init__(self):
        self.mixer = eqx.nn.MultiheadAttention(2, 4, key=KEY)
        self.norms = eqx.nn.LayerNorm(4), eqx.nn.LayerNorm(4)
        self.wide = eqx.nn.Linear(4, 6, key=KEY)
        self.narrow = eqx.nn.Linear(6, 4, key=KEY)

    def __call__(self, x):
        h = jax.vmap(self.norms[0])(x)
        x = x + self.mixer(h, h, h)
        return x + jax.vmap(lambda t: self.narrow(jax.nn.relu(self.wide(self.norms[1](t)))))(x)


class Stack(eqx.Module):
    """Residual layers stacked in one, which run in a loop."""

    enter: eqx.nn.Linear
    layers: eqx.nn.Linear

    def __init__(self):
        keys = jax.random.split(KEY, 3)
        self.enter = eqx.nn.Linear(4, 4, key=KEY)
        self.layers = eqx.filter_vmap(lambda key: eqx.nn.Linear(4, 4, key=key))(keys)

    def __call__(self, x):
        arrays, rest = eqx.partition(self.layers, eqx.is_array)

        def step(x, arrays):
            return x + jnp.tanh(eqx.combine(arrays, rest)(x)), None

        return jax.lax.scan(step, self.enter(x), arrays)[0]


class Tied(eqx.Module):
    layers: eqx.nn.Shared

    def __init__(self):
        pair = eqx.nn.Linear(4, 3, key=KEY), eqx.nn.Linear(3, 4, key=KEY)
        self.layers = eqx.nn.Shared(pair, lambda p: p[1].weight, lambda p: p[0].weight.T)

    def __call__(self, x):
        first, last = self.layers()
        return last(jnp.tanh(first(x)))


def function() -> sx.networks.FunctionNetwork:
    """Two dense layers as a function of their parameters."""
    keys = jax.random.split(KEY, 2)
    params = {
        "Dense_0": {"kernel": jax.random.normal(keys[0], (4, 4)), "bias": jnp.zeros(4)},
        "Dense_1": {"kernel": jax.random.normal(keys[1], (4, 1)), "bias": jnp.zeros(1)},
    }

    def apply(params, x):
        first, last = params["Dense_0"], params["Dense_1"]
        return jnp.tanh(x @ first["kernel"] + first["bias"]) @ last["kernel"] + last["bias"]

    return sx.networks.from_function(apply, params)


ARD = sx.ARD(sx.InverseGamma(3.0, 3.0))
KINDS = {
    "dense (`MLP`, `ResNet`)": Kind(
        lambda: sx.networks.ResNet(4, "scalar", 4, 2, key=KEY), (4,), ARD
    ),
    "`Conv`, pooling": Kind(
        lambda: Flat(
            eqx.nn.Sequential([eqx.nn.Conv2d(1, 2, 3, key=KEY), eqx.nn.MaxPool2d(2, 2)]), 8
        ),
        (1, 6, 6), ARD,
    ),
    "`Conv`, grouped": Kind(
        lambda: Flat(eqx.nn.Conv1d(4, 4, 2, groups=2, key=KEY), 12), (4, 4), ARD
    ),
    "`ConvTranspose`": Kind(lambda: Flat(eqx.nn.ConvTranspose1d(2, 2, 2, key=KEY), 8), (2, 3), ARD),
    "`GRUCell`": Kind(lambda: Flat(Along(eqx.nn.GRUCell(2, 3, key=KEY)), 3), (4, 2), ARD),
    "`LSTMCell`": Kind(lambda: Flat(Along(eqx.nn.LSTMCell(2, 3, key=KEY)), 3), (4, 2), ARD),
    "`Embedding`, learned positions": Kind(lambda: Flat(Words(), 3), (4,), ARD, tokens=True),
    "`Embedding`, by token": Kind(
        lambda: Flat(Words(), 3), (4,),
        {"*.table": sx.ARD(sx.InverseGamma(3.0, 3.0), by="token"), "head": ARD}, tokens=True,
    ),
    "transformer block": Kind(lambda: Flat(Block(), 12), (3, 4), ARD),
    "transformer block, by head and ADD": Kind(
        lambda: Flat(Block(), 12), (3, 4),
        {
            "*.output_proj": sx.ARD(sx.InverseGamma(3.0, 3.0), by="head"),
            "*.narrow": sx.ADD(sx.InverseGamma(3.0, 3.0)),
        },
    ),
    "stacked layers in a loop": Kind(lambda: Flat(Stack(), 4), (4,), ARD),
    "stacked layers, ADD": Kind(
        lambda: Flat(Stack(), 4), (4,),
        {"*.layers": sx.ADD(sx.InverseGamma(3.0, 3.0)), "head": ARD},
    ),
    "`eqx.nn.MLP(scan=True)`": Kind(
        lambda: eqx.nn.MLP(4, "scalar", 4, 3, scan=True, key=KEY), (4,), ARD
    ),
    "tied weights (`eqx.nn.Shared`)": Kind(lambda: Flat(Tied(), 4), (4,), ARD),
    "function of parameters (Flax)": Kind(function, (4,), ARD),
}  # fmt: skip


def noise(kind: Kind) -> str:
    return _fit(kind, sx.NoiseTraining(steps=3, num_draws=2))


def em(kind: Kind) -> str:
    return _fit(kind, sx.VariationalEM(steps=3))


def mcmc(kind: Kind) -> str:
    method = sx.MCMC(num_chains=1, num_warmup=3, num_samples=2, sampler="mclmc", warm_start_steps=2)
    return _fit(kind, method)


def relevance(kind: Kind) -> str:
    posterior = _posterior(kind)
    relevance = posterior.relevance()
    assert all(np.isfinite(list(relevance.layers.values())))
    return "yes" if len(relevance.inputs) else "yes, but for inputs"


def prune(kind: Kind) -> str:
    """Everything that a scale stands on is off: whatever reads nothing else goes."""
    posterior = _posterior(kind)
    x, _ = kind.data()
    limits = {"threshold": np.inf, "tolerance": 1e9}
    small, masked = posterior.prune(x, **limits), posterior.prune(x, mask_only=True, **limits)
    seen = jnp.asarray(inputs_as_seen(x, posterior.model, posterior.scaling))
    np.testing.assert_allclose(
        jax.vmap(small.network)(seen), jax.vmap(masked.network)(seen), rtol=1e-4, atol=1e-5
    )
    before, after = small.report.num_stored
    return "smaller" if after < before else "mask"


def save_and_load(kind: Kind) -> str:
    posterior = _posterior(kind)
    x, _ = kind.data()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.scalemix"
        posterior.save(path)
        loaded = sx.load(path, network=kind.build())
    np.testing.assert_array_equal(loaded.predict(x).mean, posterior.predict(x).mean)
    return "yes"


USES = {
    "noise": noise, "EM": em, "MCMC": mcmc, "relevance": relevance, "prune": prune,
    "save, load": save_and_load,
}  # fmt: skip


def _posterior(kind: Kind) -> sx.Posterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sx.fit(
            kind.model(), *kind.data(), sx.VariationalEM(steps=3), key=KEY, progress=False
        )


def _fit(kind: Kind, method: Any) -> str:
    x, y = kind.data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        posterior = sx.fit(kind.model(), x, y, method, key=KEY, progress=False)
    assert np.isfinite(posterior.predict(x, num_draws=4).mean).all()
    return "yes"


def table() -> str:
    """The table, each cell run."""
    lines = [f"| | {' | '.join(USES)} |", f"|---|{'---|' * len(USES)}"]
    for name, kind in KINDS.items():
        cells = []
        for use, run in USES.items():
            print(f"{name}: {use}", file=sys.stderr, flush=True)
            cells.append(run(kind))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2])
