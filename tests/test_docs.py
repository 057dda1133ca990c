"""The code of the documentation runs as written, page by page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {
    str(page.relative_to(DOCS)): "\n".join(
        re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    )
    for page in sorted(DOCS.rglob("*.md"))
}


def test_there_are_tutorials():
    assert sum("sx.fit(" in code for code in PAGES.values()) >= 4


@pytest.mark.parametrize("page", [page for page, code in PAGES.items() if code])
def test_page_runs(page, tmp_path):
    # As a reader would run it: a process of its own, without the strictness of the tests.
    done = subprocess.run(
        [sys.executable, "-c", PAGES[page]], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_pictures_that_are_shown_are_there():
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"!\[.*?\]\((.*?)\)", page.read_text(), flags=re.DOTALL):
            assert (page.parent / target).is_file(), f"{page.name} shows {target}"
