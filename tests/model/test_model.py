import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import scalemix as sx
from scalemix.model.inputs import find_input
from scalemix.networks import MLP, ResNet, find_sites

KEY = jax.random.key(0)
GAUSSIAN = sx.likelihoods.Gaussian()
X = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)

# Each as one program: many small ones take much longer to compile.
sample_prior = eqx.filter_jit(sx.Model.prior_sample)
log_prior = eqx.filter_jit(sx.Model.log_prior)
draw = eqx.filter_jit(lambda model, shape=(), *, key: model.draw(shape, key=key))
under = eqx.filter_jit(lambda model, scales, x: model.with_scales(scales)(x))
outputs_of = eqx.filter_jit(
    lambda model, x, scales, sharing="example": model.outputs(x, scales, noise_sharing=sharing)
)


def mlp_model(structure, *, key=KEY):
    return sx.Model(MLP(3, "scalar", 8, 2, key=key), structure, GAUSSIAN)


def resnet_model(structure, *, key=KEY):
    return sx.Model(ResNet(3, "scalar", 8, 3, key=key), structure, GAUSSIAN)


# ----------------------------------------------------------------- what each structure is as noise


def test_bernoulli_ard_is_dropout():
    """The same masks give the outputs of Equinox's own dropout layers."""
    network = MLP(3, "scalar", 8, 2, key=KEY)
    model = sx.Model(network, sx.ARD(sx.Bernoulli(0.6).inverted()), GAUSSIAN)
    dropout = eqx.nn.Dropout(0.4)
    sizes = {"layers.0": 3, "layers.1": 8, "layers.2": 8}
    keys = {name: jax.random.fold_in(KEY, i) for i, name in enumerate(sizes)}
    masks = {n: {"unit": dropout(jnp.ones(size), key=keys[n])} for n, size in sizes.items()}

    @jax.jit
    def twin(h):
        for i, layer in enumerate(network.layers):
            h = layer(dropout(h, key=keys[f"layers.{i}"]))
            h = jax.nn.relu(h) if i < 2 else h
        return h

    np.testing.assert_array_equal(under(model, masks, X[0]), twin(X[0]))
    drawn = np.asarray(draw(model, (20_000,), key=KEY)["layers.1"]["unit"])
    np.testing.assert_array_equal(np.unique(drawn), np.unique(masks["layers.2"]["unit"]))
    assert st.binomtest(int((drawn > 0).sum()), drawn.size, 0.6).pvalue > 1e-3


def test_bernoulli_dropconnect_is_dropconnect():
    model = mlp_model(sx.DropConnect(sx.Bernoulli(0.5)))
    masks = jax.tree.map(np.asarray, draw(model, key=KEY))
    h = X[0]
    for i, layer in enumerate(model.network.layers):
        mask, weight = masks[f"layers.{i}"]["weight"], np.asarray(layer.weight)
        assert mask.shape == weight.shape
        assert 0 < mask.mean() < 1
        h = ((mask * weight) @ h + np.asarray(layer.bias)).reshape(-1)
        h = np.maximum(h, 0) if i < 2 else h
    np.testing.assert_allclose(under(model, masks, X[0]), h[0], rtol=1e-6)


