"""The report as text: what it says, and that it asks for nothing."""

from html.parser import HTMLParser

import pytest

from scalemix.analysis.evaluation import MEASURES
from scalemix.analysis.report import build_report, write_report
from tests.analysis.report.stories import HOSTILE, NAMES, make_story


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
    return Page(build_report(make_story(num_fits=2)))


@pytest.fixture(scope="module")
def classification() -> Page:
    return Page(build_report(make_story(classes=(HOSTILE, "no"))))


def test_it_is_one_well_formed_file_that_asks_for_nothing(regression, classification):
    for page in (regression, classification):
        assert page.open == []
        assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "iframe", "object", "b"})
        for _, attributes in page.tags:
            assert not any(name.startswith("on") for name in attributes)
        for image in page.of("img"):
            assert (image["src"] or "").startswith("data:image/png;base64,")
            assert image["alt"]
        ids = {attributes["id"] for attributes in page.of("section")}
        assert {link["href"] for link in page.of("a")} == {f"#{name}" for name in ids}
        policy = page.of("meta")[1]
        assert (policy["content"] or "").startswith("default-src 'none'")


def test_users_text_is_text(regression, classification):
    for page in (regression, classification):
        assert f"A title with {HOSTILE}" in page.texts
        assert set(NAMES) <= set(page.texts)
    assert f"is {HOSTILE}" in classification.texts


def test_it_tells_all_that_was_found(regression, classification):
    titles = [
        "The data", "The model", "How good it is", "Are its probabilities true?",
        "Predictions and what happened", "Which inputs matter",
        "How much of the network is needed", "Training", "Settings and versions",
    ]  # fmt: skip
    assert [text for text in titles if text in regression.texts] == titles
    # For each of two fits: calibration, intervals, relevance, weights and history.
    assert len(regression.of("img")) == 10
    assert "Predictions and what happened" not in classification.texts
    assert len(classification.of("img")) == 4
    for name in ("rmse", "crps", "coverage"):
        assert MEASURES[name].meaning in regression.texts
    assert MEASURES["brier"].meaning in classification.texts


def test_the_confusion_table_counts_every_row(classification):
    start = classification.texts.index(f"is {HOSTILE}")
    cells = [text for text in classification.texts[start : start + 6] if text.isdigit()]
    assert sum(map(int, cells)) == 20


def test_without_rows_to_test_it_says_so(tmp_path):
    path = tmp_path / "report.html"
    write_report(path, make_story(tested=False))
    page = Page(path.read_text(encoding="utf-8"))
    assert "No rows were held out: nothing is known." in page.texts
    assert len(page.of("img")) == 2
    assert list(tmp_path.iterdir()) == [path]
