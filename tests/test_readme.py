"""The README's code runs: in short fits, and among the slow tests as written."""

import re
from pathlib import Path

import pytest

from tests.pages import read_blocks, run_as_a_reader

pytestmark = pytest.mark.docs

README = Path(__file__).parent.parent / "README.md"
BLOCKS = [block.code for block in read_blocks(README)]


def test_there_is_an_example():
    assert BLOCKS
    assert README.read_text().count("```python") == len(BLOCKS)
    assert len(README.read_text().splitlines()) < 120


@pytest.mark.parametrize("block", BLOCKS)
def test_example_runs(block, tmp_path):
    run_as_a_reader(re.sub(r"steps=\d+", "steps=20", block), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in BLOCKS if "steps=" in block])
def test_example_runs_as_written(block, tmp_path):
    run_as_a_reader(block, tmp_path)