@pytest.mark.parametrize("pattern", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_bernoulli_add_is_stochastic_depth(pattern):
    """A layer whose draw is zero is skipped; one whose draw is one is as it was."""
    model = resnet_model({"blocks.*": sx.ADD(sx.Bernoulli(0.5))})
    network = model.network
    scales = {f"blocks.{i}": {"layer": np.float32(on)} for i, on in enumerate(pattern)}
    kept = tuple(block for block, on in zip(network.blocks, pattern, strict=True) if on)
    shallower = eqx.tree_at(lambda net: net.blocks, network, kept)
    np.testing.assert_array_equal(under(model, scales, X[0]), eqx.filter_jit(shallower)(X[0]))


def test_ard_add_multiplies_both():
    model = resnet_model({"blocks.0": sx.ARDADD(sx.HalfCauchy(1.0))})
    scales = draw(model, key=KEY)
    xi, tau = scales["blocks.0"]["unit"], scales["blocks.0"]["layer"]
    network = model.network

    @jax.jit
    def twin(x):
        h = jax.nn.relu(network.first(x))
        h = jax.nn.relu(tau * (network.blocks[0].weight @ (h * xi))) + h
        h = jax.nn.relu(network.blocks[1](h)) + h
        return network.last(h)

    np.testing.assert_allclose(under(model, scales, X[0]), twin(X[0]), rtol=1e-5)


# ----------------------------------------------------------------------------- who gets which draw


@pytest.mark.parametrize(
    "structure", [sx.ARD(sx.HalfCauchy(1.0)), sx.DropConnect(sx.Bernoulli(0.5))]
)
def test_examples_differ_and_batches_share(structure):
    model = mlp_model(structure)
    same = np.broadcast_to(X[:1], X.shape)
    scales = jax.tree.map(np.asarray, draw(model, (6,), key=KEY))
    own = outputs_of(model, same, scales)
    assert len(np.unique(np.asarray(own))) == 6
    shared = outputs_of(model, same, draw(model, key=KEY), "batch")
    assert len(np.unique(np.asarray(shared))) == 1
    # Each example is a pass of its own through the network under its own draw.
    looped = [under(model, jax.tree.map(lambda s, i=i: s[i], scales), X[i]) for i in range(6)]
    np.testing.assert_allclose(outputs_of(model, X, scales), looped, rtol=1e-4, atol=1e-5)


def test_a_sequence_shares_one_draw():
    model = mlp_model(sx.ARD(sx.HalfCauchy(1.0)))
    steps = np.broadcast_to(X[0], (4, 5, 3))
    outputs = outputs_of(model, steps, draw(model, (4,), key=KEY), "sequence")
    assert outputs.shape == (4, 5)
    assert [len(np.unique(row)) for row in np.asarray(outputs)] == [1] * 4
    assert len(np.unique(np.asarray(outputs))) == 4


def test_wrong_sharing_is_refused():
    model = mlp_model(sx.ARD(sx.HalfCauchy(1.0)))
    with pytest.raises(ValueError, match=r"one draw for each of the 6 examples.*draw\(6, key"):
        model.outputs(X, draw(model, key=KEY))
    with pytest.raises(ValueError, match="noise_sharing must be one of"):
        model.outputs(X, draw(model, key=KEY), noise_sharing="none")  # pyright: ignore
    with pytest.raises(ValueError, match=r"'unit' must have the shape \(3,\), got \(6, 3\)"):
        model.outputs(X, draw(model, 6, key=KEY), noise_sharing="batch")
    with pytest.raises(ValueError, match=r"cannot be called on inputs of shape \(2,\)"):
        model.outputs(X[:, :2], draw(model, 6, key=KEY))


def test_ill_fitting_weights_and_scales_are_refused():
    model = resnet_model(sx.ARDADD(sx.HalfCauchy(1.0)))
    weights, scales = sample = sample_prior(model, KEY)
    without = {name: dict(groups) for name, groups in scales.items()}
    del without["blocks.0"]["layer"]
    with pytest.raises(
        ValueError, match=r"Scales of 'blocks.0' are a dict of unit, layer; got unit"
    ):
        model.log_prior(weights, without)
    with pytest.raises(ValueError, match=r"Scales of 'blocks.0'"):
        model.with_scales(without)
    with pytest.raises(ValueError, match=r"Weights are a dict of first, .*; got PriorSample"):
        model.with_weights(sample)  # pyright: ignore
    with pytest.raises(ValueError, match=r"'first' must have the shape \(8, 3\), got \(3, 8\)"):
        model.with_weights(weights | {"first": weights["first"].T})
    with pytest.raises(ValueError, match=r"prior on 'first' is an array.*one number"):
        resnet_model(sx.ARD(sx.HalfCauchy(1.0), scale=jnp.ones(3)))
    with pytest.raises(ValueError, match=r"prior on 'first' is an array.*one number"):
        resnet_model(sx.ARD(sx.HalfCauchy(jnp.ones(5))))


def test_twenty_models_at_once_equal_twenty_in_turn():
    keys = jax.random.split(jax.random.key(5), 20)

    def run(key):
        network_key, noise_key = jax.random.split(key)
        model = mlp_model(sx.ARD(sx.HalfCauchy(1.0)), key=network_key)
        return model.outputs(X, model.draw((6,), key=noise_key))

    together = jax.jit(jax.vmap(run))(keys)
    run = jax.jit(run)
    looped = [run(key) for key in keys[:4]]
    assert together.shape == (20, 6)
    np.testing.assert_allclose(together[:4], looped, rtol=1e-4, atol=1e-4)


def test_models_stack_over_their_priors():
    scales = np.array([0.1, 1.0, 10.0], np.float32)

    def draw(scale):
        return mlp_model(sx.ARD(sx.HalfCauchy(scale))).draw(key=KEY)["layers.0"]["unit"]

    together = jax.jit(jax.vmap(draw))(scales)
    np.testing.assert_allclose(together[2], 100 * together[0], rtol=1e-5)


def test_the_users_network_is_untouched():
    network = MLP(3, "scalar", 8, 2, key=KEY)
    before = jax.tree.map(lambda leaf: np.array(leaf), eqx.filter(network, eqx.is_array))
    model = sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    model.outputs(X, draw(model, (6,), key=KEY))
    model.with_weights(sample_prior(model, KEY).weights)
    after = eqx.filter(network, eqx.is_array)
    assert all(jax.tree.leaves(jax.tree.map(np.array_equal, before, after)))


# --------------------------------------------------------------------------------------- the prior

PRIORS = {
    "ARD": sx.ARD(sx.InverseGamma(3.0, 3.0), scale=0.5),
    "DropConnect": sx.DropConnect(sx.Rayleigh(0.7)),
    "ADD": sx.ADD(sx.Bernoulli(0.5)),
    "ARDADD": sx.ARDADD(sx.HalfCauchy(0.5), sx.Gaussian(0.3)),
}


# That the densities of both agree is asserted below for each structure.
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in ("ARD", "ARDADD") else pytest.mark.slow) for n in PRIORS],
)
def test_both_parametrizations_are_one_distribution_over_functions(name):
    model = resnet_model(PRIORS[name])

    def expanded(key):
        sample = model.prior_sample(key, parametrization="expanded")
        return model.with_weights(sample.weights).with_scales(sample.scales)(X[0])

    def hierarchical(key):
        return model.with_weights(model.prior_sample(key).weights).network(X[0])

    keys = jax.random.split(jax.random.key(8), 4000)
    one = np.asarray(jax.jit(jax.vmap(expanded))(keys[:2020]))
    other = np.asarray(jax.jit(jax.vmap(hierarchical))(keys[1980:]))
    assert st.ks_2samp(one[:1980], other).pvalue > 1e-3
    # With one key they are one function, number by number.
    np.testing.assert_allclose(one[1980:], other[:40], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PRIORS)
