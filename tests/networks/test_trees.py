"""Functions of a tree of parameters are networks like any other."""

import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.networks.gaussians import find_uses
from scalemix.networks.readers import input_sites, output_sites

KEY = jax.random.key(0)
GAUSSIAN = sx.likelihoods.Gaussian()
ARD = sx.ARD(sx.InverseGamma(3.0, 3.0))


def apply_mlp(params, x):
    first, last = params["Dense_0"], params["Dense_1"]
    x = jnp.tanh(x @ first["kernel"] + first["bias"])
    return x @ last["kernel"] + last["bias"]


def apply_conv(params, x):
    conv, last = params["Conv_0"], params["Dense_0"]
    # Equinox has channels first.
    x = jax.lax.conv_general_dilated(
        x.T[None], conv["kernel"], (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")
    )[0]
    x = jnp.mean(jnp.tanh(x + conv["bias"][None]), axis=0)
    return x @ last["kernel"] + last["bias"]


class Convolutional(eqx.Module):
    conv: eqx.nn.Conv1d
    last: eqx.nn.Linear

    def __call__(self, x):
        return self.last(jnp.mean(jnp.tanh(self.conv(x)), axis=1))


def flat(layer):
    return {"kernel": jnp.moveaxis(layer.weight, (0, 1), (-1, -2)), "bias": layer.bias.reshape(-1)}


def mlps():
    net = eqx.nn.MLP(3, 1, 4, 1, activation=jnp.tanh, key=KEY)
    params = {f"Dense_{i}": flat(layer) for i, layer in enumerate(net.layers)}
    return net, sx.networks.from_function(apply_mlp, params), (3,)


def convolutions():
    net = Convolutional(eqx.nn.Conv1d(2, 3, 2, key=KEY), eqx.nn.Linear(3, 1, key=KEY))
    params = {"Conv_0": flat(net.conv), "Dense_0": flat(net.last)}
    return net, sx.networks.from_function(apply_conv, params), (2, 5)


PAIRS = {"dense": mlps, "convolution": convolutions}
# Noise that is quick to compile.
NOISE = sx.Uniform(0.5, 1.5)
STRUCTURES = {
    "unit": sx.ARD(NOISE),
    "output": sx.ARD(NOISE, by="output"),
    "weight": sx.DropConnect(NOISE),
}


def models(name, prior=ARD):
    ours, tree, shape = PAIRS[name]()
    example = np.ones(shape, "float32")
    return [sx.Model(net, prior, GAUSSIAN, example=example) for net in (ours, tree)]


def as_tree(model, values):
    """What one has by site for a network of Equinox, for a tree with the same weights."""

    def moved(value):
        return jnp.moveaxis(value, (0, 1), (-1, -2)) if value.ndim > 1 else value

    pairs = zip(model.sites, values.values(), strict=True)
    return {site.name: jax.tree.map(moved, value) for site, value in pairs}


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("name", PAIRS)
def test_scales_act_as_in_the_same_network_of_equinox(name, structure):
    ours, theirs = models(name, STRUCTURES[structure])
    x = jax.random.normal(KEY, (4, *ours.example.shape))
    scales = ours.draw(4, key=KEY)
    moved = jax.jit(jax.vmap(lambda draw: as_tree(theirs, draw)))(scales)
    assert theirs.scale_shapes == jax.tree.map(lambda s: s.shape[1:], moved)
    outputs = eqx.filter_jit(lambda model, scales: model.outputs(x, scales))
    np.testing.assert_allclose(outputs(ours, scales), outputs(theirs, moved), rtol=2e-5)
    one = jax.tree.map(lambda s: s[0], scales)
    log_prior = eqx.filter_jit(lambda model, weights, scales: model.log_prior(weights, scales))
    np.testing.assert_allclose(
        log_prior(theirs, as_tree(theirs, ours.weights), as_tree(theirs, one)),
        log_prior(ours, ours.weights, one),
        rtol=1e-5,
    )


@pytest.mark.parametrize("name", PAIRS)
def test_the_way_through_the_network_is_seen(name):
    ours, theirs = models(name)
    x = jnp.ones(ours.example.shape)
    for find in (input_sites, output_sites):
        numbers = [
            [model.sites.index(site) for site in find(model.network, model.sites, model.example)]
            for model in (ours, theirs)
        ]
        assert numbers[0] == numbers[1] != []
    once = [
        find_uses(model.network, model.sites, x[None]).once.values() for model in (ours, theirs)
    ]
    assert [*once[0]] == [*once[1]]


rng = np.random.default_rng(0)
X = rng.normal(size=(40, 3))
Y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=40)
SHORT = {"steps": 9, "chunk_steps": 9, "batch_size": 8}
QUIET = pytest.mark.filterwarnings("ignore::UserWarning")


def fits(method, prior=ARD):
    return [sx.fit(model, X, Y, method, key=KEY) for model in models("dense", prior)]


