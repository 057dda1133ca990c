"""What is measured on the paper's figures, and the words that follow from it."""

import dataclasses
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.inference.training.weights import tail_adaptive_weights
from scalemix.reproduce import PLANS
from scalemix.reproduce.figures import FIGURES, figure_words
from scalemix.reproduce.figures.heat_maps import describe_heat_maps, variance_shares
from scalemix.reproduce.figures.variances import describe_variances
from scalemix.reproduce.figures.weights import break_ties, describe_weights, draw_weights

PANELS = (
    "importance weighted, rate .005", "importance weighted, rate .5", "tail adaptive, rate .005",
    "the same, ties broken",
)  # fmt: skip


def test_shares_of_variance_are_those_of_a_two_way_table():
    rng = np.random.default_rng(0)
    rows, columns = rng.normal(size=(30, 1)), rng.normal(size=20)
    both = variance_shares(rows + 0.5 * columns)
    assert both["rest"] == pytest.approx(0, abs=1e-12)
    assert both["rows"] / both["columns"] == pytest.approx(rows.var() / (0.25 * columns.var()))
    assert variance_shares(rows + np.zeros(20))["rows"] == pytest.approx(1)
    # Of independent values, a mean of twenty has a twentieth of the variance.
    noise = variance_shares(rng.normal(size=(500, 20)))
    assert noise["rows"] == pytest.approx(1 / 20, rel=0.2)
    assert sum(noise.values()) == pytest.approx(1)
    assert set(variance_shares(np.ones((3, 2))).values()) == {0.0}


def test_ties_that_are_broken_leave_the_same_weights_for_every_example():
    # Three draws tie in the first column, none in the second.
    likelihoods = jnp.array([[2.0, 0.1], [2.0, 0.4], [2.0, 0.3], [1.0, 0.2]])
    weights = np.asarray(tail_adaptive_weights(likelihoods))[None]
    broken = break_ties(weights)
    wanted = np.array([1, 1 / 2, 1 / 3, 1 / 4]) / (1 + 1 / 2 + 1 / 3 + 1 / 4)
    np.testing.assert_allclose(np.sort(broken[0], axis=0)[::-1], np.tile(wanted, (2, 1)).T)
    # Where nothing ties, nothing changes; where some do, the order of the others stays.
    np.testing.assert_allclose(broken[0, :, 1], weights[0, :, 1], rtol=1e-6)
    assert broken[0, :, 0].argmin() == 3


def test_words_about_weights_follow_the_numbers():
    shares = dict(zip(PANELS, (0.8, 0.2, 0.7, 0.0), strict=True))
    said = describe_weights({"at_tenth": shares, "all_tie": 0.05})
    assert said.startswith("- ✓ The paper: at a drop rate of .005")
    assert "✓ The paper: at .5 there is less of a mode. Here 20 %" in said
    assert "✗ The paper: tail-adaptive weights are diverse at .005. By its formula 70 %" in said
    other = describe_weights(
        {"at_tenth": dict(zip(PANELS, (0.3, 0.4, 0.1, 0.0), strict=True)), "all_tie": 0.0}
    )
    assert other.count("✗") == 2
    assert "✓ The paper: tail-adaptive" in other


def test_words_about_heat_maps_name_rows_or_columns_whichever_differ_more():
    of = {"rest": 0.1, "layers": 0.5, "largest_row": 0.2, "largest_column": 0.6}
    by_rows = of | {"rows": 0.8, "columns": 0.1}
    by_columns = of | {"rows": 0.1, "columns": 0.8}
    said = describe_heat_maps({"ARD, temperature 1": by_rows, "ARD, temperature 0.1": by_columns})
    assert "- ARD, temperature 1: the moments differ more between rows than between columns" in said
    assert "- ARD, temperature 0.1: the moments differ more between columns than between" in said
    assert said.count("one column has 60 % of the squared means") == 2
    assert "✓ The paper: rows are shrunk as wholes" in said
    assert "✗ The paper: rows are shrunk as wholes" in said
    assert "| ARD, temperature 1 | 80 % | 10 % | 10 % | 50 % | 20 % | 60 % |" in said


def test_the_variances_of_figure_1b(tmp_path):
    numbers = FIGURES["figure1b"].draw(tmp_path, PLANS["quick"], False)
    distances = numbers["inverse_gamma_from_log_uniform"]
    assert distances == sorted(distances, reverse=True)
    # Three settings of the half-Cauchy are zero at zero, four of the inverse gamma are not.
    at_zero = numbers["at_zero"]
    assert [v == 0 for name, v in at_zero.items() if "HalfCauchy" in name] == [True] * 3
    assert [v == 0 for name, v in at_zero.items() if "InverseGamma" in name] == [False] * 4
    said = describe_variances(numbers)
    assert said.startswith("- ✓ The paper: as both parameters")
    assert "for LogUniform, HalfCauchy, Exponential, and at some settings for Gamma." in said
    assert figure_words({"figures": {"figure1b": numbers}})["figure1b"] == said
    assert figure_words({})["figure1b"] == "It was not measured."


def test_what_the_committed_figures_show():
    path = Path(__file__).parents[2] / "docs" / "reproduction" / "results.json"
    measured = json.loads(path.read_text())["figures"]
    assert set(measured) == set(FIGURES)
    low, high, formula, broken = (measured["figure1a"]["at_tenth"][name] for name in PANELS)
    assert min(low, formula) > 0.5 > high
    assert broken == 0
    # At temperature one moments differ between rows, and most of the means is in one column.
    of = measured["figure2"]["ARD, temperature 1"]
    assert of["rows"] > 10 * of["columns"]
    assert of["largest_column"] > 0.5 > of["largest_row"]


@pytest.mark.slow
def test_figure_2_has_a_panel_for_each_structure_and_temperature(tmp_path):
    numbers = FIGURES["figure2"].draw(
        tmp_path, dataclasses.replace(PLANS["quick"], steps=20), False
    )
    names = [title.partition(",")[0] for title in numbers]
    assert names == ["dropout", "ARD", "ADD", "ARD-ADD", "ARD", "ADD", "ARD-ADD"]
    for name in ("figure2.png", "figure2.svg"):
        assert (tmp_path / name).stat().st_size > 10_000


@pytest.mark.slow
def test_the_weights_of_figure_1a(tmp_path):
    """What the paper says of drop rates .005 and .5, and that ties make the difference."""
    plan = dataclasses.replace(PLANS["quick"], steps=1000)
    numbers = draw_weights(tmp_path, plan, False)
    low, high, formula, broken = (numbers["at_tenth"][name] for name in PANELS)
    assert low > 0.5 > high
    assert formula > 0.5
    assert broken == 0
