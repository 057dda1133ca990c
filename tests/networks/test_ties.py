"""Layers that are tied together share the scales of their rows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.networks.placing import get_weights, put_weights
from scalemix.networks.sites import find_sites
from scalemix.networks.ties import tie
from tests.networks.cases import Along, Flat

KEY = jax.random.key(0)
GAUSSIAN = sx.likelihoods.Gaussian()
PRIOR = sx.ARD(sx.InverseGamma(3.0, 3.0))
TIE = ("body.cell.weight_hh", "head")


def reader():
    """A recurrent cell and a dense layer that reads its last state."""
    return Flat(Along(eqx.nn.GRUCell(2, 3, key=KEY)), 3)


RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 4, 2)).astype(np.float32)
Y = X.sum(axis=(1, 2))


def model(prior=None):
    prior = {TIE: PRIOR, "body.cell.weight_ih": PRIOR} if prior is None else prior
    return sx.Model(reader(), prior, GAUSSIAN, example=X[0])


def test_a_scale_covers_recurrent_and_outgoing_weights():
    tied = model()
    assert [site.name for site in tied.sites] == ["body.cell.weight_ih", "body.cell.weight_hh+head"]
    assert tied.scale_shapes["body.cell.weight_hh+head"] == {"unit": (3,)}
    apart = model(PRIOR)
    scales = eqx.filter_jit(lambda model: model.draw(key=KEY))(tied)
    same = {
        "body.cell.weight_ih": scales["body.cell.weight_ih"],
        **dict.fromkeys(TIE, scales["body.cell.weight_hh+head"]),
    }
    run = eqx.filter_jit(lambda model, scales: model.with_scales(scales)(X[0]))
    np.testing.assert_allclose(run(tied, scales), run(apart, same), rtol=1e-6)
    # The density of the weights is that of both, and that of the scales counts once.
    sample = eqx.filter_jit(lambda model: model.prior_sample(KEY))(tied)
    assert sample.weights["body.cell.weight_hh+head"].shape == (10, 3)
    both = {"body.cell.weight_hh": sample.weights["body.cell.weight_hh+head"][:9],
            "head": sample.weights["body.cell.weight_hh+head"][9:],
            "body.cell.weight_ih": sample.weights["body.cell.weight_ih"]}  # fmt: skip
    shared = sample.scales["body.cell.weight_hh+head"]
    log_prior = eqx.filter_jit(lambda model, *sample: model.log_prior(*sample))
    twice = log_prior(
        apart,
        both,
        {"body.cell.weight_ih": sample.scales["body.cell.weight_ih"], **dict.fromkeys(TIE, shared)},
    )
    once = twice - jnp.sum(PRIOR.mixture.log_prob(shared["unit"]))
    np.testing.assert_allclose(log_prior(tied, *sample), once, rtol=1e-5)


def test_weights_come_out_as_they_went_in():
    sites = find_sites(reader())
    tied = (tie(sites, TIE),)
    weights = get_weights(reader(), tied)
    again = put_weights(reader(), tied, weights)
    assert eqx.tree_equal(again, reader())
    kernel = {"a": jnp.ones((3, 2)), "b": jnp.arange(6.0).reshape(2, 3)}
    rules = [sx.PathRule("*/a", row_axis=0, output_axis=1), sx.PathRule("*/b", row_axis=1)]
    network = sx.networks.from_function(lambda p, x: p["b"] @ x, kernel, rules=rules)
    both = tie(find_sites(network), ("params.a", "params.b"))
    np.testing.assert_array_equal(both.weight(network)[:2], kernel["a"].T)
    assert eqx.tree_equal(put_weights(network, (both,), get_weights(network, (both,))), network)


@pytest.mark.parametrize(
    "method",
    [
        sx.VariationalEM(steps=4, num_members=2),
        sx.NoiseTraining(steps=4),
        # NUTS takes longer to compile.
        sx.MCMC(num_chains=1, num_warmup=2, num_samples=4, sampler="mclmc", warm_start=False),
    ],
)
@pytest.mark.filterwarnings("ignore::scalemix.posterior.diagnostics.ConvergenceWarning")
def test_every_method_takes_ties(method, tmp_path):
    post = sx.fit(model(), X, Y, method, key=KEY)
    mean = post.predict(X).mean
    assert np.isfinite(mean).all()
    post.save(tmp_path / "file")
    loaded = sx.load(tmp_path / "file", network=reader())
    np.testing.assert_array_equal(loaded.predict(X).mean, mean)
    units = post.relevance().units["body.cell.weight_hh+head"]
    assert units.shape[-1] == 3


def test_a_unit_that_is_off_is_off_everywhere():
    post = sx.fit(model(), X, Y, sx.VariationalEM(steps=4), key=KEY)
    keep = {
        name: {group: np.ones(shape) for group, shape in groups.items()}
        for name, groups in post.model.scale_shapes.items()
    }
    keep["body.cell.weight_hh+head"]["unit"][1] = 0
    masked = post.networks.masked(keep).model.network
    assert not masked.head.weight[:, 1].any()
    assert not masked.body.cell.weight_hh[:, 1].any()
    assert masked.head.weight[:, 0].any()


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({("body.cell.weight_hh", "tail"): PRIOR}, "'tail' is none that learns"),
        ({("body.cell.weight_hh", "body.cell.weight_ih"): PRIOR}, "'body.cell.weight_ih' has 2"),
        ({("head", "head"): PRIOR}, "each once"),
        ({TIE: PRIOR, "head": PRIOR}, "matches no layer"),
        ({("head", 3): PRIOR}, "names of layers"),
    ],
)
def test_bad_ties_are_refused(prior, message):
    with pytest.raises(ValueError, match=message):
        model(prior)