def test_the_two_densities_differ_by_the_jacobian(name, float64):
    model = resnet_model(PRIORS[name])
    sample = sample_prior(model, KEY, parametrization="expanded")
    sample = jax.tree.map(np.asarray, sample)
    if name == "ADD":
        sample.scales["blocks.0"]["layer"] = np.ones(())
        sample.scales["blocks.1"]["layer"] = np.ones(())
        for site in ("first", "last"):
            sample.scales[site]["unit"] = np.ones_like(sample.scales[site]["unit"])
    expanded = log_prior(model, *sample, parametrization="expanded")
    # w = xi z, so each weight contributes log |xi|.
    jacobian, weights = 0.0, {}
    for site in model.sites:
        groups = sample.scales[site.name]
        factor = np.ones(site.shape)
        for group, scale in groups.items():
            factor = factor * (scale[None, :] if group == "unit" else scale)
        jacobian += np.sum(np.log(np.abs(factor)))
        weights[site.name] = factor * sample.weights[site.name]
    hierarchical = log_prior(model, weights, sample.scales)
    np.testing.assert_allclose(hierarchical, expanded - jacobian, rtol=1e-10)


def test_log_prior_is_the_sum_of_scipys_terms(float64):
    model = sx.Model(eqx.nn.Linear(3, 1, key=KEY), sx.ARD(sx.HalfCauchy(0.7), scale=0.4), GAUSSIAN)
    w = np.array([[0.3, -1.0, 0.1]])
    xi = np.array([0.5, 2.0, 0.9])
    scales = {"network": {"unit": xi}}
    prior = st.halfcauchy(scale=0.7).logpdf(xi).sum()
    hierarchical = st.norm.logpdf(w[0], scale=0.4 * xi).sum() + prior
    expanded = st.norm.logpdf(w[0], scale=0.4).sum() + prior
    weights = {"network": w}
    np.testing.assert_allclose(log_prior(model, weights, scales), hierarchical)
    np.testing.assert_allclose(
        log_prior(model, weights, scales, parametrization="expanded"), expanded
    )