@pytest.fixture(scope="module")
def by_em():
    return fits(sx.VariationalEM(**SHORT))


def test_em_has_the_same_bound_and_relevance(by_em):
    ours, theirs = by_em
    np.testing.assert_allclose(theirs.history.objective, ours.history.objective, rtol=1e-4)
    weights = as_tree(theirs.model, ours.model.weights)
    for name, weight in theirs.model.weights.items():
        np.testing.assert_allclose(weight, weights[name], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(theirs.relevance().inputs, ours.relevance().inputs, rtol=1e-3)
    assert theirs.relevance().hidden_layers == ("params.Dense_0.kernel",)


@QUIET
def test_noise_training_takes_the_same_steps():
    ours, theirs = fits(sx.NoiseTraining(**SHORT), sx.ARD(NOISE))
    np.testing.assert_allclose(theirs.history.objective, ours.history.objective, rtol=1e-4)


@QUIET
def test_chains_run():
    # NUTS takes longer to compile.
    method = sx.MCMC(
        num_chains=2, num_warmup=3, num_samples=4, sampler="mclmc", warm_start=False
    )  # fmt: skip
    post = sx.fit(models("dense")[1], X, Y, method, key=KEY)
    mean = post.predict(X).mean
    assert np.isfinite(mean).all()
    assert np.ptp(mean) > 0


def test_rows_are_masked(by_em):
    masked = by_em[1].prune(X, mask_only=True, threshold=np.inf, tolerance=10.0)
    weights = masked.posterior.model.weights
    off = masked.report.rows_off["params.Dense_0.kernel"][0]
    assert off == (np.asarray(weights["params.Dense_0.kernel"]) == 0).all(axis=1).sum() > 0
    small = by_em[1].prune(X, threshold=np.inf, tolerance=10.0)
    before, after = small.report.num_stored
    assert after < before


def test_a_file_needs_the_function(by_em, tmp_path):
    path = tmp_path / "tree.scalemix"
    by_em[1].save(path)
    zeros = jax.tree.map(np.zeros_like, by_em[1].model.network.params)
    again = sx.load(path, network=sx.networks.from_function(apply_mlp, zeros))
    np.testing.assert_array_equal(again.predict(X).mean, by_em[1].predict(X).mean)
    with pytest.raises(ValueError, match=r"FunctionNetwork.*Pass network="):
        sx.load(path)


def test_parts_are_frozen_by_name():
    model = sx.Model(mlps()[1], ARD, GAUSSIAN, frozen=["params.Dense_0"])
    assert model.frozen == ("params.Dense_0.bias", "params.Dense_0.kernel")
    table = str(model.describe())
    assert [row.layer for row in model.describe().rows] == ["*/kernel"]
    assert "no prior: params.Dense_1.bias" in table


def test_layers_of_a_tree_with_a_path_around_them_are_found():
    params = {"first": jnp.ones((3, 3)), "last": jnp.ones((3, 1))}
    network = sx.networks.from_function(
        lambda params, x: (x + jnp.tanh(x @ params["first"])) @ params["last"],
        params,
        rules=[sx.PathRule("*", row_axis=0, output_axis=1)],
    )
    model = sx.Model(network, sx.ADD(sx.HalfCauchy(1.0)), GAUSSIAN)
    kinds = {name: type(s).__name__ for name, s in model.structures.items()}
    assert kinds == {"params.first": "ADD", "params.last": "ARD"}


def test_a_tree_can_be_a_part_of_a_network():
    net, tree, _ = mlps()
    whole = eqx.nn.Sequential(
        [tree, eqx.nn.Lambda(jnp.tanh), net.layers[0].__class__(1, 1, key=KEY)]
    )
    names = [site.name for site in sx.networks.find_sites(whole)]
    assert names == [
        "layers.0.params.Dense_0.kernel", "layers.0.params.Dense_1.kernel", "layers.2",
    ]  # fmt: skip


# ------------------------------------------------------------------------- which rule holds


def blank(*shape):
    return np.zeros(shape, "float32")


def layer(kernel, bias=None):
    return {"kernel": blank(*kernel)} | ({} if bias is None else {"bias": blank(*bias)})


def attention(stack=(), biases=True):
    def part(kernel, bias):
        return layer((*stack, *kernel), (*stack, *bias) if biases else None)

    read = {name: part((6, 2, 4), (2, 4)) for name in ("query", "key", "value")}
    return read | {"out": part((2, 4, 5), (5,))}


# Rows, outputs and layers that are stacked, for each kernel or embedding.
CONVENTIONS = {
    "dense": (layer((3, 4), (4,)), [(3, 4, ())]),
    "no bias": (layer((3, 4)), [(3, 4, ())]),
    "convolution": (layer((5, 5, 3, 4), (4,)), [(3, 4, ())]),
    "stacked dense": (layer((7, 3, 4), (7, 4)), [(3, 4, (7,))]),
    "stacked convolution": (layer((7, 5, 3, 4), (7, 4)), [(3, 4, (7,))]),
    "outputs on two axes": (layer((3, 2, 4), (2, 4)), [(3, None, ())]),
    "embedding": ({"embedding": blank(9, 4)}, [(4, None, ())]),
    # In the order of the names: key, out, query, value.
    "attention": (attention(), [(6, None, ()), (2, 5, ()), (6, None, ()), (6, None, ())]),
    "attention without biases": (
        attention(biases=False),
        [(6, None, ()), (2, 5, ()), (6, None, ()), (6, None, ())],
    ),
    "stacked attention": (
        attention((3,)),
        [(6, None, (3,)), (2, 5, (3,)), (6, None, (3,)), (6, None, (3,))],
    ),
    "convolutions with the names of attention": (
        {part: layer((1, 1, 3, 3), (3,)) for part in ("query", "key", "value", "out")},
        [(3, 3, ())] * 4,
    ),
}


@pytest.mark.parametrize("name", CONVENTIONS)
@pytest.mark.parametrize("nested", [False, True])
def test_conventions_of_flax(name, nested):
    params, expected = CONVENTIONS[name]
    network = sx.networks.from_function(lambda p, x: x, {"part": params} if nested else params)
    sites = sx.networks.find_sites(network)
    assert [(site.num_rows, site.count("output"), site.stack) for site in sites] == expected


def test_the_first_rule_that_matches_holds():
    params = {"a": blank(2, 3), "b": [blank(2, 3), blank(3)], "c": blank(2)}
    rules = [sx.PathRule("params.a", row_axis=-1), sx.PathRule("params/[ab]*", row_axis=0)]
    network = sx.networks.from_function(lambda p, x: x, params, rules=rules)
    sites = sx.networks.find_sites(network)
    assert {site.name: site.num_rows for site in sites} == {
        "params.a": 3, "params.b.0": 2, "params.b.1": 3,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("params", "rules", "message"),
    [
        ({"w": blank(2, 3)}, None, r"None of the parameters is a 'kernel'.*params\.w.*PathRule"),
        ({}, None, "there are none"),
        ({"w": blank(2, 3)}, [], "one PathRule or more"),
        (layer((2, 2, 4), (2, 4)), None, r"cannot be told.*'params\.kernel'.*stacked"),
        ({"w": blank(2, 3)}, [sx.PathRule("w", 0)], r"matches none of the parameters: params\.w"),
        ({"w": blank(2, 3)}, [sx.PathRule("*", 2)], r"row_axis=2 is none of its 2 axes"),
        ({"w": blank(2, 3)}, [sx.PathRule("*", 0, 1, ndim=3)], r"'params\.w'.*3 of them"),
        ({"w": blank()}, [sx.PathRule("*", 0)], r"does not fit 'params\.w'.*must have axes\."),
        ({"a": {"b.c": blank(2)}, "a.b": {"c": blank(2)}}, None, r"called 'a\.b\.c'"),
        ({"w": blank(2, 3)}, [sx.PathRule("*", 1, -1)], "one and the same axis"),
        ({"w": blank(2, 3)}, ["*"], "one PathRule or more"),
    ],
)  # fmt: skip
def test_wrong_patterns_are_explained(params, rules, message):
    with pytest.raises(ValueError, match=message):
        sx.networks.from_function(lambda p, x: x, params, rules=rules)


def test_what_is_no_function_is_refused():
    with pytest.raises(ValueError, match="in place of the function"):
        sx.networks.from_function({}, apply_mlp)
    with pytest.raises(ValueError, match="cannot be hashed"):
        sx.networks.from_function(eqx.nn.Linear(2, 1, key=KEY), {"kernel": blank(2, 3)})
    with pytest.raises(ValueError, match=r"networks\.from_function"):
        sx.Model(lambda x: x, ARD, GAUSSIAN)
    _, model = models("dense")
    with pytest.raises(
        ValueError, match=r"Scales by token on 'params\.Dense_0\.kernel'.*\*/kernel"
    ):
        sx.Model(model.network, sx.ARD(sx.HalfCauchy(1.0), by="token"), GAUSSIAN)


@pytest.mark.parametrize(
    ("home", "advice"),
    [("flax.nnx.module", r"networks\.from_nnx\(module\)"), ("flax.linen.module", "from_function")],
)
def test_modules_of_flax_are_told_what_to_call(home, advice):
    base = type("Module", (), {"__module__": home, "__call__": lambda self, x: x})
    with pytest.raises(ValueError, match=advice):
        sx.Model(type("Mine", (base,), {})(), ARD, GAUSSIAN)


def test_flax_is_asked_for_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "flax.nnx", None)
    with pytest.raises(ImportError, match="pip install flax"):
        sx.networks.from_nnx(object())
