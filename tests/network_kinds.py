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
import jax.export
import jax.numpy as jnp
import numpy as np

import scalemix as sx
from scalemix.data.checks import inputs_as_seen
from tests.networks.cases import KEY, Along, Autoencoder, Flat, Stack, Words

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
    several: bool = False
    """Whether the network takes two inputs."""
    fixed: Callable[[], Any] | None = None
    """The network with a state that stays as it is, where passes change it."""

    def data(self) -> tuple[Any, np.ndarray]:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(NUM, *self.shape)).astype(np.float32)
        y = x.reshape(NUM, -1).mean(axis=1) + 0.1 * rng.normal(size=NUM)
        if self.several:
            return {"some": x[:, :1], "rest": x[:, 1:]}, y
        return (np.clip(2 * x + 2, 0, 4).astype(np.int32) if self.tokens else x), y

    def model(self) -> sx.Model:
        example = jax.tree.map(lambda part: jnp.asarray(part[0]), self.data()[0])
        return sx.Model(self.build(), self.prior, GAUSSIAN, example=example)


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


def words() -> Words:
    """Tokens at four places."""
    return Words(eqx.nn.Embedding(5, 3, key=KEY), eqx.nn.Embedding(4, 3, key=KEY))


def stack() -> eqx.nn.Sequential:
    """Stacked layers, behind one that reads the input."""
    return eqx.nn.Sequential([eqx.nn.Linear(4, 4, key=KEY), eqx.nn.Lambda(Stack(4, 3))])


class Normed(eqx.Module):
    """A dense layer, a BatchNorm with running statistics, and dropout of the network's own."""

    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    drop: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self):
        self.first = eqx.nn.Linear(4, 4, key=KEY)
        self.norm = eqx.nn.BatchNorm(4, axis_name="batch", mode="ema")
        self.drop = eqx.nn.Dropout(0.2)
        self.last = eqx.nn.Linear(4, "scalar", key=KEY)

    def __call__(self, x, state, key=None):
        h, state = self.norm(self.first(x), state)
        return self.last(self.drop(jnp.tanh(h), key=key)), state


def normed() -> sx.networks.CalledNetwork:
    """With its state, and keys in training alone."""
    network, state = eqx.nn.make_with_state(Normed)()
    return sx.networks.with_call(
        network, lambda net, x, state, key=None: net(x, state, key=key), state=state
    )


def settled() -> sx.networks.CalledNetwork:
    """The same with statistics that stay as they are."""
    network, state = eqx.nn.make_with_state(Normed)()
    return sx.networks.with_call(
        eqx.nn.inference_mode(network), lambda net, x, state: net(x, state), state=state
    )


def joined() -> sx.networks.CalledNetwork:
    """Two inputs of a network that takes one."""
    network = eqx.nn.MLP(4, "scalar", 4, 1, key=KEY)
    return sx.networks.with_call(
        network, lambda net, x: net(jnp.concatenate([x["some"], x["rest"]]))
    )


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
    "`Embedding`, learned positions": Kind(lambda: Flat(words(), 3), (4,), ARD, tokens=True),
    "`Embedding`, by token": Kind(
        lambda: Flat(words(), 3), (4,),
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
    "stacked layers in a loop": Kind(lambda: Flat(stack(), 4), (4,), ARD),
    "stacked layers, ADD": Kind(
        lambda: Flat(stack(), 4), (4,),
        {"*.layers": sx.ADD(sx.InverseGamma(3.0, 3.0)), "head": ARD},
    ),
    "`eqx.nn.MLP(scan=True)`": Kind(
        lambda: eqx.nn.MLP(4, "scalar", 4, 3, scan=True, key=KEY), (4,), ARD
    ),
    "tied weights (`eqx.nn.Shared`)": Kind(lambda: Flat(Autoencoder(4, 3), 4), (4,), ARD),
    "function of parameters (Flax)": Kind(function, (4,), ARD),
    "`BatchNorm` with a state, `Dropout` with a key": Kind(normed, (4,), ARD, fixed=settled),
    "several inputs (`call=`)": Kind(joined, (4,), ARD, several=True),
    "layers that share scales": Kind(
        lambda: Flat(Along(eqx.nn.GRUCell(2, 3, key=KEY)), 3), (4, 2),
        {("body.cell.weight_hh", "head"): ARD},
    ),
}  # fmt: skip


def noise(kind: Kind) -> str:
    return _fit(kind, sx.NoiseTraining(steps=3, num_draws=2))


def em(kind: Kind) -> str:
    return _fit(kind, sx.VariationalEM(steps=3))


def mcmc(kind: Kind) -> str:
    method = sx.MCMC(num_chains=1, num_warmup=3, num_samples=2, sampler="mclmc", warm_start_steps=2)
    if kind.fixed is None:
        return _fit(kind, method)
    _fit(kind._replace(build=kind.fixed), method)
    return "yes, with a fixed state"


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
    seen = jax.device_put(inputs_as_seen(x, posterior.model, posterior.scaling))
    ours, expected = (_run(network, seen) for network in (small.network, masked.network))
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5)
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


def export(kind: Kind) -> str:
    posterior = _posterior(kind)
    x, _ = kind.data()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.jaxexport"
        posterior.export(path, num_draws=4)
        function = jax.export.deserialize(bytearray(path.read_bytes()))
    mean = posterior.predict(x, num_draws=4).mean
    np.testing.assert_allclose(function.call(x)["mean"], mean, rtol=1e-3, atol=1e-4)
    return "yes"


USES = {
    "noise": noise, "EM": em, "MCMC": mcmc, "relevance": relevance, "prune": prune,
    "save, load": save_and_load, "export": export,
}  # fmt: skip


@eqx.filter_jit
def _run(network: Any, x: Any) -> jax.Array:
    """As one program, where each operation would be one of its own."""
    return jax.vmap(network)(x)


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
        # Programs of all kinds together are more than a process may hold.
        jax.clear_caches()
        for use, run in USES.items():
            print(f"{name}: {use}", file=sys.stderr, flush=True)
            cells.append(run(kind))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + table() + END + rest.partition(END)[2])