def test_a_dropped_unit_has_its_mass_at_zero():
    model = sx.Model(eqx.nn.Linear(2, 1, key=KEY), sx.ARD(sx.Bernoulli(0.9)), GAUSSIAN)
    scales = {"network": {"unit": np.array([0.0, 1.0], np.float32)}}
    on_spike, off_spike = (
        log_prior(model, {"network": np.array([[first, 0.5]], np.float32)}, scales)
        for first in (0.0, 0.1)
    )
    expected = np.log(0.1) + np.log(0.9) + st.norm.logpdf(0.5)
    np.testing.assert_allclose(on_spike, expected, rtol=1e-6)
    assert off_spike == -np.inf


def test_prior_samples_have_the_marginal_of_their_family():
    mixture = sx.InverseGamma(3.0, 3.0)
    model = mlp_model(sx.ARD(mixture, scale=0.5))
    keys = jax.random.split(KEY, 2000)
    draw = jax.jit(jax.vmap(lambda k: model.prior_sample(k).weights["layers.0"][0, 0]))
    weights = draw(keys)
    assert st.kstest(np.asarray(weights), st.t(6, scale=0.5).cdf).pvalue > 1e-3


# ------------------------------------------------------------------------------- placing the prior


def placed(model):
    return {site.name: type(model.structures[site.name]).__name__ for site in model.sites}


@pytest.mark.parametrize("structure", [sx.ADD, sx.ARDADD])
def test_depth_structures_alone_do_what_the_paper_does(structure):
    model = resnet_model(structure(sx.HalfCauchy(1.0), scale=0.3))
    name = structure.__name__
    assert placed(model) == {"first": "ARD", "blocks.0": name, "blocks.1": name, "last": "ARD"}
    assert model.structures["last"].scale == 0.3


def test_patterns_place_structures():
    model = resnet_model(
        {"first": sx.ARD(sx.Bernoulli(0.9)), "blocks.*": sx.ADD(sx.Bernoulli(0.8))}
    )
    assert placed(model) == {"first": "ARD", "blocks.0": "ADD", "blocks.1": "ADD"}
    skipping = resnet_model({"*[!t]": sx.ARD(sx.Bernoulli(0.9)), "last": None})
    assert placed(skipping) == {"blocks.0": "ARD", "blocks.1": "ARD"}


ARD = sx.ARD(sx.HalfCauchy(1.0))
NAMES = r"Layers: first, blocks\.0, blocks\.1, last\."


@pytest.mark.parametrize(
    ("prior", "reason"),
    [
        ({"blcks.*": ARD}, r"'blcks\.\*' matches no layer\. " + NAMES),
        ({"*": ARD, "blocks.1": ARD}, r"'blocks\.1' is matched twice.*" + NAMES),
        ({"last": sx.ADD(sx.Bernoulli(0.5))}, r"ADD on 'last': no path.*" + NAMES),
        ({"first": sx.HalfCauchy(1.0)}, r"prior\['first'\] must be a structure"),
        (sx.HalfCauchy(1.0), r"prior must be a structure around a mixture"),
        (None, r"prior must be a structure"),
        ({}, r"names no layer. " + NAMES),
        ({"*": None}, r"leaves every layer without one. " + NAMES),
    ],
)
def test_misplaced_priors_are_refused(prior, reason):
    with pytest.raises(ValueError, match=reason):
        resnet_model(prior)


