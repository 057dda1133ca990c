"""What is frozen stays as it is, whatever is done with the rest."""

import operator
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.preparation import InputWarning
from scalemix.data.scaling import Scaling
from scalemix.inference.training.jobs import restart
from scalemix.networks import MLP, ResNet
from scalemix.networks.placing import ScaledNetwork
from scalemix.posterior.networks import NoisyNetworks
from scalemix.posterior.posterior import History
from scalemix.posterior.storage import files

# The body reads a table that is standardised, which is no matter here.
pytestmark = pytest.mark.filterwarnings("ignore::scalemix.data.preparation.InputWarning")

KEY = jax.random.key(0)
PRIOR = sx.ARD(sx.InverseGamma(2.0, 1.0))
GAUSSIAN = sx.likelihoods.Gaussian()
X = np.random.default_rng(0).normal(size=(40, 3))
Y = X[:, 0] - X[:, 1]


class Body(eqx.Module):
    """A body that was trained elsewhere, statistics of a norm, and a head to be learned."""

    body: MLP
    statistics: dict
    hidden: eqx.nn.Linear
    head: eqx.nn.Linear

    def __init__(self):
        keys = jax.random.split(KEY, 3)
        self.body = MLP(3, 4, 5, 1, key=keys[0])
        self.statistics = {"mean": jnp.arange(4.0), "std": 1 + jnp.arange(4.0)}
        self.hidden = eqx.nn.Linear(4, 4, key=keys[1])
        self.head = eqx.nn.Linear(4, "scalar", key=keys[2])

    def __call__(self, x):
        h = jax.lax.stop_gradient(self.body(x))
        h = (h - self.statistics["mean"]) / self.statistics["std"]
        return self.head(jnp.tanh(self.hidden(h)))


BODY = tuple(f"body.layers.{i}.{what}" for i in (0, 1) for what in ("weight", "bias"))
STATISTICS = "statistics.mean", "statistics.std"


def model(frozen=("body.*", "statistics"), prior=PRIOR, network=None):
    return sx.Model(network or Body(), prior, GAUSSIAN, frozen=list(frozen))


def frozen_tree(*chosen):
    """As Equinox's documentation builds a filter: False everywhere, then True at some places."""
    nothing = jax.tree.map(lambda _: False, Body())
    return eqx.tree_at(lambda net: [place(net) for place in chosen], nothing, [True] * len(chosen))


def of_four(leaf):
    return eqx.is_array(leaf) and leaf.shape == (4,)


@pytest.mark.parametrize(
    ("frozen", "expected"),
    [
        (None, ()),
        ([], ()),
        ("body", BODY),
        (["body.*"], BODY),
        (("statistics.*", "body.layers.0"), (*BODY[:2], *STATISTICS)),
        (["body.layers.[01].bias", "head.weight"], (BODY[1], BODY[3], "head.weight")),
        (of_four, (BODY[3], *STATISTICS, "hidden.bias")),
        (frozen_tree(lambda n: n.body.layers[0].weight), BODY[:1]),
        # A prefix: one answer for all of the body.
        (frozen_tree(lambda n: n.body, lambda n: n.statistics), (*BODY, *STATISTICS)),
        # What a filter trains is what is left.
        (jax.tree.map(operator.not_, frozen_tree(lambda n: n.head.weight, lambda n: n.head.bias)),
         (*BODY, *STATISTICS, "hidden.weight", "hidden.bias")),
    ],
)  # fmt: skip
def test_what_is_frozen_is_said_once(frozen, expected):
    partly = sx.Model(Body(), PRIOR, GAUSSIAN, frozen=frozen)
    assert partly.frozen == expected
    learned = eqx.filter(partly, partly.learnable())
    leaves, _ = jax.tree_util.tree_flatten_with_path(learned.network)
    names = {jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in leaves}
    every = {
        *BODY,
        *STATISTICS,
        *(f"{n}.{w}" for n in ("hidden", "head") for w in ("weight", "bias")),
    }
    assert names == every - {*expected}
    # A prior stands on what learns, and on nothing else.
    weights = {name.removesuffix(".weight") for name in names if name.endswith("weight")}
    assert {site.name for site in partly.sites} == weights


