"""Norms that know of constants beside the places that are left."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.networks import NarrowLayerNorm, NarrowRMSNorm

RNG = np.random.default_rng(0)
X = RNG.normal(size=6).astype(np.float32)
LEFT, GONE = np.array([0, 2, 3]), np.array([1, 4, 5])


def random(norm):
    arrays = [jnp.asarray(RNG.normal(size=6), jnp.float32) for _ in range(2)]
    return eqx.tree_at(lambda n: (n.weight, n.bias), norm, arrays)


def part(norm):
    """The norm of the places that are left."""
    small = type(norm)(len(LEFT))
    return eqx.tree_at(lambda n: (n.weight, n.bias), small, (norm.weight[LEFT], norm.bias[LEFT]))


def narrow(norm):
    gone = X[GONE]
    if isinstance(norm, eqx.nn.RMSNorm):
        made = NarrowRMSNorm(part(norm), size=6)
        return eqx.tree_at(lambda n: n.squares, made, jnp.sum(gone**2))
    made = NarrowLayerNorm(part(norm), size=6)
    spread = jnp.sum(jnp.square(gone - gone.mean()))
    return eqx.tree_at(lambda n: (n.centre, n.spread), made, (jnp.mean(gone), spread))


@pytest.mark.parametrize("kind", [eqx.nn.LayerNorm, eqx.nn.RMSNorm])
def test_they_compute_what_all_places_did(kind):
    norm = random(kind(6))
    np.testing.assert_allclose(narrow(norm)(X[LEFT]), norm(X)[LEFT], rtol=1e-5, atol=1e-6)
    # A place may be left and be one of the constants.
    left = eqx.tree_at(lambda n: n.weight, kind(6), norm.weight)
    made = (NarrowLayerNorm if kind is eqx.nn.LayerNorm else NarrowRMSNorm)(left)
    np.testing.assert_allclose(made(X), left(X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [eqx.nn.LayerNorm, eqx.nn.RMSNorm])
def test_they_are_called_as_norms_of_equinox_are(kind):
    small = narrow(random(kind(6)))
    x = jnp.asarray(X[LEFT])
    out, state = small(x, "state")
    assert state == "state"
    np.testing.assert_array_equal(out, small(x, key=jax.random.key(0)))
    assert small(x.astype(jnp.bfloat16)).dtype == jnp.bfloat16
    with pytest.raises(ValueError, match=r"shape \(3,\) got an input of the shape \(6,\)"):
        small(jnp.asarray(X))
    with pytest.raises(ValueError, match="3 or more; got 2"):
        type(small)(part(random(kind(6))), size=2)
    with pytest.raises(ValueError, match="one axis"):
        type(small)(kind((2, 3)))
