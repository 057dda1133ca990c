"""The paper's figures, as PNG and SVG."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from scalemix import data
from scalemix.analysis import plots
from scalemix.fitting.front_door import fit
from scalemix.inference import NoiseTraining, VariationalEM
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import (
    Bernoulli,
    Exponential,
    Gamma,
    HalfCauchy,
    InverseGamma,
    LogUniform,
)
from scalemix.model.model import Model
from scalemix.networks import MLP, ResNet
from scalemix.posterior.posterior import Posterior
from scalemix.reproduce.cells import STRUCTURES
from scalemix.reproduce.plans import WARM_UP, Plan
from scalemix.structures import ARD

# Colours that people with any kind of colour vision tell apart.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")


def _figure(rows: int, columns: int, width: float, height: float) -> tuple[Any, np.ndarray]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def _save(figure: Any, folder: Path, name: str) -> None:
    for kind in ("png", "svg"):
        figure.savefig(folder / f"{name}.{kind}", dpi=150)


def importance_weights(folder: Path, plan: Plan, progress: bool | None) -> None:
    """Figure 1a: the weights of ten draws, seen in the last steps of training on energy."""
    energy = data.load("energy")
    train, _ = data.splits(len(energy.y))[0]
    panels: list[tuple[str, Any, float]] = [
        ("importance weighted, rate .005", "importance_weighted", 0.005),
        ("importance weighted, rate .5", "importance_weighted", 0.5),
        ("tail adaptive, rate .005", "tail_adaptive", 0.005),
    ]
    figure, (axes,) = _figure(1, 3, 11, 3.2)
    steps = min(plan.steps, 5000)
    for axis, (title, objective, rate), colour in zip(axes, panels, COLOURS, strict=False):
        network = MLP(energy.x.shape[1], "scalar", 50, 1, key=jax.random.key(0))
        # Weights of each example, as the released code has them.
        method: Any = NoiseTraining(
            objective, steps=steps, num_draws=10, record_weights=True, chunk_steps=steps // 20,
            noise_sharing="example",
        )  # fmt: skip
        posterior = fit(
            Model(network, ARD(Bernoulli(1 - rate)), Gaussian()),
            energy.x[train],
            energy.y[train],
            method,
            key=jax.random.key(1),
            progress=progress,
        )
        weights = posterior.history.recorded["importance_weights"][-10:]
        axis.hist(
            np.ravel(weights), bins=np.linspace(-0.0125, 1.0125, 42), color=colour, density=True
        )
        axis.axvline(0.1, color="#6B6B6B", linestyle=":", label="lower bound: 1/10")
        axis.set_xlabel("weight of a draw")
        axis.set_title(title, loc="left", fontsize="medium")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("density")
    axes[0].legend(frameon=False, fontsize="small")
    _save(figure, folder, "figure1a")


def optimal_variances(folder: Path, plan: Plan, progress: bool | None) -> None:
    """Figure 1b: the variance that EM settles on, against what it sees of one weight."""
    figure, ((axis,),) = _figure(1, 1, 6, 4)
    moment = jnp.linspace(0, 5, 201)
    for mixture, colour in zip(
        [
            InverseGamma(3.0, 3.0),
            HalfCauchy(1.0),
            LogUniform(),
            Exponential(1.0),
            Gamma(2.0, 1.0),
        ],
        COLOURS,
        strict=False,
    ):
        axis.plot(moment, mixture.optimal_variance(moment, 1), label=repr(mixture), color=colour)
    axis.set_xlabel(r"$\mu^2 + \sigma^2$ of one weight")
    axis.set_ylabel(r"optimal variance $v^*$")
    axis.legend(frameon=False, fontsize="small")
    axis.spines[["top", "right"]].set_visible(False)
    _save(figure, folder, "figure1b")


def posterior_structure(folder: Path, plan: Plan, progress: bool | None) -> None:
    """Figure 2: the hidden-to-hidden weights that each prior leaves on boston.

    Above at temperature one; below at that of the paper's released code, which averages the
    divergence over weights where it should sum and divide by the number of data.
    """
    boston = data.load("boston")
    train, _ = data.splits(len(boston.y))[0]
    training = plan.training(len(train))
    network = ResNet(boston.x.shape[1], "scalar", 50, 2, key=jax.random.key(0))

    def fitted(prior: Any, method: Any) -> Posterior:
        return fit(
            Model(network, prior, Gaussian()), boston.x[train], boston.y[train], method,
            key=jax.random.key(1), progress=progress,
        )  # fmt: skip

    dropout = fitted(ARD(Bernoulli(0.995)), NoiseTraining(num_draws=10, **training))
    released = len(train) / sum(weight.size for weight in dropout.model.weights.values())
    panels: dict[tuple[int, int], tuple[str, Posterior]] = {(0, 0): ("dropout", dropout)}
    for row, temperature in enumerate((1.0, released)):
        method = VariationalEM(temperature=temperature, warm_up=WARM_UP, **training)
        for column, (name, kind) in enumerate(STRUCTURES.items(), start=1):
            title = f"{name}, temperature {temperature:.2g}"
            panels[row, column] = title, fitted(kind(InverseGamma(3.0, 3.0)), method)
    figure, axes = _figure(2, 4, 14, 6.6)
    axes[1, 0].set_visible(False)
    # One scale for all, so that panels can be compared.
    largest = max(np.max(plots.second_moments(p)["blocks.0"]) for _, p in panels.values())
    for place, (title, posterior) in panels.items():
        plots.heat_map(
            posterior, "blocks.0", limits=(1e-4 * largest, largest), ax=axes[place],
            colorbar=place[1] == 3,
        )  # fmt: skip
        axes[place].set_title(title, loc="left", fontsize="medium")
    _save(figure, folder, "figure2")


FIGURES: dict[str, Callable[[Path, Plan, bool | None], None]] = {
    "figure1a": importance_weights,
    "figure1b": optimal_variances,
    "figure2": posterior_structure,
}
