"""Networks of Flax, where it is installed. `tests/networks/test_trees.py` does without."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx

pytest.importorskip("flax", reason="Flax is not installed: pip install flax -c constraints.txt")
from flax import linen, nnx

KEY = jax.random.key(0)
GAUSSIAN = sx.likelihoods.Gaussian()
ARD = sx.ARD(sx.InverseGamma(3.0, 3.0))


class Dense(nnx.Module):
    def __init__(self, *middle):
        rngs = nnx.Rngs(0)
        self.layers = nnx.List([nnx.Linear(3, 4, rngs=rngs), nnx.Linear(4, 1, rngs=rngs)])
        self.middle = nnx.List([layer(rngs=rngs) for layer in middle])

    def __call__(self, x):
        x = jnp.tanh(self.layers[0](x))
        for layer in self.middle:
            x = layer(x)
        return self.layers[1](x)


class Mixed(nnx.Module):
    """A convolution, attention and a norm."""

    def __init__(self):
        rngs = nnx.Rngs(0)
        self.conv = nnx.Conv(2, 4, (2,), padding="VALID", rngs=rngs)
        self.mixer = nnx.MultiHeadAttention(2, 4, decode=False, rngs=rngs)
        self.norm = nnx.LayerNorm(4, rngs=rngs)
        self.last = nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x):
        x = jnp.tanh(self.conv(x))
        return self.last(jnp.mean(self.norm(self.mixer(x)), axis=0))


@pytest.fixture(autouse=True)
def _own_promotion():
    # Flax relies on JAX's usual promotion.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_a_module_keeps_its_function_and_its_names():
    module = Dense()
    network = sx.networks.from_nnx(module)
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(network(x), module(x))
    # Modules of the same form share compiled programs, and can be fitted together.
    assert network.function == sx.networks.from_nnx(Dense()).function
    sites = {site.name: site.num_rows for site in sx.networks.find_sites(network)}
    assert sites == {"params.layers.0.kernel": 3, "params.layers.1.kernel": 4}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_module_is_fitted_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3))
    y = x[:, 0] + 0.1 * rng.normal(size=40)
    model = sx.Model(sx.networks.from_nnx(Dense()), ARD, GAUSSIAN)
    for method in (
        sx.VariationalEM(steps=300),
        sx.NoiseTraining(steps=300),
        sx.MCMC(num_chains=2, num_warmup=20, num_samples=20),
    ):
        post = sx.fit(model, x, y, method, key=KEY)
        assert np.corrcoef(post.predict(x).mean, y)[0, 1] > 0.8
        assert post.relevance().inputs.argmax() == 0
    path = tmp_path / "nnx.scalemix"
    post.save(path)
    again = sx.load(path, network=sx.networks.from_nnx(Dense()))
    np.testing.assert_array_equal(again.predict(x).mean, post.predict(x).mean)


def test_convolutions_and_attention_have_rows_and_heads():
    model = sx.Model(sx.networks.from_nnx(Mixed()), ARD, GAUSSIAN, example=np.ones((5, 2)))
    rows = {site.name.removeprefix("params."): site.num_rows for site in model.sites}
    assert rows == {
        "conv.kernel": 2, "last.kernel": 4, "mixer.key.kernel": 4, "mixer.out.kernel": 2,
        "mixer.query.kernel": 4, "mixer.value.kernel": 4,
    }  # fmt: skip
    # One scale on every weight of a row is the weight times the scale.
    scales, x = model.draw(key=KEY), jax.random.normal(KEY, (5, 2))
    out = model.weights["params.mixer.out.kernel"]
    by_head = out * scales["params.mixer.out.kernel"]["unit"][:, None, None]
    ones = jax.tree.map(jnp.ones_like, scales)
    alone = ones | {"params.mixer.out.kernel": scales["params.mixer.out.kernel"]}
    by_hand = model.with_weights(model.weights | {"params.mixer.out.kernel": by_head})
    np.testing.assert_allclose(model.with_scales(alone)(x), by_hand.network(x), rtol=1e-5)


def test_linen_goes_by_its_parameters():
    module = linen.Sequential([linen.Dense(4), jnp.tanh, linen.Dense(1)])
    params = module.init(KEY, jnp.ones(3))["params"]
    network = sx.networks.from_function(lambda p, x: module.apply({"params": p}, x), params)
    assert [site.num_rows for site in sx.networks.find_sites(network)] == [3, 4]
    with pytest.raises(ValueError, match="Flax Linen becomes a network by"):
        sx.Model(module, ARD, GAUSSIAN)


def test_state_and_noise_of_its_own_are_refused():
    dropout = Dense(lambda rngs: nnx.Dropout(0.5, rngs=rngs))
    with pytest.raises(ValueError, match=r"Dropout at 'middle\.0'.*module\.eval\(\)"):
        sx.networks.from_nnx(dropout)
    dropout.eval()
    x = jnp.ones(3)
    np.testing.assert_array_equal(sx.networks.from_nnx(dropout)(x), Dense()(x))
    norm = Dense(lambda rngs: nnx.BatchNorm(4, rngs=rngs))
    with pytest.raises(ValueError, match=r"middle\.0\.mean \(BatchStat\).*LayerNorm"):
        sx.networks.from_nnx(norm)
    with pytest.raises(ValueError, match="got Dense"):
        sx.networks.from_nnx(linen.Dense(3))
    with pytest.raises(ValueError, match="Flax NNX becomes a network by"):
        sx.Model(Dense(), ARD, GAUSSIAN)
    with pytest.raises(ValueError, match="to_pure_dict"):
        sx.networks.from_function(lambda p, x: x, nnx.state(Dense(), nnx.Param))
