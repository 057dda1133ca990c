"""The examples of docstrings run as written, and everything public has some."""

import dataclasses
import doctest
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from tests.pages import as_a_reader

pytestmark = pytest.mark.docs

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Programs, not libraries: the documentation shows how they are called.
PROGRAMS = ("scalemix.cli", "scalemix.reproduce")


def all_modules() -> list[ModuleType]:
    modules = pkgutil.walk_packages(sx.__path__, "scalemix.")
    names = [module.name for module in modules if not module.name.startswith(PROGRAMS)]
    return [sx, *map(importlib.import_module, names)]


def docstrings(module: ModuleType) -> Iterator[tuple[str, str]]:
    """The docstrings that a module writes itself, by name: its own, its functions', its classes'.

    The finder of `doctest` does not see methods of Equinox's modules, nor compiled functions.
    """
    yield module.__name__, module.__doc__ or ""
    for name, thing in vars(module).items():
        if getattr(thing, "__module__", None) != module.__name__ or not callable(thing):
            continue
        yield f"{module.__name__}.{name}", thing.__doc__ or ""
        if inspect.isclass(thing):
            for attribute in vars(thing):
                member = getattr(thing, attribute, None)
                properties = (property, functools.cached_property)
                if isinstance(member, properties) or inspect.isroutine(inspect.unwrap(member)):
                    yield f"{module.__name__}.{name}.{attribute}", member.__doc__ or ""


EXAMPLES = {
    name: doc for module in all_modules() for name, doc in docstrings(module) if ">>> " in doc
}


@pytest.fixture(scope="session")
def names(tmp_path_factory):
    """What examples may use without saying where it comes from."""
    key = jax.random.key(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * rng.normal(size=40)
    net = eqx.nn.MLP(3, "scalar", 8, 2, key=key)
    model = sx.Model(net, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian())
    with as_a_reader(tmp_path_factory.mktemp("names")):
        post = sx.fit(model, x, y, sx.VariationalEM(steps=50), key=key)
    return {
        "sx": sx, "jax": jax, "jnp": jnp, "np": np, "eqx": eqx, "key": key, "x": x, "y": y,
        "net": net, "model": model, "post": post,
    }  # fmt: skip


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_they_show(name, names, tmp_path, monkeypatch):
    if "import nnx" in EXAMPLES[name]:
        pytest.importorskip("flax", reason="the example needs Flax: pip install flax")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    example = doctest.DocTestParser().get_doctest(EXAMPLES[name], dict(names), name, name, 0)
    said: list[str] = []
    with as_a_reader(tmp_path):
        failed, _ = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=said.append)
    assert not failed, "".join(said)


def test_methods_and_compiled_functions_are_not_overlooked():
    assert {name for name, _ in docstrings(importlib.import_module("scalemix.model.model"))} >= {
        "scalemix.model.model.Model", "scalemix.model.model.Model.draw",
    }  # fmt: skip


# ---------------------------------------------------------------- what is public is explained

MODULES = (
    "data", "likelihoods", "metrics", "mixtures", "networks", "plots", "pruning", "recipes",
    "relevance", "sklearn", "storage",
)  # fmt: skip

# The method of the same name, which is how it is called, says everything.
EXPLAINED_ELSEWHERE = {"scalemix.posterior.pruning.prune.prune"}


def public() -> dict[str, object]:
    """Public classes and functions by path, each once."""
    by_path: dict[str, object] = {}
    for module in (sx, *(importlib.import_module(f"scalemix.{name}") for name in MODULES)):
        for name in module.__all__:
            thing = getattr(module, name)
            error = inspect.isclass(thing) and issubclass(thing, Exception)
            if (inspect.isclass(thing) or inspect.isroutine(thing)) and not error:
                by_path.setdefault(f"{thing.__module__}.{thing.__qualname__}", thing)
    return {path: thing for path, thing in by_path.items() if path not in EXPLAINED_ELSEWHERE}


PUBLIC = public()


def sections(doc: str) -> dict[str, str]:
    """The sections of a docstring as numpydoc has them: a title underlined by dashes."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", inspect.cleandoc(doc), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def explained(text: str) -> set[str]:
    """The names that a section explains, each or several together at the margin."""
    lines = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) ?(?::.*)?$", text, flags=re.MULTILINE)
    return {name.strip("* ") for line in lines for name in line.split(",")}


@pytest.mark.parametrize("path", PUBLIC)
def test_what_is_public_has_an_example_and_explains_its_parameters(path):
    thing = PUBLIC[path]
    parts = sections(thing.__doc__ or "")
    # What a caller gets and does not build has attributes.
    given = explained(parts.get("Parameters", "")) | explained(parts.get("Attributes", ""))
    fields = dataclasses.is_dataclass(thing) or getattr(thing, "_fields", None)
    only_read = "Attributes" in parts and "Parameters" not in parts and not fields
    parameters = set() if only_read else set(inspect.signature(thing).parameters) - {"self"}
    assert ">>> " in parts.get("Examples", ""), f"{path} has no Examples section"
    assert parameters <= given, f"{path} does not explain {sorted(parameters - given)}"


@pytest.mark.parametrize(
    ("doc", "names"),
    [
        ("Text.\n\nParameters\n----------\na : int\n    One.\nb, c : float\n    Two.", set("abc")),
        ("Text.\n\n    Parameters\n    ----------\n    a\n        One word.\n    *b\n", set("ab")),
        ("Parameters are not explained.", set()),
    ],
)
def test_what_counts_as_explained(doc, names):
    assert explained(sections(doc).get("Parameters", "")) == names
