"""The README's code runs as written."""

from pathlib import Path

import pytest

from tests.pages import read_blocks, run_as_a_reader

README = Path(__file__).parent.parent / "README.md"
BLOCKS = [block.code for block in read_blocks(README)]


def test_there_is_an_example():
    assert BLOCKS
    assert README.read_text().count("```python") == len(BLOCKS)
    assert len(README.read_text().splitlines()) < 120


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("block", BLOCKS)
def test_example_runs(block, tmp_path):
    run_as_a_reader(block, tmp_path)
