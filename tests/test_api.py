"""The package's own names, and what importing it costs."""

import subprocess
import sys

import scalemix
from scalemix import _api


def test_every_public_name_is_there_and_listed_once():
    assert scalemix.__all__ == _api.__all__
    assert len(set(scalemix.__all__)) == len(scalemix.__all__)
    for name in scalemix.__all__:
        assert getattr(scalemix, name) is getattr(_api, name)
    assert set(scalemix.__all__) <= set(dir(scalemix))


def test_jax_waits_until_a_name_is_asked_for():
    code = (
        "import sys, scalemix, scalemix.tables; assert 'jax' not in sys.modules; "
        "scalemix.ARD, scalemix.posterior.storage; assert 'jax' in sys.modules; "
        "assert not hasattr(scalemix, 'nothing') and not hasattr(scalemix, '__wrapped__')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
