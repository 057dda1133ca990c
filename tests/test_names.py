"""Names say what they stand for."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# It tells that something was looked for, and not what.
SAYS_NOTHING = "found"


def bound_in(code: str) -> Iterator[tuple[int, str]]:
    """The names of variables, parameters, attributes, functions and classes, and their lines."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "a, (*found, b) = c",
        "self.found = 1",
        "class A:\n    found: int",
        "def f(a, *, found=None): pass",
        "lambda found: found",
        "[found for found in a]",
        "(found := 1)",
        "def found(): pass",
    ],
)
def test_all_ways_of_binding_are_seen(code):
    assert "found" in {name for _, name in bound_in(code)}


@pytest.mark.parametrize("folder", ["src", "benchmarks", "tests"])
def test_nothing_has_a_name_that_says_nothing(folder):
    places = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in bound_in(path.read_text(encoding="utf-8"))
        if name == SAYS_NOTHING
    ]
    assert places == [], f"{SAYS_NOTHING!r} does not say what it stands for"
