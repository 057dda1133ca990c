"""Figure 2: the hidden-to-hidden weights that each prior leaves on boston."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from scalemix import data
from scalemix.analysis import plots
from scalemix.fitting.front_door import fit
from scalemix.inference import NoiseTraining, VariationalEM
from scalemix.likelihoods import Gaussian
from scalemix.mixtures import Bernoulli, InverseGamma
from scalemix.model.model import Model
from scalemix.networks import ResNet
from scalemix.posterior.posterior import Posterior
from scalemix.reproduce.cells import STRUCTURES
from scalemix.reproduce.figures.drawing import canvas, save
from scalemix.reproduce.plans import WARM_UP, WIDTH, Plan
from scalemix.structures import ARD

SITE = "blocks.0"
# What is smaller than this share of the largest moment is drawn, and measured, as if it were this.
SMALLEST = 1e-4
# The share of the variance between rows, or columns, of a matrix of independent values.
CHANCE = 1 / (WIDTH + 1)


def draw_heat_maps(folder: Path, plan: Plan, progress: bool | None) -> dict[str, Any]:
    """Second moments at temperature one, and at that of the paper's released code.

    That code averages the divergence over weights where it should sum and divide by the number of
    data.
    """
    boston = data.load("boston")
    train, _ = data.splits(len(boston.y))[0]
    training = plan.training(len(train))
    network = ResNet(boston.x.shape[1], "scalar", WIDTH, 2, key=jax.random.key(0))

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
    figure, axes = canvas(2, 4, 14, 6.6)
    axes[1, 0].set_visible(False)
    # One scale for all, so that panels can be compared.
    largest = max(float(np.max(plots.second_moments(p)[SITE])) for _, p in panels.values())
    for place, (title, posterior) in panels.items():
        plots.heat_map(
            posterior, SITE, limits=(SMALLEST * largest, largest), ax=axes[place],
            colorbar=place[1] == 3,
        )  # fmt: skip
        axes[place].set_title(title, loc="left", fontsize="medium")
    save(figure, folder, "figure2")
    return {title: _measure(posterior, SMALLEST * largest) for title, posterior in panels.values()}


def _measure(posterior: Posterior, smallest: float) -> dict[str, float]:
    """Where the second moments differ, and where the means are."""
    moments = plots.second_moments(posterior)
    logs = {name: np.log(np.maximum(m, smallest)) for name, m in moments.items()}
    means = np.square(np.asarray(posterior.model.weights[SITE], float)).T
    return {
        **variance_shares(logs[SITE]),
        "layers": _between(list(logs.values())),
        "largest_row": float(means.sum(axis=1).max() / means.sum()),
        "largest_column": float(means.sum(axis=0).max() / means.sum()),
    }


def variance_shares(values: np.ndarray) -> dict[str, float]:
    """The shares of the variance of a matrix between its rows, between its columns, and the rest.

    In a matrix without empty places the three add up to one.
    """
    total = values.var()
    if total == 0:
        return {"rows": 0.0, "columns": 0.0, "rest": 0.0}
    rows, columns = (float(values.mean(axis=axis).var() / total) for axis in (1, 0))
    return {"rows": rows, "columns": columns, "rest": 1 - rows - columns}


def _between(groups: list[np.ndarray]) -> float:
    """The share of the variance of all values that lies between the means of groups."""
    together = np.concatenate([group.ravel() for group in groups])
    spread = sum(group.size * (group.mean() - together.mean()) ** 2 for group in groups)
    return float(spread / together.size / together.var()) if together.var() > 0 else 0.0


def describe_heat_maps(numbers: dict[str, Any]) -> str:
    """The shares as a table, and words that follow from them."""
    lines = [
        "| panel | between rows | between columns | rest | between layers | largest row "
        "| largest column |",
        "|---" * 7 + "|",
    ]
    keys = ("rows", "columns", "rest", "layers", "largest_row", "largest_column")
    for title, of in numbers.items():
        lines.append(f"| {title} | " + " | ".join(f"{100 * of[key]:.0f} %" for key in keys) + " |")
    lines += [
        "",
        "The first three are shares of the variance of the log second moments of this matrix, as "
        f"drawn; by chance rows and columns would have {100 * CHANCE:.0f} % each. The fourth is "
        "the share between the three matrices of the network. The last two are the largest shares "
        "that one row and one column have of the squared means, which carry the function. Each "
        "panel is a single fit, on the first split: another fit would have other shares.",
        "",
    ]
    for title, of in numbers.items():
        name = title.partition(",")[0]
        more, less = sorted(("rows", "columns"), key=lambda kind: of[kind], reverse=True)
        words = f"- {title}: the moments differ more between {more} than between {less}"
        carried = "column" if of["largest_column"] > of["largest_row"] else "row"
        words += (
            f", and one {carried} has {100 * of[f'largest_{carried}']:.0f} % of the squared means."
        )
        if name in PAPER:
            wanted, said = PAPER[name]
            words += f" {'✓' if wanted(of) else '✗'} The paper: {said}."
        lines.append(words)
    return "\n".join(lines)


# What the paper says of a panel, and what that means here.
PAPER: dict[str, tuple[Callable[[dict[str, float]], bool], str]] = {
    "ARD": (
        lambda of: of["rows"] > of["columns"],
        "rows are shrunk as wholes, which here means that they differ more than columns do",
    ),
    "ADD": (
        lambda of: max(of["rows"], of["columns"]) < 0.5,
        "the matrix is shrunk as a whole, which here means that neither rows nor columns have half "
        "the variance",
    ),
    "ARD-ADD": (
        lambda of: of["rows"] > of["columns"] and of["largest_row"] > of["largest_column"],
        "one row grows while the rest of the matrix is shrunk, which here means that rows differ "
        "more than columns do, and that the largest row has more of the squared means than the "
        "largest column",
    ),
    "dropout": (
        lambda of: of["rows"] > 2 * CHANCE,
        "there is some structure in rows, which here means more than twice the share of chance",
    ),
}
