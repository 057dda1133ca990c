"""A first look: a network of your own under four priors, before it has seen any data.

Run by `make demo`. Prints what the prior says and writes a picture to out/demo.png.
"""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import scalemix as sx

FAMILIES = {
    "spike and slab": sx.Bernoulli(0.8),
    "Laplace": sx.Rayleigh(0.7),
    "Student-t": sx.InverseGamma(3.0, 3.0),
    "horseshoe": sx.HalfCauchy(0.5),
}


def families_table() -> None:
    """Each family by its three names, with its moments."""
    print(f"{'marginal prior':16}{'noise':34}{'E[xi]':>8}{'E[xi^2]':>10}{'E[1/xi^2]':>11}")
    for name, mixture in FAMILIES.items():
        moments = (mixture.mean, mixture.second_moment, mixture.inverse_square_mean)
        numbers = "".join(f"{float(m):{w}.3g}" for m, w in zip(moments, (8, 10, 11), strict=True))
        print(f"{name:16}{mixture!r:34}{numbers}")


def dropout_check(key: jax.Array) -> float:
    """The largest difference between Equinox's dropout and the Bernoulli ARD prior as noise."""
    network = sx.networks.MLP(8, "scalar", 50, 1, key=key)
    prior = sx.ARD(sx.Bernoulli(0.9).inverted())
    model = sx.Model(network, prior, sx.likelihoods.Gaussian())
    x = jax.random.normal(key, (256, 8))
    scales = model.draw((256,), key=key)
    masks = [scales[f"layers.{i}"]["unit"] for i in range(2)]

    def dropout(x, first, second):
        hidden = jax.nn.relu(network.layers[0](x * first))
        return network.layers[1](hidden * second)

    difference = model.outputs(x, scales) - jax.vmap(dropout)(x, *masks)
    return float(jnp.max(jnp.abs(difference)))


def functions(mixture: sx.mixtures.ScaleMixture, x: jax.Array, num: int, key: jax.Array):
    """Functions of one variable, drawn from the prior that the mixture puts on a network."""
    network = eqx.nn.MLP("scalar", "scalar", 100, 2, jnp.tanh, key=key)
    prior = {
        "layers.0": sx.ARD(mixture, scale=3.0),
        "layers.[12]": sx.ARD(mixture, scale=0.15),
    }
    model = sx.Model(network, prior, sx.likelihoods.Gaussian())

    def one(key: jax.Array) -> jax.Array:
        return jax.vmap(model.with_weights(model.prior_sample(key).weights).network)(x)

    return jax.vmap(one)(jax.random.split(key, num))


def picture(path: Path, key: jax.Array) -> None:
    """The marginal priors above, and below what each makes of a network."""
    figure, axes = plt.subplots(2, len(FAMILIES), figsize=(12, 5.2), layout="constrained")
    w, x = jnp.linspace(-4, 4, 401), jnp.linspace(-2, 2, 200)
    normal = np.exp(-(np.asarray(w) ** 2) / 2) / np.sqrt(2 * np.pi)
    for column, (name, mixture) in zip(axes.T, FAMILIES.items(), strict=True):
        above, below = column
        above.fill_between(w, np.exp(mixture.marginal_log_prob(w)), color="tab:blue", alpha=0.6)
        above.plot(w, normal, color="black", lw=0.8, ls="--", label="Gaussian")
        above.set(title=f"{name}\n{mixture!r}", ylim=(0, 1), xlabel="weight")
        if isinstance(mixture, sx.Bernoulli):
            spike = float(mixture.spike_mass)
            above.annotate(
                "", (0, 0.4 + spike), (0, 0), arrowprops={"color": "tab:red", "width": 1.5}
            )
            above.text(0.2, 0.45 + spike, f"mass {spike:.1f} at zero", color="tab:red")
        for values in functions(mixture, x, 6, key):
            below.plot(x, values - values.mean(), lw=1)
        below.set(xlabel="x", ylim=(-4, 4))
    axes[0, 0].set_ylabel("density")
    axes[1, 0].set_ylabel("networks drawn from the prior")
    axes[0, -1].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the tables, draw the picture."""
    key = jax.random.key(0)
    families_table()
    network = sx.networks.ResNet(8, "scalar", width=50, depth=3, key=key)
    model = sx.Model(network, sx.ARDADD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian())
    print(f"\nA residual network under ARD-ADD:\n{model.describe()}")
    print(f"\nDropout and the spike-and-slab prior differ by at most {dropout_check(key):.1g}.")
    path = Path("out/demo.png")
    picture(path, key)
    print(f"Picture: {path}")


if __name__ == "__main__":
    main()
