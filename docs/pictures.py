"""Draws the pictures of the documentation into docs/images: `python docs/pictures.py`."""

from pathlib import Path

import jax
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import scalemix as sx
from scalemix import plots

IMAGES = Path(__file__).parent / "images"
FAMILIES = {
    "rayleigh": sx.Rayleigh(0.7),
    "half_cauchy": sx.HalfCauchy(1.0),
    "bernoulli": sx.Bernoulli(0.7),
}


def draw_front() -> None:
    """A prior, a fit under it, and what the fit has left of the network: the front page."""
    rng, key = np.random.default_rng(1), jax.random.key(0)
    x = np.concatenate([rng.uniform(-4, -0.5, 60), rng.uniform(1.5, 4, 40)])[:, None]
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=len(x))
    grid, w = np.linspace(-6, 6, 300)[:, None], np.linspace(-3, 3, 600)
    mixture = sx.HalfCauchy(1.0)
    net = sx.networks.MLP(1, "scalar", width=20, depth=2, key=key)
    model = sx.Model(net, sx.ARD(mixture), sx.likelihoods.Gaussian())
    method = sx.VariationalEM(steps=5000, num_draws=1, num_members=8)
    post = sx.fit(model, x, y, method, key=key, progress=False)
    figure, (left, middle, right) = plt.subplots(
        1, 3, figsize=(11, 3.4), layout="constrained", width_ratios=(1, 1.5, 1)
    )
    left.plot(w, np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi), "k--", lw=0.8, label="Gaussian")
    left.fill_between(w, np.exp(mixture.marginal_log_prob(w)), alpha=0.6, label="horseshoe")
    left.set(ylim=(0, 1.2), xlabel="weight", ylabel="density")
    left.legend(frameon=False)
    left.set_title("Say what you believe", loc="left")
    pred = post.predict(grid)
    middle.fill_between(grid[:, 0], *pred.interval(0.9), alpha=0.25, label="90% interval")
    middle.plot(grid[:, 0], pred.mean, label="mean")
    middle.plot(x[:, 0], y, "k.", ms=3)
    middle.set(xlabel="x", ylabel="y")
    middle.legend(frameon=False, loc="lower left")
    middle.set_title("Choose how to infer, and predict", loc="left")
    plots.heat_map(post, "layers.1", limits=(1e-4, 1.0), ax=right)
    right.set_title("See what the network needed", loc="left")
    _save(figure, "front")


def draw_families() -> None:
    """The three views of three families."""
    for name, mixture in FAMILIES.items():
        axes = plots.densities(mixture)
        _save(axes[0].figure, name)


def draw_structures() -> None:
    """The residual layers of one network under two structures."""
    rng, key = np.random.default_rng(0), jax.random.key(0)
    x = rng.uniform(-2, 2, size=(200, 2))
    y = np.sin(2 * x[:, 0]) - 0.5 * x[:, 1] + 0.05 * rng.normal(size=200)
    net = sx.networks.ResNet(2, "scalar", width=12, depth=5, key=key)
    method = sx.VariationalEM(steps=6000, num_draws=1, batch_size=64)
    sites = [f"blocks.{i}" for i in range(4)]
    figure, axes = plt.subplots(2, 4, figsize=(10.5, 5.4), layout="constrained", squeeze=False)
    for row, structure in zip(axes, (sx.ARD, sx.ADD), strict=True):
        model = sx.Model(net, structure(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian())
        post = sx.fit(model, x, y, method, key=key, progress=False)
        for site, ax in zip(sites, row, strict=True):
            plots.heat_map(post, site, limits=(1e-5, 1.0), colorbar=site == sites[-1], ax=ax)
            ax.set_title(f"{structure.__name__}: {site}", loc="left", fontsize="medium")
    _save(figure, "structures")


def _save(figure, name: str) -> None:
    figure.savefig(IMAGES / f"{name}.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    draw_front()
    draw_families()
    draw_structures()
