"""The code of the documentation runs as written, page by page, and prints what the page shows."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import (
    Block,
    as_script,
    at_small_size,
    is_shown,
    lend_data,
    read_blocks,
    run_as_a_reader,
    split_output,
)
from tests.test_api import PUBLIC_PATHS

pytestmark = pytest.mark.docs

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {str(page.relative_to(DOCS)): read_blocks(page) for page in sorted(DOCS.rglob("*.md"))}


def test_there_are_tutorials():
    fits = [page for page, blocks in PAGES.items() if any("sx.fit(" in b.code for b in blocks)]
    assert len(fits) >= 4


def test_no_block_is_overlooked():
    for page, blocks in PAGES.items():
        text = (DOCS / page).read_text()
        assert text.count("```python") == len(blocks), page
        assert text.count("```text") == sum(bool(block.shown) for block in blocks), page


def run_page(page, blocks, folder):
    """Numbers count where the page runs at its own size."""
    lend_data(DOCS / page, folder)
    output = split_output(run_as_a_reader(as_script(blocks), folder))
    for block, printed in zip(blocks, output, strict=True):
        same = is_shown(printed, block.shown, numbers=blocks == PAGES[page])
        assert same, f"{block.code}\nprints\n{printed}"


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_page_runs_and_prints_what_it_shows(page, tmp_path):
    run_page(page, at_small_size(PAGES[page]), tmp_path)
    # A picture that a page saves is one that it shows.
    for picture in tmp_path.glob("*.png"):
        assert f"images/{picture.name})" in (DOCS / page).read_text(), picture.name


# The other pages with two sizes take minutes at their own.
@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["tutorials/frames.md", "tutorials/mcmc.md", "tutorials/own-loop.md", "scaling.md"]
)
def test_page_prints_these_numbers(page, tmp_path):
    run_page(page, PAGES[page], tmp_path)


def test_names_are_there_in_a_process_that_has_imported_nothing_else():
    """Pages run where the tests may have imported modules that a page forgets to import."""
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    code = "\n".join(block.code for page in pages for block in read_blocks(page))
    names = sorted(set(re.findall(r"\bsx(?:\.[A-Za-z]\w*)+", code)))
    assert len(names) > 20
    program = "import scalemix as sx\n" + "\n".join(names)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("RMSE 0.62\n", "RMSE 0.75\n", True),
        ("RMSE 0.62\n", "RMSE 1.50\n", False),
        ("RMSE 0.62\n", "MAE 0.62\n", False),
        ("a 1\nb 2\n", "a 1\n", False),
        ("b 2\na 1\n", "a 1\nb 2\n", True),
        ("a   1\n", "a 1\n", True),
        ("7 of 1,200\n", "7 of 1,100\n", True),
        ("layers.0 1e-5\n", "layers.0 1e-5\n", True),
        ("layers.0 1e-5\n", "layers.1 1e-5\n", False),
        ("[0.001 0.98]\n", "[0.    0.99]\n", True),
        ("took 15.3 ms\n", "took ...\n", True),
        ("ESS 900 bulk, 10 tail\n", "ESS 906 bulk, ... tail\n", True),
        ("ESS 200 bulk, 10 tail\n", "ESS 906 bulk, ... tail\n", False),
        ("lost 15.3 ms\n", "took ...\n", False),
        ("", "", True),
        ("something\n", "", False),
    ],
)
def test_what_counts_as_shown(printed, shown, same):
    assert is_shown(printed, shown) is same


def test_at_small_size_words_still_count():
    assert is_shown("accuracy 0.11\n", "accuracy 0.97\n", numbers=False)
    assert not is_shown("accuracy 0.97\n", "log-loss 0.97\n", numbers=False)
    assert not is_shown("accuracy 0.97\nmore\n", "accuracy 0.97\n", numbers=False)


def test_what_tests_make_smaller():
    (block,) = at_small_size([Block("steps = 3000  # 10 in the tests\nrows = 5  # a few\n", "")])
    assert block.code == "steps = 10\nrows = 5  # a few\n"


def named(path):
    """What stands at a dotted path: a module, or something in one."""
    try:
        return importlib.import_module(path)
    except ImportError:
        owner, _, name = path.rpartition(".")
        return getattr(named(owner), name)


def in_the_reference():
    """The identities of all that the reference says something of."""
    told = set()
    for page in (DOCS / "reference").glob("*.md"):
        entries = re.findall(r"^::: ([\w.]+)\n((?:    .*\n)*)", page.read_text(), re.MULTILINE)
        for path, options in entries:
            thing = named(path)
            told.add(id(thing))
            listed = re.search(r"members: \[(.*)\]", options)
            members = re.findall(r"\w+", listed[1]) if listed else getattr(thing, "__all__", ())
            told |= {id(getattr(thing, name)) for name in members}
    return told


@pytest.mark.parametrize("path", ["scalemix", *PUBLIC_PATHS])
def test_the_reference_has_every_public_name(path):
    # By what it is and not by what it is called: there are two of the name Beta.
    told, module = in_the_reference(), named(path)
    missing = [name for name in module.__all__ if id(getattr(module, name)) not in told]
    # `Posterior.prune` says all there is to say of the function.
    assert missing == (["prune"] if path == "scalemix.pruning" else [])


def test_pictures_that_are_shown_are_there():
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"!\[.*?\]\((.*?)\)", page.read_text(), flags=re.DOTALL):
            assert (page.parent / target).is_file(), f"{page.name} shows {target}"
