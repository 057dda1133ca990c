"""What is loaded is what was saved."""

import errno
import json
import math
import os
import stat

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import scalemix as sx
from scalemix.networks import MLP, ResNet
from scalemix.posterior import storage
from scalemix.posterior.networks import NoisyNetworks, OneNetwork
from scalemix.posterior.storage.classes import NETWORKS_CLASSES
from scalemix.posterior.storage.skeletons import ACTIVATIONS
from tests.mixtures.cases import CASES
from tests.posterior.storage import cases
from tests.posterior.storage.cases import KEY, X, assert_same, build, noisy

Y = np.sin(X[:, 0])


def round_trip(posterior, path, **arguments):
    posterior.save(path)
    loaded = sx.load(path, **arguments)
    assert_same(posterior, loaded)
    return loaded


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.scalemix"


def assert_same_predictions(one, other):
    for key in (None, KEY):
        a, b = (p.predict(X, num_draws=5, key=key) for p in (one, other))
        np.testing.assert_array_equal(a.mean, b.mean)
        np.testing.assert_array_equal(a.epistemic, b.epistemic)


@pytest.mark.parametrize("kind", NETWORKS_CLASSES)
def test_every_kind_of_networks_predicts_the_same_to_the_last_bit(kind, path):
    networks, history = cases.NETWORKS[kind]
    posterior = cases.posterior(networks(), history=history)
    assert_same_predictions(posterior, round_trip(posterior, path))


def test_ensembles_of_fits_predict_the_same_to_the_last_bit(path):
    model = sx.Model(
        MLP(3, "scalar", 5, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian()
    )
    posterior = sx.fit(model, X, Y, sx.VariationalEM(steps=3, num_members=3), key=KEY)
    loaded = round_trip(posterior, path)
    assert_same_predictions(posterior, loaded)
    assert len(loaded.members) == 3
    assert_same(posterior.members[1], loaded.members[1])


@pytest.mark.parametrize("name", CASES)
def test_every_family(name, path):
    round_trip(noisy(mixture=CASES[name].mixture), path)


@pytest.mark.parametrize(
    "structure",
    [
        sx.ARD(sx.HalfCauchy(0.3), scale=math.inf),
        sx.DropConnect(sx.Bernoulli(0.9)),
        sx.ADD(sx.Rayleigh(0.1)),
        sx.ARDADD(sx.HalfCauchy(0.3), scale=2.0),
        sx.ARDADD(sx.HalfCauchy(0.3), layer_mixture=sx.LogUniform()),
        sx.ARDADD(sx.HalfCauchy(0.3), by="output", base=sx.bases.Laplace()),
        sx.ARD(sx.HalfCauchy(0.3), by="output", base=sx.bases.StudentT(3.3)),
    ],
)
def test_every_structure(structure, path):
    network = ResNet(3, "scalar", 4, 2, key=KEY)
    model = sx.Model(network, {"blocks.0": structure}, sx.likelihoods.Gaussian())
    # Both as it is built, with plain numbers, and as a fit leaves it.
    for one in (model, cases.as_fitted(model)):
        loaded = round_trip(cases.posterior(NoisyNetworks(one)), path)
        assert loaded.model.sites == model.sites
        told = storage.info(path).prior["blocks.0"]
        # What is as usual is not said, and files of earlier versions do not say it.
        assert ("by=output" in told) == ("output" in structure.groups)
        assert ("base=" in told) == (not structure.base.quadratic)


@pytest.mark.parametrize(
    ("likelihood", "out_size"),
    [
        (sx.likelihoods.Gaussian(0.3, floor=20.0 / 81), "scalar"),
        (sx.likelihoods.Gaussian(floor=0.01, per_input=True), 2),
        (sx.likelihoods.StudentT(3.3, 0.2), 1),
        (sx.likelihoods.StudentT(3.3, 0.2, per_input=True), 2),
        (sx.likelihoods.Bernoulli(), "scalar"),
        (sx.likelihoods.Categorical(4), 4),
        (sx.likelihoods.Poisson(), 1),
        (sx.likelihoods.NegativeBinomial(0.7), 1),
        (sx.likelihoods.LogNormal(0.2, per_input=True), 2),
        (sx.likelihoods.Gamma(0.2, floor=0.01), "scalar"),
        (sx.likelihoods.Weibull(0.2), 1),
        (sx.likelihoods.Beta(0.3), 1),
        (sx.likelihoods.RightCensored(sx.likelihoods.Weibull(0.2)), 1),
        (sx.likelihoods.Independent(sx.likelihoods.StudentT(3.3, 0.2), 2), 2),
        (
            sx.likelihoods.Independent(sx.likelihoods.RightCensored(sx.likelihoods.LogNormal()), 2),
            2,
        ),
    ],
)
def test_every_likelihood(likelihood, out_size, path):
    network = MLP(3, out_size, 5, 1, key=KEY)
    for model in (
        sx.Model(network, sx.ARD(sx.Gaussian(0.3)), likelihood),
        build(likelihood=likelihood, network=network),
    ):
        scaling, shape = cases.SCALING, likelihood.target_shape
        if shape:
            means, scales = np.linspace(-1.0, 3.3, *shape), np.linspace(0.3, 9.0, *shape)
            scaling = scaling._replace(y_mean=means, y_scale=scales)
        loaded = round_trip(cases.posterior(OneNetwork(model), scaling), path)
        assert type(loaded.model.likelihood) is type(likelihood)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_go_by_name(name):
    network = MLP(3, 1, 2, 1, activation=ACTIVATIONS[name], key=KEY)
    described = json.loads(json.dumps(storage.skeletons.describe(network)))
    assert storage.skeletons.build(described).activation is network.activation


def test_widths_may_differ_from_layer_to_layer(path):
    network = MLP(3, 1, 6, 2, key=KEY)
    layers = [eqx.nn.Linear(*sizes, key=KEY) for sizes in ((3, 2), (2, 5), (5, 1))]
    network = eqx.tree_at(lambda net: net.layers, network, (*layers,))
    round_trip(noisy(network=network), path)


def test_double_and_half_precision(path, float64):
    network = MLP(3, "scalar", 4, 1, key=KEY)
    assert network.layers[0].weight.dtype == jnp.float64
    model = sx.Model(network, sx.ARD(sx.HalfCauchy(1 / 3)), sx.likelihoods.Gaussian(0.3))
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), network)
    for one in (model, eqx.tree_at(lambda m: m.network, model, half)):
        round_trip(cases.posterior(NoisyNetworks(one)), path)


