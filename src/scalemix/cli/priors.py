"""`scalemix priors`."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from scalemix._files import replacing
from scalemix.cli.console import Terminal, guarded, print_table
from scalemix.cli.models import check_output
from scalemix.cli.options import Debug, Json

# The distributions of the noise, of the variance and of the weight, as the paper names them.
FAMILIES = {
    "bernoulli": ("Bernoulli (dropout)", "Bernoulli", "spike and slab"),
    "gaussian": ("Gaussian", "noncentral chi-squared", "generalized hyperbolic"),
    "rayleigh": ("Rayleigh", "exponential", "Laplace"),
    "inverse-nakagami": ("inverse Nakagami", "inverse gamma", "Student-t"),
    "inverse-gamma": ("inverse Nakagami", "inverse gamma", "Student-t"),
    "half-cauchy": ("half-Cauchy", "(no name)", "horseshoe"),
    "beta": ("beta", "(no name)", "(no name)"),
    "uniform": ("uniform", "(no name)", "(no name)"),
    "log-uniform": ("log-uniform, improper", "1 / v", "1 / |w|"),
    "exponential": ("Rayleigh", "exponential", "Laplace"),
    "gamma": ("Nakagami", "gamma", "variance gamma"),
}


@guarded
def priors(
    plot: Annotated[bool, typer.Option("--plot", help="Draw their densities.")] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to, with --plot: PNG, SVG or PDF.")
    ] = Path("priors.png"),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the families of scales: the noise on a unit, and the prior of its weights."""
    from scalemix.fitting.building import MIXTURES, has_update

    built = {name: kind(**given) for name, (kind, given) in MIXTURES.items()}
    families = [
        {
            "mixture": name,
            "noise": FAMILIES[name][0],
            "variance": FAMILIES[name][1],
            "weight": FAMILIES[name][2],
            "default": repr(mixture),
            "em": has_update(mixture),
            "noise_training": name != "log-uniform",
            "mcmc": name != "log-uniform",
        }
        for name, mixture in built.items()
    ]
    if plot:
        check_output(output)
        _draw(output, built)
    outcome: dict[str, Any] = {"families": families, "picture": str(output) if plot else None}

    def show() -> None:
        heads = ["--mixture", "noise on a unit", "prior of the variance", "prior of the weight"]
        print_table(
            [*heads, "as built by default", "em", "noise", "mcmc"],
            [
                (
                    row["mixture"], row["noise"], row["variance"], row["weight"], row["default"],
                    "yes" if row["em"] else "",
                    _noise_word(row["noise_training"], built[row["mixture"]]),
                    "yes" if row["mcmc"] else "",
                )
                for row in families
            ],
        )  # fmt: skip
        if plot:
            typer.echo(f"Picture: {output}")

    Terminal(quiet=False, as_json=as_json).result(outcome, show)


def _noise_word(possible: bool, mixture: Any) -> str:
    # Noise without a mean can be trained under, but not well.
    return "" if not possible else "yes" if math.isfinite(float(mixture.mean)) else "poor"


def _draw(path: Path, built: dict[str, Any]) -> None:
    from matplotlib.figure import Figure

    from scalemix.analysis.plots import densities
    from scalemix.tables import InputError

    kind = path.suffix.lower().lstrip(".") or "png"
    if kind not in ("png", "svg", "pdf"):
        raise InputError(f"{path}: pictures are written as .png, .svg or .pdf.")
    figure = Figure(figsize=(10.5, 2.6 * len(built)), layout="constrained")
    for axes, mixture in zip(figure.subplots(len(built), 3), built.values(), strict=True):
        densities(mixture, axes=axes)
        axes[0].set_title(f"{mixture!r}\nnoise on a unit", loc="left", fontsize="medium")
    with replacing(path) as file:
        figure.savefig(file, format=kind, dpi=110)