def test_descriptions_tell():
    text = str(model().describe())
    assert "\nfrozen: body.layers.0.weight, body.layers.0.bias, body.layers.1.weight" in text
    assert "\nno prior: hidden.bias, head.bias\n" in text
    assert "body" not in text.split("\nno prior")[0]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda: model(["boby.*"]), r"'boby\.\*' matches no array.*body\.layers\.0\.weight, body"),
        (lambda: model(["body", "head.weigth"]), "'head.weigth' matches no array"),
        (lambda: sx.Model(Body(), PRIOR, GAUSSIAN, frozen=[True, False]), "patterns of names"),
        (lambda: sx.Model(Body(), PRIOR, GAUSSIAN, frozen=3), "a function from a leaf"),
        (lambda: model(["network"]), r"All layers .* are frozen \(body\.layers\.0, .*head\)"),
        (
            lambda: model(["body"], {"body.layers.0": PRIOR, "head": PRIOR}),
            r"prior\['body\.layers\.0'\] stands on what is frozen",
        ),
        (lambda: model(["body"], {"body.*": PRIOR, "head": PRIOR}), r"does not learn carries no"),
    ],
)
def test_what_cannot_be_is_refused(build, reason):
    with pytest.raises(ValueError, match=reason):
        build()


def test_patterns_of_priors_pass_over_what_is_frozen():
    assert {*model(["body"], {"*": PRIOR}).structures} == {"hidden", "head"}
    assert {*model(["body"], {"body.*": None, "head": PRIOR}).structures} == {"head"}
    # Layers around which a frozen branch leads have a path around them only if it lets through.
    network = ResNet(3, "scalar", 3, 2, key=KEY)
    shut = eqx.tree_at(lambda n: n.first.weight, network, jnp.zeros((3, 3)))
    residual = model(["first"], sx.ADD(sx.HalfCauchy(1.0)), network)
    assert "layer" in residual.structures["blocks.0"].groups
    with pytest.raises(ValueError, match="no layer of this network has a path around it"):
        model(["first"], sx.ADD(sx.HalfCauchy(1.0)), shut)


def arrays(tree):
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, eqx.is_array))
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def assert_kept(network, frozen):
    given = arrays(Body())
    for name, value in arrays(network).items():
        # One number has no other order.
        if value.size > 1:
            assert np.array_equal(value, given[name]) == (name in frozen), name


def test_a_new_start_reorders_what_learns():
    again = restart(model(), jax.random.key(2))
    assert_kept(again.network, again.frozen)
    # Nothing frozen, nothing kept.
    assert_kept(restart(model([]), jax.random.key(2)).network, ())


@eqx.filter_jit
def draw(networks, index, key):
    """As one program, where each operation would be one of its own."""
    return networks(index, key).network


@pytest.mark.parametrize(
    "method",
    [
        sx.NoiseTraining(steps=3, num_draws=2, num_members=2),
        sx.VariationalEM(steps=3, num_members=2),
        sx.MCMC(num_chains=2, num_warmup=3, num_samples=2, sampler="mclmc", warm_start_steps=2),
    ],
    ids=lambda method: type(method).__name__,
)
def test_no_fit_changes_what_is_frozen(method, tmp_path):
    posterior = sx.fit(model(), X, Y, method, key=KEY)
    posterior.save(tmp_path / "frozen.scalemix")
    loaded = sx.load(tmp_path / "frozen.scalemix", network=Body())
    for one in (posterior, loaded):
        assert one.model.frozen == (*BODY, *STATISTICS)
        num = one.networks.num_places
        for index in range(num):
            drawn = draw(one.networks, jnp.int32(index), jax.random.key(index))
            drawn = drawn.network if isinstance(drawn, ScaledNetwork) else drawn
            given = arrays(Body())
            for name in one.model.frozen:
                np.testing.assert_array_equal(arrays(drawn)[name], given[name])
        # A frozen layer has no scales and no units of the prior.
        assert {*one.relevance().layers} == {"hidden", "head"}
    assert_kept(posterior.model.network, posterior.model.frozen)
    np.testing.assert_array_equal(posterior.predict(X).mean, loaded.predict(X).mean)


def test_nothing_is_believed_of_what_is_frozen():
    """Chains sample what learns: no number of a frozen array is among the unknowns."""
    unknowns = sx.MCMC().unknowns(model())
    learned, scales = unknowns.form()
    assert sum(leaf.size for leaf in jax.tree.leaves(learned.network)) == 16 + 4 + 4 + 1
    assert {*scales} == {"hidden", "head"}


def test_files_of_before_load(tmp_path, monkeypatch):
    write = files.container.write

    def older(path, header, by_name):
        known = {k: v for k, v in header.items() if k not in ("frozen", "example")}
        assert len(known) == len(header) - 2
        write(path, known, by_name)

    monkeypatch.setattr(files.container, "write", older)
    posterior = noisy(model([], network=MLP(3, "scalar", 4, 1, key=KEY)))
    posterior.save(tmp_path / "old.scalemix")
    loaded = sx.load(tmp_path / "old.scalemix")
    assert loaded.model.frozen == ()
    assert loaded.model.example == posterior.model.example


