"""`scalemix demo`."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalemix.cli.console import Terminal, guarded, print_table
from scalemix.cli.models import check_output
from scalemix.cli.options import Debug, Json, Quiet, Seed

if TYPE_CHECKING:
    from scalemix.analysis.sizes import Sizes
    from scalemix.fitting.recipes import Recipe

SHOWN = ("rmse", "log_likelihood", "crps", "coverage")


@guarded
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the report.")
    ] = Path("scalemix-demo.html"),
    steps: Annotated[int, typer.Option(min=1, help="Training steps of each fit.")] = 3000,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit yacht data that come with the package, twice, and write a report.

    The first fit trains under noise (dropout); the second is variational EM, which can switch off
    units.
    """
    terminal = Terminal(quiet=quiet, as_json=as_json)
    check_output(output)
    import jax

    from scalemix import data
    from scalemix.analysis.evaluation import MEASURES, find_figures
    from scalemix.analysis.report import Column, ReportedFit, Story, write_report
    from scalemix.analysis.sizes import find_sizes

    yacht = data.load("yacht")
    train, test = data.splits(len(yacht.y))[0]
    terminal.note(
        f"Yacht hydrodynamics: resistance of a hull from {len(yacht.feature_names)} inputs, "
        f"{len(train)} rows to train on, {len(test)} to test."
    )
    fits: list[ReportedFit] = []
    sizes: dict[str, Sizes] = {}
    for name, recipe in _recipes(steps).items():
        terminal.note(f"{name} ...")
        key, test_key = jax.random.split(jax.random.key(seed))
        started = time.monotonic()
        posterior = recipe.fit(
            yacht.x[train], yacht.y[train], key=key, progress=terminal.progress
        ).posterior
        seconds = time.monotonic() - started
        figures = find_figures(
            posterior.predict(yacht.x[test]), yacht.y[test], classes=False, key=test_key
        )
        sizes[name] = find_sizes(posterior, yacht.x[test])
        settings = {"seconds": f"{seconds:.0f}", "seed": seed, **recipe.settings(len(train))}
        fits.append(ReportedFit(name, posterior, figures, settings, sizes[name]))
    story = Story(
        title="Yacht hydrodynamics: dropout, and variational EM",
        facts=[
            ("what", "resistance of sailing yachts from the shape and speed of the hull"),
            ("source", "UCI machine learning repository, 308 towing-tank experiments"),
            (
                "the two fits",
                "differ in their priors and in the noise of the target too: one level for all "
                "rows in noise training, one for each row and with heavier tails in EM",
            ),
            ("rows", f"{len(train)} trained on, {len(test)} held out (the first standard split)"),
            ("target", yacht.target_name),
            ("inputs", ", ".join(yacht.feature_names)),
        ],
        columns=[Column(name, (i,)) for i, name in enumerate(yacht.feature_names)],
        target=yacht.target_name,
        fits=fits,
        train=(yacht.x[train], yacht.y[train]),
        test=(yacht.x[test], yacht.y[test]),
        tested_on=f"{len(test)} rows that were held out",
    )
    write_report(output, story)
    outcome: dict[str, Any] = {
        told.name: {**told.figures, **_plain(sizes[told.name])} for told in fits
    }

    def show() -> None:
        rows = [
            (MEASURES[key].label, *(MEASURES[key].show(told.figures[key]) for told in fits))
            for key in SHOWN
        ]
        rows += _size_rows([sizes[told.name] for told in fits])
        print_table(
            ["", *(told.name for told in fits)], rows, right=[1, 2], title="On rows not trained on"
        )
        typer.echo(f"Report: {output}")

    terminal.result({"fits": outcome, "report": str(output)}, show)


def _recipes(steps: int) -> "dict[str, Recipe]":
    from scalemix.fitting.recipes import Recipe

    return {
        "Noise training": Recipe(
            inference="noise",
            prior="ard",
            mixture="bernoulli",
            mixture_parameters={"keep": 0.995},
            num_members=4,
            max_steps=steps,
        ),
        "Variational EM": Recipe(
            inference="em",
            prior="ard-add",
            mixture="half-cauchy",
            num_members=4,
            max_steps=steps,
            temperature=0.3,
            noise_floor=1e-3,
        ),
    }


def _plain(sizes: "Sizes") -> dict[str, Any]:
    return {
        "effective_width": sizes.width,
        "effective_depth": sizes.depth,
        "parameters": None if sizes.parameters is None else sizes.parameters[0],
        "parameters_after_pruning": None if sizes.parameters is None else sizes.parameters[1],
        "largest_change_by_pruning": sizes.change,
    }


def _size_rows(sizes: "list[Sizes]") -> list[tuple[str, ...]]:
    def each(show: Any) -> list[str]:
        return [show(size) for size in sizes]

    return [
        (
            "effective width",
            *each(lambda s: " + ".join(f"{w:.3g}" for w in (s.width or {}).values())),
        ),
        ("effective depth", *each(lambda s: "" if s.depth is None else f"{s.depth:.3g}")),
        ("parameters", *each(lambda s: "" if s.parameters is None else f"{s.parameters[0]:,}")),
        (
            "parameters after pruning",
            *each(lambda s: "" if s.parameters is None else f"{s.parameters[1]:,}"),
        ),
        (
            "largest change by pruning",
            *each(lambda s: "" if s.change is None else f"{s.change:.1%} of spread"),
        ),
    ]
