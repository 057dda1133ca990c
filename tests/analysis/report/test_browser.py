"""The report in a browser: by eye, by ear, by keyboard, on a phone. Skipped without Chromium."""

import pytest

from tests.analysis.report.chromium import CHROMIUM, chromium
from tests.analysis.report.stories import HOSTILE, classification_page, regression_page

if CHROMIUM is None:
    # As a whole: one line of the summary says how to get it.
    pytest.skip(
        "no Chromium; on Debian: sudo apt-get install --no-install-recommends chromium",
        allow_module_level=True,
    )

PHONE = 360
# What the keyboard is at: its tag, and the words or the name of it.
AT = """(() => { const at = document.activeElement;
  return [at.tagName, at.getAttribute("aria-label") || at.textContent]; })()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    made = {"regression": regression_page(), "classification": classification_page()}
    for name, html in made.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in made}


def complaints(page):
    console = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
    return [said for said in page.events if said.get("method") in console]


def requests(page):
    asked = [said for said in page.events if said.get("method") == "Network.requestWillBeSent"]
    return [said["params"]["request"]["url"] for said in asked]


def test_errors_and_requests_would_be_noticed(page, tmp_path):
    noisy = tmp_path / "noisy.html"
    noisy.write_text("<script>console.error('boo')</script><img src='http://example.invalid/x'>")
    page.open(noisy, 1200)
    assert "boo" in str(complaints(page))
    assert "http://example.invalid/x" in requests(page)


@pytest.mark.parametrize("name", ["regression", "classification"])
def test_it_opens_without_errors_and_asks_for_nothing(page, files, name):
    page.open(files[name], 1200)
    assert complaints(page) == []
    assert {url.split(":")[0] for url in requests(page)} <= {"file", "data"}
    assert page.ask("[...document.images].every(image => image.naturalWidth > 0)")
    assert page.ask("document.scripts.length") == 0
    assert HOSTILE in page.ask("document.querySelector('h1').textContent")


@pytest.mark.parametrize("name", ["regression", "classification"])
@pytest.mark.parametrize("width", [1200, PHONE])
def test_nothing_sticks_out_to_the_right(page, files, name, width):
    page.open(files[name], width, phone=width == PHONE)
    assert page.ask("document.documentElement.scrollWidth") <= width
    # Words are no smaller than one can read, and what is wide scrolls by itself.
    sizes = "[...document.querySelectorAll('p, td, th, li')].map(e => getComputedStyle(e).fontSize)"
    assert min(float(size[:-2]) for size in page.ask(sizes)) >= 13


def test_the_first_screen_says_what_it_is_worth(page, files):
    """Headline, comparison, figures and picture begin within a window of 1280 by 800."""
    page.open(files["regression"], 1280)
    top = "document.querySelector('{}').getBoundingClientRect()"
    for part in ("h1", "#figures .note", "#figures table", "#figures img"):
        assert page.ask(f"{top.format(part)}.top") < 500, part
    assert page.ask(f"{top.format('#figures img')}.bottom") < 800


def test_it_can_be_walked_through_by_keyboard(page, files):
    page.open(files["regression"], PHONE, phone=True)
    page.press("Tab", 9)
    assert page.ask(AT) == ["A", "Skip to the figures"]
    page.press("Enter", 13)
    assert page.ask("location.hash") == "#figures"
    page.open(files["regression"], PHONE, phone=True)
    reachable = "[...document.querySelectorAll('a, summary, [tabindex]')]"
    hidden = ".filter(e => !e.closest('details') || e.tagName === 'SUMMARY')"
    num = page.ask(f"{reachable}{hidden}.length")
    met = []
    for _ in range(num):
        page.press("Tab", 9)
        met.append(page.ask(AT))
        outline = page.ask("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", met[-1]
    wanted = page.ask(
        f'{reachable}{hidden}.map(e => [e.tagName, e.getAttribute("aria-label") || e.textContent])'
    )
    assert met == wanted
    # A table that is wider than a phone goes to the side by the arrow keys.
    page.ask("document.querySelector('#figures .scroll').focus()")
    assert page.ask("document.activeElement.scrollWidth > document.activeElement.clientWidth")
    for _ in range(3):
        page.press("ArrowRight", 39)
    page.ask("new Promise(done => setTimeout(done, 300))")
    moved = "document.querySelector('#figures .scroll').scrollLeft"
    assert any(page.ask(moved) > 0 for _ in range(200))
    page.ask("document.querySelector('summary').focus()")
    page.press("Enter", 13)
    assert page.ask("document.querySelector('details').open")


@pytest.mark.parametrize("name", ["regression", "classification"])
def test_it_can_be_heard(page, files, name):
    page.open(files[name], 1200)
    told = page.heard()
    roles = {role for role, _, _ in told}
    assert {"banner", "navigation", "main", "contentinfo", "table", "link"} <= roles
    for role, called, _ in told:
        if role in ("image", "table", "link", "heading", "region", "DisclosureTriangle"):
            assert called.strip(), role
    headings = [called for role, called, level in told if role == "heading" and level == 2]
    links = [called for role, called, _ in told if role == "link"][1:]
    assert sorted(links) == sorted(headings)
    # Cells are told with the heads of their rows and columns.
    assert sum(role == "rowheader" for role, _, _ in told) > 10
    assert sum(role == "columnheader" for role, _, _ in told) > 5
