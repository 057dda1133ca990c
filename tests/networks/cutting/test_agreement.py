"""How networks are compared, before and after a cut."""

import equinox as eqx
import jax
import jax.numpy as jnp

from scalemix.networks.cutting.agreement import outputs


def test_networks_are_compared_in_full_precision():
    """Else a GPU, which rounds the factors of products, would find that they differ."""
    network = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    traced = jax.make_jaxpr(lambda rows: outputs(lambda net, x: net(x), network, rows))
    text = str(traced(jnp.ones((4, 3))))
    assert text.count("dot_general") == 1
    assert "Precision.HIGHEST" in text
