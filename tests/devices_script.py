"""What `tests/test_devices.py` asserts, found out in a process with four devices.

`python -m tests.devices_script FOLDER` writes what it finds to `FOLDER/results.npz`, and the
programs that it ran to `FOLDER/programs.json`. With `other` behind it, it looks at what takes
longer.
"""

import json
import sys
import warnings
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

import scalemix as sx
import tests.conftest  # noqa: F401 (strict promotion, and programs that are translated quickly)
from scalemix._mesh import check_mesh, over_members
from scalemix.inference.layout import Layout

KEY = jax.random.key(0)


class Watched(sx.VariationalEM):
    """Variational EM that records what it draws and which rows it is given."""

    def terms(self, state, model, batch, num_data, key, temperature=None):
        terms = super().terms(state, model, batch, num_data, key, temperature)
        seen = {"draws": jax.random.bits(key, (3,)), "rows": batch.x}
        return terms._replace(recorded={**terms.recorded, **seen})


def meshes() -> dict[str, Mesh | None]:
    """Meshes of one, two and four devices; four are the default."""
    devices = np.array(jax.devices())
    return {
        "1": Mesh(devices[:1], ("members",)),
        "2": Mesh(devices[:2], ("members",)),
        "4": None,
        "2x2": jax.make_mesh((2, 2), ("members", "data")),
    }


def build():
    # Rows outside the training data are drawn a second time, for their noise.
    network = sx.networks.MLP(2, 2, 4, 1, key=jax.random.key(1))
    return sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian(per_input=True))


def tables(num: int):
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=(24, 2)) for _ in range(num)]
    return xs, [x[:, 0] + 0.1 * rng.normal(size=24) for x in xs]


# Five fits do not divide by two, nor by four.
METHOD = Watched(steps=8, chunk_steps=4, batch_size=7, validation_fraction=0.25)
FIVE = tables(5)


def train(mesh, **settings):
    """Five fits: weights, scores, and what was recorded, each with an axis of fits."""
    posteriors = sx.fit_many(
        build(), *FIVE, METHOD, keys=jax.random.split(KEY, 5), mesh=mesh, **settings
    )
    learned = [eqx.filter((p.networks, p.history), eqx.is_array_like) for p in posteriors]
    leaves = [np.stack(each) for each in zip(*map(jax.tree.leaves, learned), strict=True)]
    recorded = {
        name: np.stack([p.history.recorded[name] for p in posteriors]) for name in ("draws", "rows")
    }
    return posteriors, {f"leaf{i:02}": leaf for i, leaf in enumerate(leaves)} | recorded


def sample(mesh):
    """Three chains, which divide neither by two nor by four."""
    x, y = (part[0] for part in FIVE)
    method = sx.MCMC(num_chains=3, num_warmup=2, num_samples=2, max_depth=2, warm_start=False)
    networks = sx.fit(build(), x, y, method, key=KEY, mesh=mesh)
    leaps = networks.history.recorded["num_gradients"]
    return {"positions": np.asarray(networks.networks.positions), "leaps": leaps}


def predict(posterior, mesh):
    """Moments and samples; 50 rows and 30 draws do not divide by four."""
    x = np.random.default_rng(1).normal(size=(50, 2))
    predictive = posterior.predict(x, num_draws=30, mesh=mesh)
    drawn = predictive.sample(jax.random.key(2), 3)
    return {"mean": predictive.mean, "std": predictive.std, "drawn": drawn}


def read_sets():
    """What each of five members reads of three data sets, each device having its own, and how."""
    sets, which = np.arange(12.0).reshape(3, 4), np.array([0, 2, 2, 2, 1])
    layout = Layout.over(check_mesh(None), len(which))
    read = jax.jit(over_members(lambda sets, which: sets[which], layout.mesh, [0, 0], 0))
    placed = layout.place_sets(sets, which)
    held = np.asarray(placed[0])[:, 0] // 4
    return {"read": layout.cut(read(*placed)), "given": sets[which], "held": held}, read


def interrupted(folder: Path):
    """A run that stops half way on four devices, and goes on with one."""
    path = folder / "run.checkpoint"

    def stop(progress):
        if progress.step == 4:
            raise KeyboardInterrupt

    try:
        train(None, checkpoint=path, callback=stop)
    except KeyboardInterrupt:
        return train(meshes()["1"], checkpoint=path, resume=True)[1]
    raise AssertionError("nothing was interrupted")


