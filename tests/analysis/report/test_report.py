"""The report as text: what it says, in which order, to whom, and that it asks for nothing."""

import dataclasses
import itertools
import re
from html.parser import HTMLParser
from importlib import resources
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from scalemix.analysis.evaluation import MEASURES
from scalemix.analysis.learning_curve import Curve
from scalemix.analysis.numbers import as_cell, number
from scalemix.analysis.report import Story, build_report, write_report
from scalemix.analysis.report.columns import _with_error
from scalemix.analysis.report.effects import _which, effects
from scalemix.analysis.report.rows import advice, more, share_unknown, uncertain
from scalemix.analysis.report.study import Study
from scalemix.analysis.report.verdict import compare
from scalemix.analysis.report.words import describe_sizes
from scalemix.analysis.report.writing import summary
from scalemix.analysis.sizes import Sizes
from scalemix.likelihoods import (
    Beta,
    Gaussian,
    Independent,
    LogNormal,
    NegativeBinomial,
    RightCensored,
    Weibull,
)
from tests.analysis.report.stories import (
    HOSTILE,
    NAMES,
    SIZES,
    TEST,
    TRAIN,
    X,
    classification_page,
    make_story,
    regression_page,
    untrained_story,
)


class Page(HTMLParser):
    """Tags with their attributes, and the text between them."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def regression() -> Page:
    return Page(regression_page())


@pytest.fixture(scope="module")
def classification() -> Page:
    return Page(classification_page())


def test_it_is_one_well_formed_file_that_asks_for_nothing(regression, classification):
    for page in (regression, classification):
        assert page.open == []
        assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "object", "b"})
        for _, attributes in page.tags:
            assert not any(name.startswith("on") for name in attributes)
        for image in page.of("img"):
            assert (image["src"] or "").startswith("data:image/png;base64,")
        ids = {attributes["id"] for attributes in page.of("section")}
        assert {link["href"] for link in page.of("a")} == {f"#{name}" for name in ids}
        policy = page.of("meta")[1]
        assert (policy["content"] or "").startswith("default-src 'none'")


def test_users_text_is_text(regression, classification):
    for page in (regression, classification):
        assert f"A title with {HOSTILE}" in page.texts
        assert {NAMES[0], NAMES[1], NAMES[3]} <= set(page.texts)
    assert f"is {HOSTILE}" in classification.texts


def test_what_it_is_worth_comes_before_how_it_was_made(regression, classification):
    titles = [
        "How good it is", "Are its probabilities true?", "Which columns matter",
        "What the columns do", "Where it is least sure", "What more rows would bring",
        "The data", "The model", "How much of the network is needed", "Training",
        "Settings and versions",
    ]  # fmt: skip
    assert [text for text in regression.texts if text in titles] == 2 * titles
    assert "Which classes it tells apart" in classification.texts
    for name in ("rmse", "crps", "coverage"):
        assert MEASURES[name].meaning in regression.texts
    for name in ("brier", "auc"):
        assert MEASURES[name].meaning in classification.texts
    assert {"precision", "recall"} <= set(classification.texts)


def test_simpler_models_stand_beside(regression, classification):
    assert {"fit 0", "fit 1", "linear regression", "boosted trees"} <= set(regression.texts)
    assert {"this model", "logistic regression", "no model"} <= set(classification.texts)


def cells_after(page: Page, label: str, num: int) -> list[str]:
    """The cells that follow a label in its row of a table."""
    start = page.texts.index(label) + 1
    return [text for text in page.texts[start : start + 2 * num] if text.strip()][:num]


def test_the_confusion_table_has_what_was_in_its_rows(classification):
    story = make_story(classes=(HOSTILE, "no"))
    said = story.fits[0].posterior.predict(story.test[0]).mean.argmax(axis=1)
    counts = confusion_matrix(story.test[1], said)
    # Transposed, it would be another.
    assert counts[0, 1] != counts[1, 0]
    for name, row in zip((HOSTILE, "no"), counts, strict=True):
        assert cells_after(classification, f"is {name}", 2) == list(map(str, row))


def test_the_printed_figures_are_those_of_the_rows(regression, classification):
    x, y = X[TEST], X[TEST, 0]
    expected = []
    for fit in make_story(num_fits=2).fits:
        error = np.sqrt(np.mean((fit.posterior.predict(x).mean - y) ** 2))
        expected.append(f"{error:.4g}")
    line = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13)))
    line.fit(X[TRAIN], X[TRAIN, 0])
    expected.append(f"{np.sqrt(np.mean((line.predict(x) - y) ** 2)):.4g}")
    assert cells_after(regression, "RMSE", 3) == expected
    is_no = y > 0
    probability = make_story(classes=(HOSTILE, "no")).fits[0].posterior.predict(x).mean[:, 1]
    right = np.mean((probability > 0.5) == is_no)
    assert cells_after(classification, "accuracy", 1) == [f"{right:.1%}"]
    assert cells_after(classification, "AUC", 1) == [f"{roc_auc_score(is_no, probability):.3f}"]
    # No model says what most rows of training are, in the table and in the summary alike.
    usual = np.mean(is_no == (np.mean(X[TRAIN, 0] > 0) > 0.5))
    assert cells_after(classification, "accuracy", 4)[-1] == f"{usual:.1%}"
    assert any(f"(no model: {usual:.1%})" in text for text in classification.texts)


def test_each_column_of_the_table_has_one_row(regression):
    start = regression.texts.index("column")
    end = next(
        i for i, text in enumerate(regression.texts) if text.startswith("Importance is about")
    )
    rows = regression.texts[start:end]
    assert [rows.count(name) for name in (NAMES[0], NAMES[1], NAMES[3])] == [1, 1, 1]
    shares = [float(text[:-1]) for text in rows if re.fullmatch(r"[\d.]+%", text)]
    # Of each of two fits they add up to one, but for rounding.
    assert sum(shares) == pytest.approx(200, abs=0.4)
    assert any(re.fullmatch(r"-?[\d.]+ ± [\d.]+", text) for text in rows)


def test_it_can_be_heard_and_walked_through(regression, classification):
    """What a screen reader, a keyboard and a phone need; `test_browser` tries it in a browser."""
    for page in (regression, classification):
        levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        assert page.of("html")[0]["lang"] == "en"
        assert page.of("meta")[2]["content"] == "width=device-width, initial-scale=1"
        alts = [image["alt"] or "" for image in page.of("img")]
        assert all(len(alt) > 20 for alt in alts)
        # What scrolls can be reached, and has a name; so has every table.
        regions = [about for about in page.of("div") if about.get("class") == "scroll"]
        assert len(regions) >= len(page.of("table"))
        for about in regions:
            assert (about["tabindex"], about["role"]) == ("0", "region")
            assert about["aria-label"]
        assert all(about["aria-label"] for about in page.of("table"))
        assert all(about.get("scope") in ("row", "col") for about in page.of("th"))
        assert len(page.of("main")) == len(page.of("nav")) == len(page.of("header")) == 1
        # Nothing is taken out of the order of the page.
        assert all(about.get("tabindex", "0") == "0" for _, about in page.tags)
    style = resources.files("scalemix.analysis.report").joinpath("style.css").read_text("utf-8")
    # Only what scrolls by itself may be wider than a phone.
    wide = [float(width) for width in re.findall(r"min-width: ([\d.]+)rem", style)]
    assert sorted(wide)[-2] < 20
    assert "img.wide { min-width" in style


def test_without_rows_to_test_it_says_so(tmp_path):
    path = tmp_path / "report.html"
    write_report(path, make_story(tested=False))
    page = Page(path.read_text(encoding="utf-8"))
    assert "No rows were held out: nothing is known." in page.texts
    assert len(page.of("img")) == 2
    assert list(tmp_path.iterdir()) == [path]


RATE = np.exp(0.5 * X[:, 0])
KINDS = {
    "count": (NegativeBinomial(), np.floor(3 * RATE), "Poisson regression"),
    "positive": (LogNormal(), RATE, "gamma regression"),
    "share": (Beta(), RATE / (1 + RATE), "linear regression"),
    "time": (RightCensored(Weibull()), RATE * np.sign(X[:, 1]), "not observed to the end"),
    "several": (
        Independent(Gaussian(), 2),
        np.stack([RATE, -1e3 * RATE], axis=1),
        "linear regression",
    ),
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=pytest.mark.slow) if k in ("positive", "share") else k for k in KINDS],
)
def test_every_kind_of_target_has_a_report(kind):
    likelihood, y, said = KINDS[kind]
    targets = ("rent", "heat") if kind == "several" else ()
    story = untrained_story(likelihood, y, targets)
    page = Page(build_report(story))
    assert any(said in text for text in page.texts)
    assert "Where it is least sure" in page.texts
    pictures = {"time": 2, "several": 6}.get(kind, 4)
    assert len(page.of("img")) >= pictures
    # There is one fit, and nothing to tell it from.
    assert not any("The fit" in (image["alt"] or "") for image in page.of("img"))
    if kind == "several":
        check_that_targets_are_named(page, story)
    if kind == "time":
        assert "concordance" in page.texts
        assert cells_after(page, "log-likelihood", 2)[1] == (
            f"{story.fits[0].figures['baseline_log_likelihood']:.4g}"
        )


def check_that_targets_are_named(page: Page, story: Story) -> None:
    """Each has figures in its own unit, and pictures with its name; no unit has a mean."""
    x, y = story.test
    errors = np.sqrt(np.mean((story.fits[0].posterior.predict(x).mean - y) ** 2, axis=0))
    shown = [MEASURES["rmse"].show(error) for error in errors]
    assert [cells_after(page, name, 1)[0] for name in ("rent", "heat")] == shown
    assert cells_after(page, "together", 2) == ["–", "–"]
    alts = [image["alt"] or "" for image in page.of("img")]
    for name in ("rent. ", "heat. "):
        assert sum(alt.startswith(name) for alt in alts) == 2
    assert any(text.endswith("lie in their 90% intervals.") for text in page.texts)
    assert not any("1 of 2" in text for text in page.texts)


def test_a_reader_learns_when_it_is_not_worth_it():
    """The target is a line, and twenty rows are enough to see large differences from it."""
    story = make_story(num_fits=2)
    y = story.test[1]
    caveat = "With so few rows, only large differences show."

    def said_of(predicted: np.ndarray) -> str:
        study = Study(story)
        study.predictives = [SimpleNamespace(mean=predicted)] * 2
        return compare(study)

    useless = said_of(np.full(len(y), np.mean(story.train[1])))
    assert useless.startswith("Fit 1 predicts these 20 rows no better than no model does")
    assert "Do not rely on it." in useless
    middling = said_of(y + 0.3 * (-1) ** np.arange(len(y)))
    assert middling.startswith("Not worth it for its predictions alone: these rows are predicted")
    assert "better by linear regression (" in middling
    perfect = said_of(y + 1e-9)
    assert perfect.startswith("Fit 1 predicts these rows better")
    assert all(said.endswith(caveat) for said in (useless, middling, perfect))
    # It explains much of the variance, but for one row that undoes most of the gain.
    undone = 0.6 * y + 0.4 * np.mean(y)
    undone[np.argmax(np.abs(y))] = -0.6 * y[np.argmax(np.abs(y))]
    study = Study(story)
    study.baselines = study.baselines._replace(fitted=study.baselines.fitted[:1])
    study.predictives = [SimpleNamespace(mean=undone)] * 2
    (nothing,) = study.baselines.fitted
    assert np.mean((y - undone) ** 2) < nothing.losses.mean()
    assert "but 20 rows are too few to tell whether it is better on others, too" in compare(study)
    assert "rely" not in compare(study)
    alone = dataclasses.replace(story, train=None)
    assert "not known here" in compare(Study(alone))


def test_of_four_rows_nothing_is_said():
    story = make_story(num_fits=2)
    few = dataclasses.replace(story, test=tuple(part[:4] for part in story.test))
    assert (
        compare(Study(few))
        == "4 rows are too few to tell whether fit 1 is better than simpler ones."
    )


def test_no_model_knows_the_commonest_class_of_training():
    """And not that of the rows it is tested on, which may be another."""
    story = make_story(classes=(HOSTILE, "no"))
    common = int(np.mean(story.train[1]) > 0.5)
    other = story.test[1] != common
    turned = dataclasses.replace(story, test=tuple(part[other] for part in story.test))
    assert summary(Study(turned)).endswith("of the time (no model: 0.0%).")


def test_a_target_in_small_units_counts_as_much_as_another():
    shares = np.array([0.5, 0.1])
    std = np.array([[1.0, 1e3], [2.0, 3e3]])
    np.testing.assert_allclose(share_unknown(std, std * np.sqrt(shares)), shares)
    # The rows that are told of have the share of the first target, though the other is larger.
    study = Study(untrained_story(*KINDS["several"][:2]))
    std = np.tile([1.0, 1e3], (20, 1))
    zeros = np.zeros((20, 2))
    study.predictives = [SimpleNamespace(mean=zeros, std=std, epistemic=std * np.sqrt(shares))]
    study.interval, study.leading, study.curves = (zeros, zeros), [], []
    told = "".join(uncertain(study).itertext())
    assert told.count("50%") == 8
    assert "10%" not in told
    assert "30% of the variance of the predictions, on average" in "".join(more(study).itertext())


def test_a_target_that_looks_like_another_kind_is_remarked_on():
    """As `fit` does, and only where intervals reach beyond what the target can be."""

    def said_of(lower: float, y: np.ndarray) -> str:
        study = Study(dataclasses.replace(make_story(num_fits=2), train=(X[TRAIN], y)))
        study.interval = np.full(20, lower), np.full(20, 5.0)
        return study.other_kind

    amounts = np.exp(1.5 * X[TRAIN, 0])
    said = said_of(-1.0, amounts)
    assert (
        "with --target-kind positive (in Python target='positive') they do not. Here 20 of" in said
    )
    assert said_of(0.1, amounts) == said_of(-1.0, X[TRAIN, 0]) == ""
    assert "--target-kind share" in said_of(0.1, 1 / (1 + amounts))


def test_it_says_why_some_effects_are_drawn():
    study = Study(make_story(num_fits=2))
    assert _which(study, 2, 2).startswith(
        "Of 3 columns, the 2 that are important beyond chance are"
    )
    assert "The first 6 of them are drawn" in _which(study, 8, 6)
    assert _which(study, 1, 1).endswith("one is important beyond chance, and it is drawn.")


def test_effects_on_all_of_several_targets_are_drawn():
    likelihood, y, _ = KINDS["several"]
    study = Study(untrained_story(likelihood, y, ("rent", "heat")))
    num = len(study.measured)
    study.importances = [SimpleNamespace(is_sure=[True] * num, order=range(num))]
    page = Page(ElementTree.tostring(effects(study), encoding="unicode", method="html"))
    alts = [image["alt"] or "" for image in page.of("img")]
    for name in ("rent", "heat"):
        assert sum(f" on {name}: " in alt for alt in alts) == num
        assert any(alt.startswith(f"A map of the mean prediction of {name} by") for alt in alts)
    assert "What the columns do to heat" in page.texts
    assert any(text.endswith("come first, and below them those on heat.") for text in page.texts)
    many = SimpleNamespace(
        measured=[0], story=SimpleNamespace(classes=None), num_targets=6, target_names="abcdef"
    )
    assert _which(many, 1, 1).endswith(
        "on a come first, and below them those on b, c, d. Those on e, f are not drawn; in Python, "
        "plots.effect draws them."
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [(999.7, "1,000"), (1234567.0, "1,234,567"), (0.012345, "0.0123"), (-45678.0, "-45,678")],
)
def test_numbers_have_no_powers_of_ten(value, shown):
    assert number(value) == shown


def test_years_have_no_commas_and_nothing_is_known_beyond_the_error():
    assert [as_cell(v) for v in (np.int64(1967), 25000.0, "Ulm", True)] == [
        "1967", "25,000", "Ulm", "True",
    ]  # fmt: skip
    assert _with_error(157177.0, 72184.0) == "157,000 ± 72,000"
    assert _with_error(-0.00012, 0.034) == "0.000 ± 0.034"


def curve(name: str, *errors: float, gains: tuple[float, float]) -> Curve:
    return Curve(name, np.array([50, 100, 200]), np.array(errors), np.zeros(3), gains)


@pytest.mark.parametrize(
    ("share", "gains", "said"),
    [
        (0.03, [(0.2, 0.4), (-0.1, 0.3)], "help, more than the model's own account says."),
        (0.5, [(0.2, 0.4), (-0.1, 0.3)], "More rows should still help."),
        (0.03, [(-0.02, 0.02), (0.1, 0.4)], "but trees still learns from more rows"),
        (0.03, [(-0.02, 0.02), (-0.1, 0.5)], "may well help, though"),
        (0.03, [(-0.5, 0.5), (-0.02, 0.02)], "too few to tell"),
        (0.03, [(-0.02, 0.02), (0.01, 0.03)], "will hardly help"),
        (0.5, [(-0.02, 0.02), (0.01, 0.03)], "more rows may help it"),
    ],
)
def test_advice_follows_from_the_curves_and_from_what_is_not_known(share, gains, said):
    curves = [
        curve("line", 3.0, 1.52, 1.5, gains=gains[0]),
        curve("trees", 4.0, 3.0, 2.0, gains=gains[1]),
    ]
    assert said in advice(curves, share)


def test_nothing_is_said_to_be_removable_where_nothing_is_off():
    on = Sizes(hidden={"a": 6}, units={"a": (6, 6)}, parameters=(50, 50), change=0.0)
    assert "nothing can be removed" in describe_sizes(on)
    assert list(on.in_words()) == ["units on before a", "parameters of a network"]
    assert "take away 60% of the parameters" in describe_sizes(SIZES)
    # What counts for little may still matter: 3% of the spread is no small change.
    said = describe_sizes(SIZES, "8 rows of a.csv")
    assert "would change by up to 3.0% of their spread (measured on 8 rows of a.csv" in said
    assert "not free to go" in said
    small = describe_sizes(dataclasses.replace(SIZES, change=0.01))
    assert "by no more than 1.0% of their spread." in small
    assert "not free to go" not in small
    stays = dataclasses.replace(SIZES, stored=(50, 50))
    assert "a file would stay as large" in describe_sizes(stays)
    assert stays.in_words()["parameters after pruning, zeros included"] == "50"
    # Networks differ, and have whole units.
    assert SIZES.in_words()["units on before layers.1"] == "3 to 4 of 6"
    assert "none of them could be taken out" in describe_sizes(
        dataclasses.replace(SIZES, parameters=(50, 50))
    )
