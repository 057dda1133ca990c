"""How networks are compared, before and after a cut."""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from scalemix.networks.cutting.agreement import outputs, same_numbers


def test_networks_are_compared_in_full_precision():
    """Else a GPU, which rounds the factors of products, would find that they differ."""
    network = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    traced = jax.make_jaxpr(lambda rows: outputs(lambda net, x: net(x), network, rows))
    text = str(traced(jnp.ones((4, 3))))
    assert text.count("dot_general") == 1
    assert "Precision.HIGHEST" in text


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_numbers_of_few_digits_agree_up_to_their_rounding(dtype):
    """Also those that NumPy does not have. As a proof they must be the very same."""
    numbers = jnp.asarray([1.0, -0.5], dtype)
    rounded = numbers * (1 + jnp.finfo(dtype).eps)
    assert (rounded != numbers).all()
    assert same_numbers(numbers, rounded)
    assert not same_numbers(numbers, rounded, is_proof=True)
    assert same_numbers(numbers, numbers, is_proof=True)
    assert not same_numbers(numbers, numbers * 1.5)
    # Of single precision rounding hides nothing.
    numbers = numbers.astype(jnp.float32)
    assert same_numbers(numbers, numbers * (1 + 1e-6), is_proof=True)
    assert not same_numbers(numbers, numbers * (1 + 1e-3))