def other_fits(mesh, folder: Path):
    """Whatever else is spread: streams, candidates, fits with chains, convolutions, objectives."""
    xs, ys = FIVE
    x, y, model = xs[0], ys[0], build()
    three = {"steps": 6, "chunk_steps": 3, "num_members": 3}
    loader = [(x[i : i + 8], y[i : i + 8]) for i in (0, 8, 16)]
    chains = sx.MCMC(
        num_chains=2, num_warmup=2, num_samples=2, chunk_steps=2, sampler="mclmc",
        warm_start=sx.VariationalEM(steps=4),
    )  # fmt: skip
    candidates = [sx.Candidate(model, sx.VariationalEM(steps=9, temperature=t)) for t in (0.1, 1.0)]
    images = np.tile(x[:, None, :, None], (1, 1, 2, 4)).astype(np.float32)
    dropout = sx.Model(Convolution(), sx.ARD(sx.Bernoulli(0.9)), sx.likelihoods.Gaussian())
    stateful = sx.Model(normed(), sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian())
    shared = {"key": KEY, "mesh": mesh}
    stacked = sx.fit_stacked(
        candidates, np.tile(x, (2, 1)), np.tile(y, 2), num_members=3, num_trial_members=1, **shared
    )
    path = folder / f"chains{id(mesh)}.checkpoint"
    keys = jax.random.split(KEY, 3)

    def stop(progress):
        if progress.num_steps == 4:
            raise KeyboardInterrupt

    many = [model] * 3, xs[:3], ys[:3], chains
    try:
        sx.fit_many(*many, keys=keys, mesh=None, checkpoint=path, callback=stop)
    except KeyboardInterrupt:
        resumed = sx.fit_many(*many, keys=keys, mesh=mesh, checkpoint=path, resume=True)
    fits = {
        "batches": sx.fit_batches(model, loader, sx.VariationalEM(**three), num_rows=24, **shared),
        "streamed": sx.fit(
            model, x, y, sx.VariationalEM(**three, batch_size=8, stream_above=1), **shared
        ),
        # More than a device of processors runs at a time.
        "groups": sx.fit(model, x, y, sx.VariationalEM(**three | {"num_members": 32}), **shared),
        "state": sx.fit(stateful, x, y, sx.VariationalEM(**three, batch_size=8), **shared),
        "stacked": stacked.posterior,
        "chains": resumed[2],
        "convolution": sx.fit(dropout, images, y, sx.NoiseTraining(
            "importance_weighted", **three, batch_size=8, num_draws=3), **shared),
    }  # fmt: skip
    learned = {name: eqx.filter(fit.networks, eqx.is_inexact_array) for name, fit in fits.items()}
    flat = {name: ravel_pytree(tree)[0] for name, tree in learned.items()}
    try:
        sx.fit_many(
            [model, model, sx.Model(model.network, sx.ARD(sx.HalfCauchy(1e30)), model.likelihood)],
            xs[:3], ys[:3], sx.NoiseTraining(steps=2, num_draws=1), keys=keys, mesh=mesh,
        )  # fmt: skip
    except sx.DivergenceError as error:
        told = np.frombuffer(str(error).encode(), np.uint8)
    return {name: np.asarray(value) for name, value in flat.items()} | {"told": told}


class Normed(eqx.Module):
    """A network with a state, the sums of which are over all rows of a batch."""

    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    last: eqx.nn.Linear

    def __init__(self):
        # A bias would have no slope but rounding errors, of which Adam makes whole steps.
        self.first = eqx.nn.Linear(2, 4, use_bias=False, key=KEY)
        self.norm = eqx.nn.BatchNorm(4, axis_name="batch", mode="ema")
        self.last = eqx.nn.Linear(4, "scalar", key=KEY)

    def __call__(self, x, state):
        h, state = self.norm(self.first(x), state)
        return self.last(jax.numpy.tanh(h)), state


def normed() -> sx.networks.CalledNetwork:
    network, state = eqx.nn.make_with_state(Normed)()
    return sx.networks.with_call(network, lambda net, x, state: net(x, state), state=state)


class Convolution(eqx.Module):
    """A network whose gradients, side by side, are grouped convolutions."""

    first: eqx.nn.Conv2d
    last: eqx.nn.Linear

    def __init__(self):
        self.first = eqx.nn.Conv2d(1, 3, 3, key=KEY)
        self.last = eqx.nn.Linear(12, "scalar", key=KEY)

    def __call__(self, x):
        return self.last(jax.nn.relu(self.first(x)).reshape(-1))


def main(folder: Path, *, other: bool) -> None:
    warnings.simplefilter("ignore")
    if other:
        names = "1", "4", "2x2"
        save(folder, {f"other {name}": other_fits(meshes()[name], folder) for name in names})
        return
    # A program lives as long as its function.
    sets, _read = read_sets()
    results = {"sets": sets}
    for name, mesh in meshes().items():
        posteriors, results[f"train {name}"] = train(mesh)
        if name == "1":
            posterior = posteriors[0]
    results["train resumed"] = interrupted(folder)
    for name in ("1", "2x2"):
        results[f"predict {name}"] = predict(posterior, meshes()[name])
    for name in ("1", "4"):
        results[f"sample {name}"] = sample(meshes()[name])
    save(folder, results)
    # XLA can dump them, but with so much else that the process would take twice as long.
    programs = [one.hlo_modules()[0] for one in jax.devices()[0].client.live_executables()]
    texts = [(program.name, program.to_string()) for program in programs]
    (folder / "programs.json").write_text(json.dumps(texts))


def save(folder: Path, results: dict) -> None:
    flat = {f"{part}/{name}": v for part, values in results.items() for name, v in values.items()}
    np.savez(folder / "results.npz", **flat)


if __name__ == "__main__":
    main(Path(sys.argv[1]), other="other" in sys.argv)
