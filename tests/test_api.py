"""The package's own names, and what importing it costs."""

import importlib.metadata
import subprocess
import sys

import scalemix
from scalemix import _api

# Where each can be imported from, whatever room it lives in: user code has these paths.
PUBLIC_PATHS = {
    "scalemix.bases": "Laplace",
    "scalemix.data": "load",
    "scalemix.inference": "lower_bound",
    "scalemix.likelihoods": "Gaussian",
    "scalemix.metrics": "rmse",
    "scalemix.mixtures": "HalfCauchy",
    "scalemix.networks": "MLP",
    "scalemix.plots": "calibration",
    "scalemix.posterior": "History",
    "scalemix.pruning": "Pruned",
    "scalemix.recipes": "Recipe",
    "scalemix.relevance": "Relevance",
    "scalemix.sklearn": "ScaleMixRegressor",
    "scalemix.storage": "load",
    "scalemix.structures": "ARD",
}


def run(code: str) -> None:
    """Run code in a process in which nothing has been imported yet."""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


def test_every_public_name_is_there_and_listed_once():
    assert scalemix.__all__ == _api.__all__
    assert len(set(scalemix.__all__)) == len(scalemix.__all__)
    for name in scalemix.__all__:
        assert getattr(scalemix, name) is getattr(_api, name)
    assert set(scalemix.__all__) <= set(dir(scalemix))


def test_every_public_path_can_be_imported_by_itself():
    # Each comes first in a state without any scalemix, so that none leans on another's imports.
    # Each file is compiled once, also where Python keeps no bytecode.
    run(
        "import functools, importlib, sys\n"
        "from importlib.machinery import SourceFileLoader\n"
        "compiled = SourceFileLoader.get_code\n"
        "once = functools.cache(lambda path, name: compiled(SourceFileLoader(name, path), name))\n"
        "SourceFileLoader.get_code = lambda loader, name: once(loader.path, name)\n"
        f"for path, name in {PUBLIC_PATHS}.items():\n"
        "    for module in [m for m in sys.modules if m.partition('.')[0] == 'scalemix']:\n"
        "        del sys.modules[module]\n"
        "    module = importlib.import_module(path)\n"
        "    assert hasattr(module, name), (path, name)\n"
        "    assert name in getattr(module, '__all__', [name]), (path, name)\n"
    )


def test_jax_waits_until_a_name_is_asked_for():
    run(
        "import sys, scalemix, scalemix.tables; assert 'jax' not in sys.modules; "
        "assert scalemix.__version__ and 'jax' not in sys.modules; "
        "scalemix.ARD, scalemix.posterior.storage; assert 'jax' in sys.modules; "
        "assert not hasattr(scalemix, 'nothing') and not hasattr(scalemix, '__wrapped__')"
    )


def test_the_library_does_without_its_extras():
    extras = ["arviz", "blackjax", "matplotlib", "pandas", "pyarrow", "rich", "sklearn", "typer"]
    run(
        f"import sys; sys.modules.update(dict.fromkeys({extras})); import scalemix as sx\n"
        "[getattr(sx, name) for name in sx.__all__]\n"
        "import scalemix.recipes, scalemix.pruning, scalemix.relevance, scalemix.storage\n"
        "try: import scalemix.sklearn\n"
        "except ImportError as error: assert 'scalemix[sklearn]' in str(error)\n"
        "else: raise AssertionError\n"
    )


def test_the_version_is_the_one_that_is_installed():
    assert scalemix.__version__ == importlib.metadata.version("scalemix")


def test_warnings_can_be_filtered_by_name():
    names = [name for name in scalemix.__all__ if name.endswith("Warning")]
    assert len(names) == 5
    assert all(issubclass(getattr(scalemix, name), UserWarning) for name in names)
