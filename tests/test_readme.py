"""The README's code runs as written."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_there_is_an_example():
    assert BLOCKS
    assert len(README.read_text().splitlines()) < 120


@pytest.mark.parametrize("block", BLOCKS)
def test_example_runs(block, tmp_path):
    # As a reader would run it: a process of its own, without the strictness of the tests.
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