@pytest.mark.parametrize(
    ("entry", "value", "reason"),
    [
        ("frozen", ["no.such"], "a frozen array 'no.such'"),
        ("frozen", [["layers.0.weight"]], "a frozen array"),
        ("frozen", ["layers.0.weight"], "'layers.0', which is frozen"),
        ("frozen", "layers.0.weight", "entry 'frozen'"),
        ("example", {"shape": [-1], "dtype": "float32"}, "shape of its example"),
        ("example", {"shape": [3], "dtype": "nonsense"}, "type of its example"),
        ("example", {"shape": [4], "dtype": "float32"}, "cannot be called on one example"),
    ],
)
def test_files_with_other_words_are_refused(entry, value, reason, tmp_path, monkeypatch):
    write = files.container.write
    monkeypatch.setattr(
        files.container,
        "write",
        lambda path, head, arrays: write(path, head | {entry: value}, arrays),
    )
    noisy(model([], network=MLP(3, "scalar", 4, 1, key=KEY))).save(tmp_path / "other.scalemix")
    with pytest.raises(ValueError, match=reason):
        sx.load(tmp_path / "other.scalemix")


def noisy(of):
    scaling = Scaling(np.zeros(3), np.ones(3), 0.0, 1.0)
    history = History(np.zeros(1), np.zeros(0), {})
    return sx.Posterior(NoisyNetworks(of), scaling, history, KEY)


def test_pruning_leaves_what_is_frozen_whole():
    network = MLP(3, "scalar", 4, 1, key=KEY)
    prior = sx.ARD(sx.Bernoulli(0.9))
    posterior = noisy(model(["layers.0"], prior, network))
    for mask_only in (True, False):
        limits = {"threshold": np.inf, "tolerance": 10.0, "mask_only": mask_only}
        small = posterior.prune(X, **limits).posterior.model
        np.testing.assert_array_equal(small.weights["layers.1"], np.zeros((1, 4)))
        np.testing.assert_array_equal(small.network.layers[0].weight, network.layers[0].weight)
        assert small.frozen == ("layers.0.weight", "layers.0.bias")


def test_a_run_is_not_continued_with_something_else_frozen(tmp_path):
    path, method = tmp_path / "run", sx.NoiseTraining(steps=2, num_draws=2)
    sx.fit(model(), X, Y, method, key=KEY, checkpoint=path)
    with pytest.raises(ValueError, match="another run: not the same model"):
        sx.fit(model(["body"]), X, Y, method, key=KEY, checkpoint=path, resume=True)


def test_a_frozen_layer_that_reads_a_table_is_told_of():
    """It was trained on the columns as they are, and `fit` standardises them."""
    network = MLP(3, "scalar", 4, 1, key=KEY)
    x = 100.0 + np.random.default_rng(0).normal(size=(20, 3))
    model = sx.Model(network, PRIOR, GAUSSIAN, frozen=["layers.0"])
    method = sx.VariationalEM(steps=2)
    with pytest.warns(
        InputWarning, match=r"'layers.0' is frozen and reads x.*standardize='target'"
    ):
        post = sx.fit(model, x, x[:, 0], method, key=KEY)
    assert post.scaling.x_mean.size == 3
    post = sx.fit(model, x, x[:, 0], method, key=KEY, standardize="target")
    assert post.scaling.x_mean.size == 0
    assert post.scaling.y_mean == pytest.approx(x[:, 0].mean())
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        last = sx.Model(network, PRIOR, GAUSSIAN, frozen=["layers.1"])
        sx.fit(last, x, x[:, 0], method, key=KEY)


def test_two_arrays_of_one_name_cannot_be_told_apart():
    class Twins(eqx.Module):
        parts: dict
        last: eqx.nn.Linear

        def __call__(self, x):
            return self.last(x + self.parts["a.b"] + self.parts["a"]["b"])

    parts = {"a.b": jnp.ones(3), "a": {"b": jnp.ones(3)}}
    network = Twins(parts, eqx.nn.Linear(3, "scalar", key=KEY))
    with pytest.raises(ValueError, match=r"Two arrays of the network are called 'parts\.a\.b'"):
        sx.Model(network, PRIOR, GAUSSIAN, frozen=lambda leaf: leaf is parts["a.b"])


def test_arrays_of_a_type_that_cannot_be_trained_are_refused():
    prior, gaussian = sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian()
    half = eqx.nn.MLP(3, "scalar", 4, 1, dtype=jnp.float16, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"'layers.0.weight' is of the type float16.*bfloat16"):
        sx.Model(half, prior, gaussian)
    sx.Model(
        eqx.nn.MLP(3, "scalar", 4, 1, dtype=jnp.bfloat16, key=jax.random.key(0)), prior, gaussian
    )
