"""The commands that the documentation shows are commands that there are."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from scalemix.cli.app import app

ROOT = Path(__file__).parents[2]
BLOCKS = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
LINES = [
    pytest.param(line, id=f"{page.name}: {line[:60]}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for block in BLOCKS.findall(page.read_text(encoding="utf-8"))
    for line in block.splitlines()
    if line.startswith("scalemix ")
]


def test_the_page_of_the_command_line_shows_commands():
    assert sum("command-line" in str(line.id) for line in LINES) >= 10


@pytest.mark.parametrize("line", LINES)
def test_a_command_is_one(line):
    # Click refuses options that there are not, and missing ones, before anything runs.
    words = shlex.split(re.split(r"\s[<>|]\s", line)[0], comments=True)[1:]
    group: Any = typer.main.get_command(app)
    command = group.commands[words[0]]
    context = command.make_context(words[0], words[1:])
    assert context.params
