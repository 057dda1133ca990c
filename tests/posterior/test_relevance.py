"""What relevance says of posteriors whose answer is known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import scalemix as sx
from scalemix.data.scaling import Scaling
from scalemix.networks import MLP, ResNet
from scalemix.networks.readers import input_sites, output_sites
from scalemix.networks.sites import find_sites
from scalemix.posterior.networks import Ensemble, GaussianNetworks, OneNetwork, SampledNetworks
from scalemix.posterior.posterior import History, Posterior
from scalemix.posterior.relevance import span
from tests.networks.cases import Flat, Stack

KEY = jax.random.key(0)
GAUSSIAN = sx.likelihoods.Gaussian()
SCALING = Scaling(np.zeros(0), np.ones(0), 0.0, 1.0)
HISTORY = History(np.zeros(1), np.zeros(0), {})


def posterior_of(networks):
    return Posterior(networks, SCALING, HISTORY, KEY)


def gaussians(model, deviation, variances):
    deviations = {name: jnp.full_like(w, deviation) for name, w in model.weights.items()}
    return GaussianNetworks(model, deviations, variances)


@pytest.fixture(scope="module")
def networks():
    """Two inputs, three hidden units; the middle unit's outgoing weight is all noise."""
    model = sx.Model(MLP(2, "scalar", 3, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    model = model.with_weights(
        {
            "layers.0": jnp.array([[1.0, 0.1], [1.0, 0.1], [1.0, 0.1]]),
            "layers.1": jnp.array([[2.0, 0.001, 1.0]]),
        }
    )
    variances = {"layers.0": {"unit": jnp.array([3.0, 1.0])}, "layers.1": {"unit": jnp.ones(3)}}
    return gaussians(model, 0.1, variances)


def test_shares_and_ratios_are_those_of_the_definition(networks):
    relevance = posterior_of(networks).relevance()
    np.testing.assert_allclose(relevance.inputs, [0.75, 0.25], rtol=1e-6)
    np.testing.assert_allclose(relevance.signal_to_noise.inputs, [100.0, 1.0], rtol=1e-5)
    np.testing.assert_allclose(relevance.units["layers.1"], np.full(3, 1 / 3), rtol=1e-6)
    np.testing.assert_allclose(
        relevance.signal_to_noise.units["layers.1"], [400.0, 1e-4, 100.0], rtol=1e-4
    )
    # Layer 0 has a prior variance of 2 a weight, layer 1 of 1.
    assert relevance.layers == pytest.approx({"layers.0": 2 / 3, "layers.1": 1 / 3})
    assert relevance.signal_to_noise.layers["layers.1"] == pytest.approx(5.000001 / 0.03, rel=1e-4)
    assert set(relevance.units) == {"layers.1"}


def test_a_unit_without_signal_is_off(networks):
    relevance = posterior_of(networks).relevance()
    np.testing.assert_array_equal(relevance.units_on["layers.1"], [True, False, True])
    assert relevance.effective_width == {"layers.1": 2.0}
    assert relevance.effective_depth == 1.0
    assert "2 of 3 units on" in str(relevance)
    # A laxer and a stricter rule.
    assert posterior_of(networks).relevance(threshold=1e-5).effective_width["layers.1"] == 3
    assert posterior_of(networks).relevance(threshold=200.0).effective_width["layers.1"] == 1


def test_weights_that_are_nothing_are_off_however_sure():
    model = sx.Model(MLP(2, "scalar", 3, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    weights = model.weights | {"layers.1": jnp.array([[1.0, 1e-6, 1.0]])}
    relevance = posterior_of(OneNetwork(model.with_weights(weights))).relevance()
    np.testing.assert_array_equal(relevance.units_on["layers.1"], [True, False, True])
    assert np.isinf(relevance.signal_to_noise.units["layers.1"][0])


def test_a_layer_is_off_with_all_its_units():
    model = sx.Model(ResNet(2, "scalar", 4, 3, key=KEY), sx.ARDADD(sx.HalfCauchy(1.0)), GAUSSIAN)
    weights = {name: jnp.ones_like(w) for name, w in model.weights.items()}
    weights["blocks.1"] = jnp.full((4, 4), 1e-3)
    variances = {
        name: {group: jnp.ones(shape) for group, shape in groups.items()}
        for name, groups in model.scale_shapes.items()
    }
    relevance = posterior_of(gaussians(model.with_weights(weights), 0.1, variances)).relevance()
    assert {name: bool(on) for name, (on,) in relevance.layers_on.items()} == {
        "first": True,
        "blocks.0": True,
        "blocks.1": False,
        "last": True,
    }
    assert relevance.effective_depth == 2
    assert "0 of 4 units on, off" in str(relevance)


def test_members_of_an_ensemble_are_averaged_but_their_units_are_not(networks):
    other = eqx.tree_at(lambda n: n.variances["layers.0"]["unit"], networks, jnp.array([1.0, 3.0]))
    stacked = jax.tree.map(lambda a, b: jnp.stack([a, b]), networks, other)
    history = History(np.zeros((2, 1)), np.zeros((2, 0)), {})
    posterior = Posterior(Ensemble(stacked, 2), SCALING, history, KEY)
    relevance = posterior.relevance()
    np.testing.assert_allclose(relevance.inputs, [0.5, 0.5], rtol=1e-6)
    assert relevance.units["layers.1"].shape == (2, 3)
    assert relevance.effective_width == {"layers.1": 2.0}
    assert "2 of 3 units on" in str(relevance)


def test_noise_has_a_ratio_of_its_family():
    model = sx.Model(MLP(2, "scalar", 3, 1, key=KEY), sx.ARD(sx.Bernoulli(0.8)), GAUSSIAN)
    x = np.random.default_rng(0).normal(size=(20, 2))
    posterior = sx.fit(model, x, x[:, 0], sx.NoiseTraining(steps=5), key=KEY)
    relevance = posterior.relevance()
    # mean^2 / variance of Bernoulli noise, whatever the weights.
    np.testing.assert_allclose(relevance.signal_to_noise.inputs, [0.8 / 0.2] * 2, rtol=1e-4)
    squares = np.asarray(posterior.model.weights["layers.0"]) ** 2
    np.testing.assert_allclose(relevance.inputs, squares.sum(0) / squares.sum(), rtol=1e-4)


def test_noise_without_a_variance_is_refused():
    model = sx.Model(MLP(2, "scalar", 3, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    x = np.random.default_rng(0).normal(size=(20, 2))
    posterior = sx.fit(model, x, x[:, 0], sx.NoiseTraining(steps=5), key=KEY)
    with pytest.raises(ValueError, match=r"noise on 'layers\.0' has no variance"):
        posterior.relevance()


def test_names_must_fit(networks):
    relevance = posterior_of(networks).relevance()
    assert "age" in relevance.table(["age", "height"])
    assert "... and 1 inputs more" in relevance.table(["age", "height"], top=1)
    with pytest.raises(ValueError, match="2 inputs and 1 names"):
        relevance.table(["age"])
    with pytest.raises(ValueError, match="threshold"):
        posterior_of(networks).relevance(threshold=-1.0)


def chains(num_chains):
    """Samples around one network, in each chain with its hidden units in another order and sign."""
    model = sx.Model(MLP(2, "scalar", 3, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    unknowns = sx.MCMC(parametrization="hierarchical").unknowns(model)
    rng = np.random.default_rng(0)
    mean = {"layers.0": np.array([[1.0, 0.0]] * 3), "layers.1": np.array([[2.0, 0.5, 1.0]])}
    noise = {name: 0.1 * rng.normal(size=(20, *w.shape)) for name, w in mean.items()}
    positions = np.zeros((num_chains, 20, len(ravel_pytree(unknowns.form())[0])), np.float32)
    for chain in range(num_chains):
        order = rng.permutation(3) if chain else np.arange(3)
        sign = rng.choice([-1.0, 1.0], size=3) if chain else np.ones(3)
        for i in range(20):
            first, last = (mean[name] + noise[name][i] for name in mean)
            weights = {
                "layers.0": jnp.asarray((sign[:, None] * first)[order], jnp.float32),
                "layers.1": jnp.asarray((sign * last)[:, order], jnp.float32),
            }
            moved = eqx.tree_at(lambda u: u.model, unknowns, model.with_weights(weights))
            positions[chain, i] = ravel_pytree(moved.form())[0]
    bits = jnp.zeros((num_chains, 20, 0), bool)
    return SampledNetworks(model, unknowns, jnp.asarray(positions), bits, jnp.zeros((1, 2)))


def test_relevance_does_not_depend_on_the_number_of_chains():
    """Units of different chains have nothing to do with one another, and are not averaged."""
    one, many = (posterior_of(chains(num)).relevance() for num in (1, 8))
    assert one.signal_to_noise.inputs[0] > 50
    for measure in ("share", "signal_to_noise"):
        alone, together = getattr(one, measure), getattr(many, measure)
        np.testing.assert_allclose(together.inputs, alone.inputs, rtol=1e-3)
        assert together.layers == pytest.approx(alone.layers, rel=1e-3)
        assert together.units["layers.1"].shape == (8, 3)
        for units in together.units["layers.1"]:
            np.testing.assert_allclose(np.sort(units), np.sort(alone.units["layers.1"]), rtol=1e-3)
    assert many.effective_width == one.effective_width == {"layers.1": 3.0}
    assert many.layers_on["layers.0"].shape == (8,)


class TwoReaders(eqx.Module):
    """A hidden layer, and a linear way past it from the same inputs."""

    deep: eqx.nn.Linear
    out: eqx.nn.Linear
    past: eqx.nn.Linear

    def __call__(self, x):
        return self.out(jnp.tanh(self.deep(x))) + self.past(x)


class Doubled(eqx.Module):
    """Reads a changed input, so that no layer is called on the input as it is."""

    layer: eqx.nn.Linear

    def __call__(self, x):
        return self.layer(2 * x)


class HeadFirst(eqx.Module):
    """Holds its output layer before the others, one of which it calls in a loop."""

    head: eqx.nn.Linear
    body: eqx.nn.Linear
    first: eqx.nn.Linear

    def __init__(self):
        sizes = (6, 1), (6, 6), (4, 6)
        self.head, self.body, self.first = (eqx.nn.Linear(*size, key=KEY) for size in sizes)

    def __call__(self, x):
        def again(h, _):
            return jnp.tanh(self.body(h)), None

        return self.head(jax.lax.scan(again, self.first(x), length=2)[0])


class Recurrent(eqx.Module):
    """A cell without a rule reads the inputs, and a layer with one reads its state."""

    cell: eqx.nn.GRUCell
    head: eqx.nn.Linear

    def __init__(self):
        self.cell = eqx.nn.GRUCell(1, 5, key=KEY)
        self.head = eqx.nn.Linear(5, "scalar", key=KEY)

    def __call__(self, x):
        def read(state, one):
            return self.cell(one[None], state), None

        return self.head(jax.lax.scan(read, jnp.zeros(5), x)[0])


class Embedded(eqx.Module):
    """Whole numbers, looked up in a table."""

    table: eqx.nn.Embedding
    head: eqx.nn.Linear

    def __init__(self):
        self.table = eqx.nn.Embedding(7, 3, key=KEY)
        self.head = eqx.nn.Linear(3, "scalar", key=KEY)

    def __call__(self, x):
        return self.head(self.table(x))


class ByHand(eqx.Module):
    """Uses a weight without calling its layer."""

    layer: eqx.nn.Linear
    head: eqx.nn.Linear

    def __init__(self):
        self.layer, self.head = (eqx.nn.Linear(*s, key=KEY) for s in ((3, 4), (4, "scalar")))

    def __call__(self, x):
        return self.head(self.layer.weight @ x)


def two_readers():
    return TwoReaders(*(eqx.nn.Linear(*s, key=KEY) for s in ((4, 6), (6, 1), (4, 1))))


NETWORKS = [
    (MLP(5, "scalar", 3, 2, key=KEY), jnp.ones(5), ["layers.0"], ["layers.2"]),
    (ResNet(5, "scalar", 3, 3, key=KEY), jnp.ones(5), ["first"], ["last"]),
    (eqx.nn.MLP(5, 1, 3, 2, key=KEY), jnp.ones(5), ["layers.0"], ["layers.2"]),
    (two_readers(), jnp.ones(4), ["deep", "past"], ["out", "past"]),
    (HeadFirst(), jnp.ones(4), ["first"], ["head"]),
    (eqx.nn.Conv2d(3, 2, 3, key=KEY), jnp.ones((3, 5, 5)), ["network"], ["network"]),
    # Nothing reads the inputs as they are.
    (Doubled(eqx.nn.Linear(3, 1, key=KEY)), jnp.ones(3), [], ["layer"]),
    (Recurrent(), jnp.ones(9), [], ["head"]),
    (Embedded(), jnp.int32(2), [], ["head"]),
    # What a layer's weight is multiplied with is seen, whether or not the layer is called.
    (ByHand(), jnp.ones(3), ["layer"], ["head"]),
    # An input is not known, or does not fit.
    (MLP(5, "scalar", 3, 2, key=KEY), None, [], []),
    (MLP(5, "scalar", 3, 2, key=KEY), jnp.ones(4), [], []),
]


@pytest.mark.parametrize(("network", "example", "first", "last"), NETWORKS)
def test_the_layers_at_both_ends_are_found(network, example, first, last):
    sites = find_sites(network)
    like = None if example is None else jax.ShapeDtypeStruct(example.shape, example.dtype)
    assert [site.name for site in input_sites(network, sites, like)] == first
    assert [site.name for site in output_sites(network, sites, like)] == last


def test_layers_that_are_stacked_are_told_apart():
    """Of three layers the second is off, and one unit of the third."""
    prior = {"body.layers": sx.ARDADD(sx.HalfCauchy(1.0)), "head": sx.ARD(sx.HalfCauchy(1.0))}
    model = sx.Model(Flat(Stack(4, 3), 4), prior, GAUSSIAN, example=np.ones(4))
    assert model.scale_shapes["body.layers"] == {"unit": (3, 4), "layer": (3,)}
    off = np.zeros((3, 4, 4), bool)
    off[1], off[2, :, 3] = True, True
    weights = model.weights | {"body.layers": jnp.where(off, 0.0, model.weights["body.layers"])}
    posterior = posterior_of(OneNetwork(model.with_weights(weights)))
    relevance = posterior.relevance()
    on = {name: bool(each[0]) for name, each in relevance.layers_on.items()}
    assert on == {
        "body.layers.0": True,
        "body.layers.1": False,
        "body.layers.2": True,
        "head": True,
    }
    assert relevance.hidden_layers == ("body.layers.0", "body.layers.1", "body.layers.2")
    assert relevance.effective_depth == 2
    np.testing.assert_array_equal(relevance.units_on["body.layers.2"], [True, True, True, False])
    pruned = posterior.prune(mask_only=True).posterior
    np.testing.assert_array_equal(pruned.model.weights["body.layers"], weights["body.layers"])


def test_heads_are_told_apart():
    mixer = eqx.nn.MultiheadAttention(2, 4, key=KEY)

    class Mixed(eqx.Module):
        mixer: eqx.nn.MultiheadAttention

        def __call__(self, x):
            return self.mixer(x, x, x)[0, :2]

    prior = {"*.output_proj": sx.ARD(sx.HalfCauchy(1.0), by="head")}
    model = sx.Model(Mixed(mixer), prior, sx.likelihoods.Categorical(2), example=np.ones((3, 4)))
    (name,) = model.weights
    silent = {name: model.weights[name].at[:, 2:].set(0.0)}
    posterior = posterior_of(OneNetwork(model.with_weights(silent)))
    relevance = posterior.relevance()
    np.testing.assert_array_equal(relevance.groups_on["head"][name], [True, False])
    assert "1 of 2 heads on" in str(relevance)
    np.testing.assert_array_equal(relevance.groups["head"][name], [1.0, 0.0])
    ratio = relevance.signal_to_noise.groups["head"][name]
    np.testing.assert_array_equal(ratio, [np.inf, 0.0])
    report = posterior.prune(mask_only=True).report
    assert report.groups_off == {"head": {name: (1, 2)}}
    assert f"heads of weights set to zero: {name} 1 of 2" in str(report)


def test_rows_along_another_axis_of_the_input_are_no_inputs():
    """Channels and positions, of which there are as many, are not added up."""

    class Mixer(eqx.Module):
        channels: eqx.nn.Linear
        places: eqx.nn.Linear
        again: eqx.nn.Linear

        def __call__(self, x):
            along = jax.vmap(self.places)(x.T).T
            return (jax.vmap(self.channels)(x) + along + jax.vmap(self.again)(x)).sum()

    network = Mixer(*(eqx.nn.Linear(4, 4, key=key) for key in jax.random.split(KEY, 3)))
    example = np.ones((4, 4), np.float32)
    axes = input_sites(network, find_sites(network), jnp.asarray(example))
    assert {site.name: each for site, each in axes.items()} == {
        "channels": {1}, "places": {0}, "again": {1},
    }  # fmt: skip
    model = sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN, example=example)
    relevance = posterior_of(OneNetwork(model)).relevance()
    total = sum(np.sum(np.square(model.weights[name]), axis=0) for name in ("channels", "again"))
    np.testing.assert_allclose(relevance.inputs, total / total.sum(), rtol=1e-5)
    assert list(relevance.units) == ["places"]


def test_hidden_units_are_not_called_inputs():
    model = sx.Model(Recurrent(), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN, example=np.ones(9))
    relevance = posterior_of(OneNetwork(model)).relevance()
    assert relevance.inputs.shape == relevance.signal_to_noise.inputs.shape == (0,)
    assert relevance.units["head"].shape == (5,)
    # The cell reads one number a step, and its state of five.
    assert relevance.effective_width == {
        "cell.weight_ih": 1.0, "cell.weight_hh": 5.0, "head": 5.0,
    }  # fmt: skip
    assert "inputs: it cannot be told which weights read them" in relevance.table(["a", "b"])
    assert "input 0" not in str(relevance)
    assert relevance.hidden_layers == ("cell.weight_ih", "cell.weight_hh")
    assert relevance.effective_depth == 2


def test_depth_leaves_out_the_output_layer_wherever_it_stands():
    prior = sx.ARD(sx.HalfCauchy(1.0))
    model = sx.Model(HeadFirst(), prior, sx.likelihoods.Gaussian())
    off = model.with_weights(model.weights | {"body": jnp.zeros((6, 6))})
    relevance = posterior_of(OneNetwork(off)).relevance()
    assert relevance.hidden_layers == ("body", "first")
    assert relevance.effective_depth == 1
    # A prior that does not stand on the output layer.
    model = sx.Model(MLP(2, "scalar", 3, 2, key=KEY), {"layers.[01]": prior}, GAUSSIAN)
    assert posterior_of(OneNetwork(model)).relevance().effective_depth == 2


def test_a_depth_that_cannot_be_told_is_no_number():
    # No vector is an input of a convolution.
    layers = [eqx.nn.Conv1d(2, 1, 3, key=KEY), eqx.nn.Lambda(jnp.mean)]
    model = sx.Model(eqx.nn.Sequential(layers), sx.ARD(sx.HalfCauchy(1.0)), GAUSSIAN)
    relevance = posterior_of(OneNetwork(model)).relevance()
    assert np.isnan(relevance.effective_depth)
    assert "the output layer cannot be told" in str(relevance)
    assert "effective depth nan" not in str(relevance)


def test_numbers_that_differ_are_told_from_the_least_to_the_most():
    assert span([3, 3]) == "3"
    assert span([5, 3, 4]) == "3 to 5"
