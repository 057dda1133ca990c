"""Draws the pictures of docs/idea.md into docs/images: `python docs/pictures.py`."""

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
    draw_families()
    draw_structures()
