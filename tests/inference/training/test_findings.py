"""What a fit says of itself where it is of no use."""

import dataclasses
import re
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_digits

import scalemix as sx
from scalemix import UselessFitWarning
from scalemix.networks import MLP
from tests.fitting.common import KEY, X, Y, build

EM = sx.VariationalEM(steps=200, chunk_steps=50)


def findings(model, x, y, method, fit=sx.fit, **options):
    """The warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UselessFitWarning)
        fit(model, x, y, method, **(options or {"key": KEY}))
    # Whatever the way in, the line that is named is the caller's.
    assert {warning.filename for warning in caught} <= {__file__}
    return [str(warning.message) for warning in caught]


def test_a_fit_that_is_of_use_says_nothing():
    assert findings(build(mixture=sx.HalfCauchy(1.0)), X, Y, EM) == []
    method = sx.NoiseTraining(steps=200, chunk_steps=50, num_draws=2)
    assert findings(build(), X, Y, method) == []


def test_a_collapse_is_said():
    """A prior with no warm-up and a high temperature leaves nothing on."""
    method = sx.VariationalEM(steps=600, chunk_steps=50, temperature=30.0, warm_up=0.0)
    (said,) = findings(build(mixture=sx.LogUniform()), X, Y, method)
    assert "no better than a constant; everything is switched off at 'layers.0'" in said
    assert "warm_up" in said
    assert "temperature" in said


def test_so_it_is_where_inputs_tell_nothing():
    y = np.random.default_rng(5).normal(size=len(X))
    method = sx.VariationalEM(steps=400, chunk_steps=50, temperature=3.0)
    (said,) = findings(build(mixture=sx.HalfCauchy(1.0)), X, y, method)
    assert "Unless the inputs say nothing about the target" in said


@pytest.mark.parametrize("method", [EM, sx.NoiseTraining(steps=200, chunk_steps=50, num_draws=2)])
def test_divergence_that_stays_finite_is_said(method):
    method = dataclasses.replace(method, learning_rate=10.0)
    (said,) = findings(build(mixture=sx.InverseGamma(3.0, 3.0)), X, Y, method)
    assert re.search(r"worse than a constant, by \S+ nats a training row", said)
    assert "learning_rate" in said


def test_the_fits_of_many_and_the_members_of_ensembles_are_counted():
    rng = np.random.default_rng(5)
    noise = rng.normal(size=len(Y))
    method = sx.VariationalEM(
        steps=600, chunk_steps=50, temperature=30.0, warm_up=0.0, num_members=2
    )
    model, keys = build(mixture=sx.LogUniform()), jax.random.split(KEY, 2)
    said = findings(model, [X, X], [Y, noise], method, fit=sx.fit_many, keys=keys)
    assert [line.split(" explains")[0] for line in said] == [
        "Fit 0 (2 of its 2 networks)", "Fit 1 (2 of its 2 networks)",
    ]  # fmt: skip


def test_a_likelihood_without_a_known_constant_is_let_be():
    class Plain(sx.likelihoods.Gaussian):
        def constant_log_prob(self, y, weight):
            return None

    model = sx.Model(MLP(3, "scalar", 8, 1, key=KEY), sx.ARD(sx.LogUniform()), Plain())
    assert findings(model, X, Y, sx.VariationalEM(steps=20, temperature=30.0)) == []


@pytest.mark.slow
def test_images_of_one_channel_collapse_in_a_short_run_and_say_so():
    """A small convolutional network on digits: what a newcomer tries first."""
    images, labels = load_digits(return_X_y=True)
    x = (images / 16).reshape(-1, 1, 8, 8)
    keys = jax.random.split(KEY, 4)
    relu, pool = eqx.nn.Lambda(jax.nn.relu), eqx.nn.MaxPool2d(2, 2)
    network = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 8, 3, padding=1, key=keys[0]), relu, pool,
            eqx.nn.Conv2d(8, 16, 3, padding=1, key=keys[3]), relu, pool,
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(64, 32, key=keys[1]), relu,
            eqx.nn.Linear(32, 10, key=keys[2]),
        ]
    )  # fmt: skip
    model = sx.Model(
        network, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Categorical(10), example=x[0]
    )
    for steps, collapses in ((600, True), (3000, False)):
        method = sx.VariationalEM(steps=steps, num_draws=1)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UselessFitWarning)
            post = sx.fit(model, x[:1200], labels[:1200], method, key=KEY)
        accuracy = sx.metrics.accuracy(labels[1200:], post.predict(x[1200:]).mean)
        assert bool(caught) == collapses
        assert accuracy < 0.2 if collapses else accuracy > 0.9


def test_no_row_is_left_out_of_the_comparison():
    """Classes that take turns: every other row alone would be one class."""
    x = np.tile([[1.0], [-1.0]], (6_000, 1)) + 0.01 * np.random.default_rng(0).normal(
        size=(12_000, 1)
    )
    labels = np.tile([1.0, 0.0], 6_000)
    for likelihood, outputs in (
        (sx.likelihoods.Categorical(2), 2),
        (sx.likelihoods.Bernoulli(), 1),
    ):
        model = sx.Model(
            MLP(1, outputs, 4, 1, key=KEY), sx.ARD(sx.InverseGamma(3.0, 3.0)), likelihood
        )
        assert findings(model, x, labels, EM) == []


def test_what_is_judged_is_what_is_kept():
    """A run that goes astray after its best state returns that state, and has nothing to say."""

    def astray(step):
        return jnp.where(step < 150, 0.01, 3.0)

    method = dataclasses.replace(
        EM, steps=400, learning_rate=astray, validation_fraction=0.25, patience=100
    )
    assert findings(build(mixture=sx.InverseGamma(3.0, 3.0)), X, Y, method) == []


def test_weights_that_add_up_to_nothing_are_named_as_the_cause():
    light = {"key": KEY, "sample_weight": np.full(len(Y), 1e-3)}
    (said,) = findings(build(mixture=sx.HalfCauchy(1.0)), X, Y, EM, **light)
    assert "The weights of its 60 rows add up to 0.06 only" in said