def test_add_needs_a_path_around_some_layer():
    with pytest.raises(ValueError, match=r"no layer .* path around.*layers\.0, layers\.1"):
        mlp_model(sx.ADD(sx.HalfCauchy(1.0)))


class ConvNet(eqx.Module):
    """An image network with one residual layer."""

    stem: eqx.nn.Conv2d
    block: eqx.nn.Conv2d
    head: eqx.nn.Linear

    def __init__(self, key):
        a, b, c = jax.random.split(key, 3)
        self.stem = eqx.nn.Conv2d(1, 4, 3, padding=1, key=a)
        self.block = eqx.nn.Conv2d(4, 4, 3, padding=1, key=b)
        self.head = eqx.nn.Linear(4, 3, key=c)

    def __call__(self, image):
        h = jax.nn.relu(self.stem(image))
        h = h + jax.nn.relu(self.block(h))
        return self.head(h.mean(axis=(1, 2)))


def test_a_convolutional_network_of_ones_own():
    likelihood = sx.likelihoods.Categorical(3)
    structure = sx.ARDADD(sx.HalfCauchy(1.0))
    images = np.random.default_rng(0).normal(size=(5, 1, 8, 8)).astype(np.float32)
    with pytest.raises(ValueError, match=r"example=x\[0\]"):
        sx.Model(ConvNet(KEY), structure, likelihood)
    model = sx.Model(ConvNet(KEY), structure, likelihood, example=images[0])
    assert placed(model) == {"stem": "ARD", "block": "ARDADD", "head": "ARD"}
    outputs = outputs_of(model, images, draw(model, (5,), key=KEY))
    assert outputs.shape == (5, 3)
    pixels = np.zeros((1, 8, 8), np.uint8)
    assert placed(sx.Model(ConvNet(KEY), structure, likelihood, example=pixels)) == placed(model)


def test_mismatched_parts_are_refused():
    network = MLP(3, "scalar", 8, 1, key=KEY)
    with pytest.raises(ValueError, match=r"Gaussian needs 2 outputs.*out_size=2"):
        sx.Model(network, ARD, sx.likelihoods.Gaussian(per_input=True))
    with pytest.raises(ValueError, match="Categorical needs 3 outputs"):
        sx.Model(network, ARD, sx.likelihoods.Categorical(3))
    with pytest.raises(ValueError, match=r"likelihoods\.Gaussian\(\)"):
        sx.Model(network, ARD, sx.likelihoods.Gaussian)  # pyright: ignore
    with pytest.raises(ValueError, match="must be callable"):
        sx.Model(3.0, ARD, GAUSSIAN)
    with pytest.raises(ValueError, match="holds no layer"):
        sx.Model(eqx.nn.LayerNorm(3), ARD, GAUSSIAN)
    with pytest.raises(ValueError, match=r"cannot be called on one example of shape \(4,\)"):
        sx.Model(network, ARD, GAUSSIAN, example=jnp.zeros(4))


def test_flat_priors_have_no_density():
    model = mlp_model(sx.ARD(sx.Bernoulli(0.9), scale=float("inf")))
    assert np.isfinite(outputs_of(model, X, draw(model, (6,), key=KEY))).all()
    with pytest.raises(ValueError, match=r"'layers.0' is flat"):
        model.prior_sample(KEY)
    with pytest.raises(ValueError, match="finite scale"):
        model.log_prior(model.weights, draw(model, key=KEY))
    with pytest.raises(ValueError, match="improper"):
        mlp_model(sx.ARD(sx.LogUniform())).draw(key=KEY)
    with pytest.raises(ValueError, match="parametrization must be one of"):
        model.prior_sample(KEY, parametrization="centred")  # pyright: ignore


