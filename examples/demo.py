"""Dropout as a prior, trained by three objectives on data inside the package.

`python examples/demo.py` prints how each does on held-out rows and writes out/demo.png.
"""

from pathlib import Path

import jax
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import scalemix as sx

NUM_SPLITS = 5
FAMILIES = {
    "spike and slab": sx.Bernoulli(0.9),
    "Laplace": sx.Rayleigh(0.8),
    "Student-t": sx.InverseGamma(6.0, 6.0),
    "generalized hyperbolic": sx.Gaussian(0.5),
}


def compare_objectives(key: jax.Array) -> None:
    """Compare three objectives on the yacht data. All splits are trained as one program."""
    data = sx.data.load("yacht")
    pairs = sx.data.splits(len(data.y))[:NUM_SPLITS]
    keys = jax.random.split(key, NUM_SPLITS)
    models = [
        sx.Model(
            sx.networks.MLP(data.x.shape[1], "scalar", width=50, depth=1, key=k),
            prior=sx.ARD(sx.Bernoulli(0.995), scale=10.0),
            likelihood=sx.likelihoods.Gaussian(),
        )
        for k in keys
    ]
    print(f"Yacht hydrodynamics, mean of {NUM_SPLITS} standard splits, on rows not trained on:\n")
    print(f"{models[0].describe()}\n")
    print(f"{'objective':22}{'RMSE':>8}{'log-lik.':>10}{'CRPS':>8}{'90% covers':>12}")
    for objective in ("lower_bound", "importance_weighted", "tail_adaptive"):
        posteriors = sx.fit_many(
            models,
            [data.x[train] for train, _ in pairs],
            [data.y[train] for train, _ in pairs],
            sx.NoiseTraining(objective, num_draws=10, steps=4000, learning_rate=0.01),
            keys=keys,
        )
        scores = [
            measure(posterior, data.x[test], data.y[test], key)
            for posterior, (_, test) in zip(posteriors, pairs, strict=True)
        ]
        rmse, log_likelihood, crps, coverage = np.mean(scores, axis=0)
        print(f"{objective:22}{rmse:8.3f}{log_likelihood:10.3f}{crps:8.3f}{coverage:12.0%}")


def measure(posterior: sx.Posterior, x: np.ndarray, y: np.ndarray, key: jax.Array) -> list[float]:
    """RMSE, log-likelihood, CRPS and the coverage of the 90% interval."""
    predictive = posterior.predict(x)
    return [
        sx.metrics.rmse(y, predictive.mean),
        sx.metrics.log_likelihood(predictive.log_prob(y)),
        sx.metrics.crps(y, predictive.sample(key, 200)),
        sx.metrics.interval_coverage(y, predictive.interval(0.9)),
    ]


def picture(path: Path, key: jax.Array) -> None:
    """Draw each family's prior of one weight, and below it a network trained under that prior."""
    rng = np.random.default_rng(3)
    x = np.concatenate([rng.uniform(-4, -1, 30), rng.uniform(1, 3, 20)])[:, None]
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=50)
    grid, w = np.linspace(-5, 5, 300)[:, None], np.linspace(-4, 4, 401)
    figure, axes = plt.subplots(2, 4, figsize=(12, 5.4), layout="constrained")
    for (above, below), (name, mixture) in zip(axes.T, FAMILIES.items(), strict=True):
        above.fill_between(w, np.exp(mixture.marginal_log_prob(w)), color="tab:blue", alpha=0.6)
        above.plot(w, np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi), "k--", lw=0.8, label="Gaussian")
        above.set_title(f"{name}\n{mixture!r}", fontsize=10)
        above.set(ylim=(0, 1), xlabel="weight")
        if isinstance(mixture, sx.Bernoulli):
            mass = float(mixture.spike_mass)
            above.plot([0, 0], [0, 0.4 + mass], color="tab:red", lw=3)
            above.text(0.2, 0.4 + mass, f"mass {mass:.1f} at zero", color="tab:red")
        network = sx.networks.MLP(1, "scalar", width=50, depth=1, key=key)
        # The first layer has a single input. Without it nothing would be left to learn from.
        prior = {"layers.1": sx.ARD(mixture, scale=3.0)}
        model = sx.Model(network, prior, sx.likelihoods.Gaussian())
        # Fresh noise for each row, in training as in prediction.
        method = sx.NoiseTraining(
            "importance_weighted", noise_sharing="example", steps=3000, learning_rate=0.02
        )
        predictive = sx.fit(model, x, y, method, key=key).predict(grid)
        lower, upper = predictive.interval(0.9)
        below.fill_between(grid[:, 0], lower, upper, alpha=0.25, label="90% interval")
        below.plot(grid[:, 0], predictive.mean, label="mean")
        below.plot(x[:, 0], y, "k.", ms=3)
        below.set(ylim=(-3, 3), xlabel="x")
    axes[0, 0].set_ylabel("density")
    axes[1, 0].set_ylabel("y")
    axes[0, -1].legend(frameon=False)
    axes[1, 0].legend(frameon=False, loc="lower left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def main() -> None:
    """Print the comparison and write the picture."""
    key = jax.random.key(0)
    compare_objectives(key)
    path = Path("out/demo.png")
    picture(path, key)
    print(f"\nPicture: {path}")


if __name__ == "__main__":
    main()