def test_double_precision_is_never_halved_in_silence(path):
    with jax.enable_x64(True):
        model = sx.Model(
            MLP(3, "scalar", 4, 1, key=KEY), sx.ARD(sx.Rayleigh(0.3)), sx.likelihoods.Gaussian()
        )
        cases.posterior(NoisyNetworks(model)).save(path)
    with pytest.raises(ValueError, match=r"float64 numbers.*jax_enable_x64"):
        sx.load(path)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_of_every_generator(impl, path):
    posterior = noisy()
    posterior = eqx.tree_at(lambda p: p.key, posterior, jax.random.key(5, impl=impl))
    round_trip(posterior, path)


def test_metadata_come_back_and_are_json(path):
    metadata = {"features": ["age", "größe"], "mean": [0.1, None, True], "nested": {"a": {}}}
    noisy().save(path, metadata=metadata)
    assert storage.read(path).metadata == metadata
    assert storage.info(path).metadata == metadata
    for bad in ({"a": (1, 2)}, {1: "a"}, {"a": math.nan}, {"a": np.float32(1)}, ["a"], {"a": {1}}):
        with pytest.raises(ValueError, match="what JSON holds"):
            noisy().save(path, metadata=bad)
    assert storage.read(path).metadata == metadata


def test_info_says_what_is_inside(path):
    cases.ensemble().save(path)
    told = storage.info(path)
    assert (told.kind, told.num_members, told.network) == ("GaussianNetworks", 3, "MLP")
    assert told.num_parameters == 3 * 5 + 5 + 5 + 1
    assert (told.num_steps, told.needs_network) == (7, False)
    assert told.prior["layers.0"].startswith("ARD(HalfCauchy(scale=1 / 2 / 3)")
    assert told.likelihood.startswith("Gaussian(")


def test_info_reads_no_arrays(path):
    noisy().save(path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert storage.info(path).network == "MLP"
    with pytest.raises(ValueError, match="is not what was written"):
        sx.load(path)


def test_other_tools_can_read_the_arrays(path):
    posterior = noisy()
    posterior.save(path)
    arrays = safetensors.numpy.load_file(path)
    weight = arrays["network.layers.0.weight"]
    np.testing.assert_array_equal(weight, posterior.model.weights["layers.0"])


def test_saving_is_all_or_nothing(path, monkeypatch):
    noisy().save(path)
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            cases.ensemble().save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    cases.ensemble().save(path)
    assert path.read_bytes() != before


def test_files_are_as_readable_as_others(path):
    noisy().save(path)
    other = path.with_name("other")
    other.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_classes_of_ones_own_are_refused(path):
    class Mine(sx.Rayleigh):
        pass

    with pytest.raises(ValueError, match="Mine is a class of your own"):
        noisy(mixture=Mine(0.3)).save(path)

    class Drawn(NoisyNetworks):
        pass

    with pytest.raises(ValueError, match=r"Files hold .*NoisyNetworks.*; not Drawn"):
        cases.posterior(Drawn(build())).save(path)
    assert not path.exists()


def test_scales_of_chains_given_as_whole_numbers_come_back():
    model = sx.Model(
        sx.networks.MLP(2, "scalar", 3, 1, key=jax.random.key(0)),
        sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian(),
    )  # fmt: skip
    unknowns = sx.MCMC(free_scale=10, likelihood_scale=2).unknowns(model)
    assert [type(s) for s in (unknowns.free_scale, unknowns.likelihood_scale)] == [float, float]