def test_describe_is_a_table_of_sites():
    table = resnet_model({"first": ARD, "blocks.*": sx.ARDADD(sx.Bernoulli(0.5))}).describe()
    assert [(row.site, row.structure, row.num_scales) for row in table.rows] == [
        ("first", "ARD", 3),
        ("blocks.0", "ARDADD", 9),
        ("blocks.1", "ARDADD", 9),
    ]
    assert table.without_prior == (
        "first.bias", "blocks.0.bias", "blocks.1.bias", "last.weight", "last.bias",
    )  # fmt: skip
    assert "152 weights under the prior, 21 scales" in str(table)
    assert "(8, 3)" in str(table)


def test_a_model_is_built_inside_compiled_code():
    @eqx.filter_jit
    def build(key):
        model = resnet_model(sx.ADD(sx.Bernoulli(0.5)), key=key)
        return model.outputs(X, model.draw((6,), key=key))

    assert build(KEY).shape == (6,)


def test_describe_says_where_one_scale_covers_a_whole_input():
    """ARD on an image of one channel: nothing to select, and everything to lose."""
    network = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 4, 3, key=KEY),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(16, 1, key=KEY),
        ]
    )
    for structure, warned in ((sx.ARD, True), (sx.DropConnect, False)):
        model = sx.Model(
            network, structure(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian(),
            example=np.zeros((1, 4, 4), np.float32),
        )  # fmt: skip
        assert ("'layers.0' reads one unit or channel" in str(model.describe())) == warned
        assert "layers.2' reads" not in str(model.describe())
    model = sx.Model(
        network, sx.ARD(sx.HalfCauchy(1.0), by="output"), sx.likelihoods.Gaussian(),
        example=np.zeros((1, 4, 4), np.float32),
    )  # fmt: skip
    table = model.describe()
    assert [(row.structure, row.num_scales) for row in table.rows] == [
        ("ARD by output", 4),
        ("ARD by output", 1),
    ]
    assert "reads one unit" not in str(table)
    assert "'layers.2' has one output" in str(table)
    assert "'layers.0' has one" not in str(table)
    assert repr(model) == "Model(Sequential, ARD by output on 2 sites, Gaussian)"


def test_each_guess_at_the_input_is_made_once():
    """To see that a deep network takes none of them must not take as many passes as layers."""
    calls = []

    class Deep(eqx.Module):
        layers: list

        def __call__(self, x):
            calls.append(x.shape)
            raise ValueError("takes no vector")

    network = Deep([eqx.nn.Linear(4, 4, key=jax.random.key(0)) for _ in range(5)])
    assert find_input(network, find_sites(network), None) is None
    assert calls == [(4,), ()]


# ------------------------------------------------------------------------ what the model asks of x


def test_the_network_says_what_it_refuses():
    model = mlp_model(sx.ARD(sx.HalfCauchy(1.0)))
    assert model.dtype == np.float32
    assert model.refusal(jax.ShapeDtypeStruct((3,), np.float32)) is None
    assert "4" in (model.refusal(jax.ShapeDtypeStruct((4,), np.float32)) or "")
    table = sx.Model(
        eqx.nn.Sequential([eqx.nn.Embedding(5, 3, key=KEY), eqx.nn.Linear(3, "scalar", key=KEY)]),
        sx.ARD(sx.HalfCauchy(1.0)),
        GAUSSIAN,
        example=jnp.int32(2),
    )
    assert table.refusal(jax.ShapeDtypeStruct((), np.int32)) is None
    assert table.refusal(jax.ShapeDtypeStruct((), np.float32)) is not None


def test_frozen_layers_that_read_the_input_are_named():
    network = MLP(3, "scalar", 8, 2, key=KEY)
    prior = sx.ARD(sx.HalfCauchy(1.0))
    for frozen, names in ((None, []), (["layers.0"], ["layers.0"]), (["layers.1"], [])):
        model = sx.Model(network, prior, GAUSSIAN, frozen=frozen)
        assert model.frozen_readers(X[0]) == names
