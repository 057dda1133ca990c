"""Strict promotion everywhere: the cheapest filter of silent broadcasting and widening."""

import jax
import pytest

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def float64():
    """Oracles are compared in double precision."""
    with jax.enable_x64(True):
        yield
