"""The claims of the paper: each experiment runs, and the page is what the results say."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import scalemix as sx
from scalemix.cli.app import app
from scalemix.reproduce import PLANS, Plan
from scalemix.reproduce.claims import CLAIMS, bounds, judge_claims, write_claims
from scalemix.reproduce.claims.collection import numbers_of
from scalemix.reproduce.claims.expectations import Noise

DOCS = Path(__file__).parents[2] / "docs"
TINY = 0.004
# These fit networks; the others are arithmetic.
FITTED = ("inclusion", "selection", "depth", "width", "contraction")
# What takes seconds at any size; what they rest on is tested where it lives.
SLOW = (*FITTED, "priors", "importance")


@pytest.fixture(scope="module")
def committed():
    return json.loads((DOCS / "reproduction" / "claims.json").read_text())


def test_the_documentation_holds_the_page_of_the_committed_results(committed, tmp_path):
    assert committed["effort"] == 1
    assert tuple(committed["claims"]) == tuple(CLAIMS)
    write_claims(committed, tmp_path / "claims.md", tmp_path / "reproduction")
    assert (tmp_path / "claims.md").read_text() == (DOCS / "claims.md").read_text()


def test_infinite_gaps_come_back_from_a_file(committed):
    """JSON has no infinity."""
    assert committed["claims"]["gap"]["table"]["Bernoulli"]["hierarchical"] == "inf"
    assert math.isinf(numbers_of(committed, "gap")["table"]["Bernoulli"]["hierarchical"])


def test_verdicts_are_made_of_numbers(committed):
    """Other numbers, other verdicts: no tick is typed by hand."""
    numbers = numbers_of(committed, "contraction")
    contracts, dropout = CLAIMS["contraction"].judge(numbers)
    assert contracts.holds
    assert not dropout.holds
    spreads = numbers["spreads"]
    swapped = spreads | {"EM": spreads["dropout"], "dropout": spreads["EM"]}
    contracts, dropout = CLAIMS["contraction"].judge(numbers | {"spreads": swapped})
    assert not contracts.holds
    assert dropout.holds


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in CLAIMS]
)
@pytest.mark.filterwarnings("ignore")
def test_a_claim_is_measured_judged_and_drawn(name, committed, tmp_path):
    claim = CLAIMS[name]
    numbers = claim.measure(TINY)
    assert numbers.keys() == committed["claims"][name].keys()
    judged = claim.judge(numbers)
    assert len(judged) == len(judge_claims(committed)[name])
    assert all(isinstance(verdict.holds, bool | np.bool_) for verdict in judged)
    if claim.draw is not None:
        claim.draw(numbers).savefig(tmp_path / "figure.png")
    # Experiments without training decide alike at any size.
    if name in ("equivalence", "diffuse", "priors", "gap", "zeros", "improper"):
        assert [v.holds for v in judged] == [v.holds for v in judge_claims(committed)[name]]


@pytest.mark.parametrize("name", FITTED)
def test_figures_of_fits_are_drawn_from_the_committed_numbers(name, committed, tmp_path):
    draw = CLAIMS[name].draw
    if draw is not None:
        draw(numbers_of(committed, name)).savefig(tmp_path / "figure.png")


def test_the_command_line_runs_and_shows_them(monkeypatch, tmp_path):
    monkeypatch.setitem(PLANS, "quick", Plan("quick", 2, 20, 20, 32, 128))
    kept = {"zeros": CLAIMS["zeros"]}
    monkeypatch.setattr("scalemix.reproduce.claims.collection.CLAIMS", kept)
    page = tmp_path / "claims.md"
    arguments = ["reproduce", "claims", "--quick", "-o", str(tmp_path), "--page", str(page)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "does not" in shown.stdout
    assert "claim_zeros.png)" in page.read_text()
    assert (tmp_path / "claim_zeros.png").read_bytes()[:4] == b"\x89PNG"
    assert set(json.loads((tmp_path / "claims.json").read_text())["claims"]) == {"zeros"}


def test_gaps_are_those_of_the_closed_forms(float64):
    # Gaussian noise: E exp of a quadratic is Gaussian, N(estimate; z, 1/N + (std z)^2).
    std, z = 0.5, 0.8
    total = 1 / bounds.NUM_ROWS + (std * z) ** 2
    log_mean = -0.5 * (np.log(bounds.NUM_ROWS * total) + (bounds.ESTIMATE - z) ** 2 / total)
    mean = -0.5 * bounds.NUM_ROWS * ((bounds.ESTIMATE - z) ** 2 + (std * z) ** 2)
    assert bounds.expanded_gap(sx.Gaussian(std), z) == pytest.approx(log_mean - mean, rel=1e-9)
    # Bernoulli: two points.
    off, on = (-0.5 * bounds.NUM_ROWS * (bounds.ESTIMATE - z * xi) ** 2 for xi in (0, 1))
    log_mean = np.log(0.3 * np.exp(off) + 0.7 * np.exp(on))
    expected = log_mean - (0.3 * off + 0.7 * on)
    assert bounds.expanded_gap(sx.Bernoulli(0.7), z) == pytest.approx(expected, rel=1e-9)
    # The bound itself is where its gap is asked for: no weight has a higher one.
    for mixture in (sx.InverseGamma(3.0, 3.0), sx.Uniform(0.5, 1.5)):
        assert 0 < bounds.hierarchical_gap(mixture) < bounds.hierarchical_gap(mixture, 3.0)


@pytest.mark.parametrize(
    ("mixture", "power", "moment"),
    [
        (sx.InverseGamma(3.0, 2.0), -4, 3.0 * 4.0 / 4.0),
        (sx.Uniform(0.5, 1.5), -2, 1 / 0.75),
        (sx.Beta(5.0, 1.0), -4, 5.0),
        (sx.Beta(3.0, 1.0), -4, math.inf),
        (sx.HalfCauchy(1.0), 2, math.inf),
        (sx.Gaussian(0.5), 4, 1 + 6 * 0.25 + 3 * 0.0625),
    ],
)
def test_moments_by_quadrature(mixture, power, moment):
    assert Noise(mixture).moment(power) == pytest.approx(moment, rel=1e-8)
