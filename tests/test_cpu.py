"""Operations that are replaced by quicker ones: the same values, in loops and gradients too."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix._cpu import is_wide, quick_on_cpu


def convolve(weight, data, **options):
    return jax.lax.conv_general_dilated(data, weight, (1, 1), "SAME", **options)


def pooled(data, strides=(2, 3)):
    window = 1, 1, 2, 3
    return jax.lax.reduce_window(data, -jnp.inf, jax.lax.max, window, (1, 1, *strides), "VALID")


def in_loop(weight, data):
    def step(data, _):
        return jnp.tanh(convolve(weight, data)), None

    return jax.lax.scan(step, data, length=2)[0].sum()


@pytest.mark.parametrize(
    "function",
    [
        lambda w, x: convolve(w, x),
        lambda w, x: jax.lax.conv_general_dilated(x, w, (2, 1), [(0, 1), (2, 0)], (1, 2), (2, 1)),
        jax.grad(in_loop, argnums=(0, 1)),
        lambda w, x: jax.lax.cond(x[0, 0, 0, 0] > 0, convolve, lambda w, x: -x, w, x),
        # Grouped ones are left as they are.
        lambda w, x: convolve(w[:, :1], x, feature_group_count=3),
        lambda w, x: {"few": x.sum(axis=0), "all": x.sum(), "last": x.sum(axis=-1)},
        lambda w, x: jax.grad(lambda x: jnp.sum(pooled(convolve(w, x)) ** 2))(x),
        # Among equal entries the first has the gradient.
        lambda w, x: jax.grad(lambda x: jnp.sum(pooled(jax.nn.relu(x))) + convolve(w, x).sum())(x),
        # Windows that overlap are left as they are.
        lambda w, x: jax.grad(lambda x: jnp.sum(pooled(convolve(w, x), (1, 1)) ** 2))(x),
    ],
)
def test_values_stay_the_same(function):
    first, second = jax.random.split(jax.random.key(0))
    weight = jax.random.normal(first, (3, 3, 2, 3))
    data = jax.random.normal(second, (2, 3, 5, 6))
    quick, shapes = quick_on_cpu(function, weight, data)
    expected = function(weight, data)
    assert jax.tree.structure(shapes) == jax.tree.structure(expected)
    for got, wanted in zip(
        jax.tree.leaves(quick(weight, data)), jax.tree.leaves(expected), strict=True
    ):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_a_convolution_in_a_loop_has_its_channels_last():
    weight, data = jnp.ones((3, 3, 2, 3)), jnp.ones((2, 3, 5, 6))
    slope = jax.grad(in_loop, argnums=(0, 1))
    quick, _ = quick_on_cpu(slope, weight, data)
    text = jax.jit(quick).lower(weight, data).as_text()
    lines = [line for line in text.splitlines() if "stablehlo.convolution" in line]
    assert lines
    assert all("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]" in line for line in lines)


def test_convolutional_networks_side_by_side_are_those_one_by_one():
    """Fused with what is around them, their gradients end in a segmentation fault."""
    network = eqx.nn.Sequential([
        eqx.nn.Conv1d(2, 3, 2, key=jax.random.key(0)), eqx.nn.Lambda(jnp.ravel),
        eqx.nn.Linear(9, "scalar", key=jax.random.key(1)),
    ])  # fmt: skip
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 2, 4)).astype(np.float32), rng.normal(size=8)
    prior, likelihood = sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian()
    model = sx.Model(network, prior, likelihood, example=x[0])
    keys, method = jax.random.split(jax.random.key(2)), sx.VariationalEM(steps=2)
    together = sx.fit_many(model, [x, x], [y, y], method, keys=keys)
    alone = sx.fit(model, x, y, method, key=keys[1])
    np.testing.assert_allclose(together[1].predict(x).mean, alone.predict(x).mean, rtol=1e-4)


@pytest.mark.parametrize(
    ("processor", "wide"),
    [
        (
            "model name : A\nflags\t\t: fpu sse4_2 avx2 avx512f avx512_bf16 vaes\nbugs\t: none\n",
            True,
        ),
        ("model name : B\nflags\t\t: fpu sse4_2 avx2 avx512f avx512bw\nbugs\t: none\n", False),
        ("flags\t: fpu\nvmx flags\t: avx512_bf16\n", False),
        ("CPU architecture: 8\nFeatures\t: fp asimd bf16\n", False),
        ("", False),
    ],
)
def test_only_processors_that_have_them_are_asked_for_wide_vectors(processor, wide):
    assert is_wide(processor) == wide
