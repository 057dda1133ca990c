"""The report in a browser; skipped where there is no Chromium."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from scalemix.analysis.report import write_report
from tests.analysis.report.stories import HOSTILE, make_story

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no Chromium; on Debian: sudo apt-get install --no-install-recommends chromium",
)


class Opened(NamedTuple):
    dom: str
    console: list[str]
    requests: list[str]
    """What the page asked for; the browser's own errands are not its doing."""


def open_page(page: Path, *options: str) -> Opened:
    log = page.with_suffix(".net")
    ran = subprocess.run(
        [
            str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--enable-logging=stderr",
            f"--user-data-dir={page.parent / 'profile'}", f"--log-net-log={log}", *options,
            page.as_uri(),
        ],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    console = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    said = [event.get("params", {}) for event in json.loads(log.read_text())["events"]]
    own = (None, "not an origin")
    requests = [p["url"] for p in said if "url" in p and p.get("initiator") not in own]
    return Opened(ran.stdout, console, requests)


def test_errors_and_requests_would_be_noticed(tmp_path):
    page = tmp_path / "noisy.html"
    page.write_text("<script>console.error('boo')</script><img src='http://example.invalid/x'>")
    opened = open_page(page, "--dump-dom")
    assert "boo" in opened.console[0]
    assert opened.requests == ["http://example.invalid/x"]


def test_the_report_opens_without_errors_and_asks_for_nothing(tmp_path):
    page = tmp_path / "report.html"
    write_report(page, make_story(num_fits=2))
    opened = open_page(page, "--dump-dom")
    assert opened.console == []
    assert opened.requests == []
    assert "Which inputs matter" in opened.dom
    assert HOSTILE not in opened.dom


@pytest.mark.parametrize("width", [1200, 400])
def test_the_report_fits_the_width_of_the_window(tmp_path, width):
    """A copy with a script that measures: nothing sticks out to the right."""
    page = tmp_path / "report.html"
    write_report(page, make_story(classes=(HOSTILE, "no")))
    html = page.read_text(encoding="utf-8")
    measure = "<script>document.title = document.documentElement.scrollWidth</script></body>"
    page.write_text(
        html.replace("http-equiv", "data-was").replace("</body>", measure), encoding="utf-8"
    )
    opened = open_page(page, "--dump-dom", f"--window-size={width},800")
    title = opened.dom.split("<title>")[1].split("</title>")[0]
    # Chromium's window is at least 500 wide.
    assert int(title) <= max(width, 500)
