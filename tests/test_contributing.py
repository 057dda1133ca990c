"""What CONTRIBUTING tells people to touch is there."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from tests.test_api import PUBLIC_PATHS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "scalemix"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
SECTIONS = dict(
    re.findall(r"^## (Add .*?)\n(.*?)(?=^## |\Z)", TEXT, flags=re.DOTALL | re.MULTILINE)
)
QUOTED = [
    (title, quoted)
    for title, text in SECTIONS.items()
    for quoted in dict.fromkeys(re.findall(r"`([^`\n]+)`", text))
]
PATHS = [pair for pair in QUOTED if "/" in pair[1] or pair[1].endswith((".py", ".md", ".toml"))]
# Anything else that is quoted, such as a command, is neither a path nor a name.
NAMES = [pair for pair in QUOTED if pair not in PATHS and re.fullmatch(r"[\w.]+", pair[1])]


def defined_in_package() -> dict[str, set[str]]:
    """All names that the package defines, each with the names that are defined inside it."""
    inside: dict[str, set[str]] = {}

    def collect(body: list[ast.stmt], owner: str | None) -> None:
        for statement in body:
            names = []
            if isinstance(statement, ast.ClassDef | ast.FunctionDef):
                names = [statement.name]
            elif isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = getattr(statement, "targets", None) or [statement.target]
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            for name in names:
                inside.setdefault(name, set())
                if owner is not None:
                    inside[owner].add(name)
            if isinstance(statement, ast.ClassDef):
                collect(statement.body, statement.name)

    for path in PACKAGE.rglob("*.py"):
        collect(ast.parse(path.read_text()).body, None)
    return inside


DEFINED = defined_in_package()


def test_everything_that_can_be_added_has_a_section():
    kinds = ("scale mixture", "structure", "layer rule", "likelihood", "engine", "estimator option")
    for what in kinds:
        assert any(what in title for title in SECTIONS), what


# Where users import from.
EXPORTED = {"_api.py", *(f"{path.removeprefix('scalemix.')}/__init__.py" for path in PUBLIC_PATHS)}


@pytest.mark.parametrize("section", sorted({title for title, path in PATHS if path in EXPORTED}))
def test_what_is_exported_is_listed_in_the_reference(section):
    assert re.search(r"list it in `docs/reference/\w+\.md`", SECTIONS[section])


@pytest.mark.parametrize(("section", "path"), PATHS)
def test_a_file_to_touch_exists(section, path):
    assert (ROOT / path).exists() or (PACKAGE / path).exists()


@pytest.mark.parametrize(("section", "name"), NAMES)
def test_a_name_to_use_exists(section, name):
    first, *rest = name.split(".")
    if first == "scalemix":
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)
        return
    assert first in DEFINED
    for owner, member in zip([first, *rest], rest, strict=False):
        assert member in DEFINED[owner]
