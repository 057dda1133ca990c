"""The coordinates that chains move in: densities, Jacobians and the way back."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import scalemix as sx
from scalemix.data.batches import Data
from scalemix.inference.chains import starts
from scalemix.inference.chains.density import log_density, log_likelihood
from scalemix.inference.chains.starts import from_expanded, start
from scalemix.model.unknowns import Unknowns
from scalemix.networks import MLP, ResNet
from tests.mixtures.cases import CASES

KEY = jax.random.key(0)
FORMS = ["expanded", "hierarchical"]
CONTINUOUS = [case for case in CASES.values() if case.proper and not case.discrete]
RNG = np.random.default_rng(0)
# One of each family.
FAMILIES = list({type(case.mixture): case.mixture for case in CONTINUOUS}.values())
NO_BITS = jnp.zeros(0, bool)


def data_for(num=12):
    x, y = RNG.normal(size=(num, 3)), RNG.normal(size=num)
    return Data(x.astype(np.float32), y.astype(np.float32), np.ones(num, np.float32))


KINDS = [
    sx.ARD,
    sx.DropConnect,
    sx.ADD,
    sx.ARDADD,
    functools.partial(sx.ARDADD, by="output", base=sx.bases.StudentT(3.0)),
]


# Each kind in one form, and each form with two kinds or three, in `make test`; each pair in
# `make test-all`.
@pytest.mark.parametrize(
    ("kind", "form"),
    [
        pytest.param(kind, form, marks=[] if (i + j) % 2 == 1 else pytest.mark.slow)
        for i, kind in enumerate(KINDS)
        for j, form in enumerate(FORMS)
    ],
)
def test_the_density_is_that_of_the_model(kind, form):
    network = ResNet(3, "scalar", 4, 2, key=KEY)
    model = sx.Model(network, kind(sx.HalfCauchy(0.7), scale=0.5), sx.likelihoods.Gaussian())
    unknowns = Unknowns(model, form, 1.5, 2.5)
    data = data_for()

    # As one program: many small ones take longer to compile.
    @jax.jit
    def ours_and_expected():
        position = from_expanded(unknowns, start(unknowns, KEY, jnp.array(False)))
        learned, coordinates = unknowns.unravel(position)
        # Prior and Jacobian of exp(u), and the Gaussians of everything without a prior.
        scales = jax.tree.map(jnp.exp, coordinates)
        weights = model.with_learned(learned).weights
        expected = model.log_prior(weights, scales, parametrization=form)
        expected = expected + sum(jnp.sum(u) for u in jax.tree.leaves(coordinates))
        total = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(learned.network))
        squares = total - sum(jnp.sum(w**2) for w in weights.values())
        num = sum(leaf.size for leaf in jax.tree.leaves(learned.network))
        num = num - sum(w.size for w in weights.values())
        raw = learned.likelihood.raw_scale
        expected = expected - 0.5 * (squares / 1.5**2 + raw**2 / 2.5**2)
        expected = expected - num * np.log(1.5) - np.log(2.5) - 0.5 * (num + 1) * np.log(2 * np.pi)

        sample = unknowns.place(position, NO_BITS)
        outputs = jax.vmap(sample.model.network)(data.x)
        likelihood = jnp.sum(jax.vmap(sample.model.likelihood.log_prob)(outputs, data.y))
        noise = {prior.name: prior.expand(sample.scales[prior.name]) for prior in model.site_priors}
        ours = unknowns.log_prior(position, NO_BITS), log_density(unknowns, data, position, NO_BITS)
        return ours, (expected, expected + likelihood), weights, noise, sample.model.weights

    ours, expected, weights, noise, acting = jax.tree.map(np.asarray, ours_and_expected())
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    for name, weight in weights.items():
        factor = noise[name] if form == "expanded" else np.float32(1)
        np.testing.assert_allclose(acting[name], weight * factor, rtol=1e-6)


@pytest.mark.parametrize("mixture", FAMILIES, ids=repr)
def test_both_forms_are_one_point_with_finite_slopes(mixture):
    model = sx.Model(MLP(3, "scalar", 4, 1, key=KEY), sx.ARD(mixture), _gaussian())
    data = data_for()
    forms = {form: Unknowns(model, form, 1.0, 3.0) for form in FORMS}

    @jax.jit
    def values_and_slopes():
        expanded = start(forms["expanded"], KEY, jnp.array(True))
        values, slopes = [], []
        for unknowns in forms.values():
            position = from_expanded(unknowns, expanded)
            values.append(log_likelihood(unknowns, data, position, NO_BITS))
            slopes.append(
                jax.grad(lambda p, u=unknowns: log_density(u, data, p, NO_BITS))(position)
            )
        return values, slopes

    values, slopes = values_and_slopes()
    assert all(np.isfinite(slope).all() for slope in slopes)
    # Bounded and very small noise is rounded on its way through its coordinate.
    np.testing.assert_allclose(values[0], values[1], rtol=1e-3)


def test_the_first_chain_starts_from_the_network_and_others_do_not():
    model = sx.Model(MLP(3, "scalar", 4, 1, key=KEY), sx.ARD(sx.Rayleigh(0.5)), _gaussian())
    unknowns = Unknowns(model, "expanded", 1.0, 3.0)

    @jax.jit
    def weights_at_start(first):
        return unknowns.place(start(unknowns, KEY, first), NO_BITS).model.weights

    first, other = (jax.tree.map(np.asarray, weights_at_start(first)) for first in (True, False))
    for name, weight in jax.tree.map(np.asarray, model.weights).items():
        np.testing.assert_allclose(first[name], weight, rtol=1e-5)
        assert not np.allclose(other[name], weight)
        np.testing.assert_allclose(np.sort(other[name].ravel()), np.sort(weight.ravel()), rtol=1e-5)


def test_rows_of_weight_zero_do_not_count():
    model = sx.Model(MLP(3, "scalar", 4, 1, key=KEY), sx.ARD(sx.Rayleigh(0.5)), _gaussian())
    unknowns = Unknowns(model, "expanded", 1.0, 3.0)
    position = ravel_pytree(unknowns.form())[0]
    data = data_for()
    padded = Data(
        np.concatenate([data.x, np.full((2, 3), np.inf, np.float32)]),
        np.concatenate([data.y, np.zeros(2, np.float32)]),
        np.concatenate([data.weight, np.zeros(2, np.float32)]),
    )
    value = jax.jit(lambda d: log_likelihood(unknowns, d, position, NO_BITS))
    values = [value(d) for d in (data, padded)]
    np.testing.assert_allclose(*values, rtol=1e-6)


def test_bits_switch_units():
    linear = eqx.nn.Linear(3, "scalar", key=KEY)
    model = sx.Model(linear, sx.ARD(sx.Bernoulli(0.5, 2.0)), _gaussian())
    unknowns = Unknowns(model, "expanded", 1.0, 3.0)
    assert unknowns.num_bits == 3
    sample = unknowns.place(ravel_pytree(unknowns.form())[0], jnp.array([True, False, True]))
    np.testing.assert_array_equal(sample.scales["network"]["unit"], [2.0, 0.0, 2.0])
    expected = linear.weight * jnp.array([[2.0, 0.0, 2.0]])
    np.testing.assert_array_equal(sample.model.weights["network"], expected)


def _gaussian():
    return sx.likelihoods.Gaussian()


def test_a_climb_gives_no_row_up_as_noise():
    """Under per-input noise the mean is pulled as under one level: by residuals, all alike."""
    model = sx.Model(
        MLP(3, 2, 4, 1, key=KEY),
        sx.ARD(sx.Rayleigh(0.5)),
        sx.likelihoods.Gaussian(floor=0.1, per_input=True),
    )
    unknowns, data = Unknowns(model, "expanded", 1.0, 3.0), data_for()

    @jax.jit
    def at_start():
        position = start(unknowns, KEY, jnp.array(True))
        slope = jax.grad(lambda p: starts._height(unknowns, data, p, NO_BITS))(position)
        placed = unknowns.place(position, NO_BITS).model
        outputs = jax.vmap(placed.network)(data.x)
        squares = jax.vmap(placed.likelihood.scale)(outputs) ** 2
        pulls = [
            net.layers[1].bias[0] for net in (unknowns.unravel(slope)[0].network, placed.network)
        ]
        return pulls, outputs[:, 0], squares

    (pull, bias), outputs, squares = jax.tree.map(np.asarray, at_start())
    assert np.ptp(squares) > 0.01
    # By residuals, and by its prior, N(0, 1).
    expected = np.sum(data.y - outputs) / np.mean(squares)
    np.testing.assert_allclose(pull, expected - bias, rtol=1e-4)
