"""Inputs far outside the training data are drawn in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scalemix as sx
from scalemix.data.scaling import LEAST_WIDTH, Scaling, draw_in
from scalemix.recipes import Recipe

numbers = st.floats(-1e6, 1e6, width=32)


@settings(derandomize=True, max_examples=200)
@given(numbers, numbers, st.lists(numbers, min_size=1, max_size=5))
def test_nothing_moves_within_a_width_and_nothing_stays_beyond_two(one, other, values):
    low, high = min(one, other), max(one, other)
    width = high - low if high - low > LEAST_WIDTH else 1.0
    seen = np.array(sorted(values))[:, None]
    drawn = draw_in(seen, np.array([[low], [high]]))
    near = (seen >= low - width) & (seen <= high + width)
    np.testing.assert_array_equal(drawn[near], seen[near])
    # Rounding of the distance, at magnitudes of up to 1e6 and a few widths of 2e6.
    slack = 4 * np.finfo(float).eps * 1e7
    assert (drawn >= low - 2 * width - slack).all()
    assert (drawn <= high + 2 * width + slack).all()
    assert (np.diff(drawn[:, 0]) >= -slack).all()


def test_it_goes_on_smoothly():
    ends = np.array([[0.0], [2.0]])
    at = np.array([[4 - 1e-6], [4.0], [4 + 1e-6], [-2 - 1e-6], [6.0], [1e12], [np.inf], [np.nan]])
    drawn = draw_in(at, ends)[:, 0]
    # The second derivative of 2 - 1 / t is -2 at t = 1, so that 1e-6 makes less than 1e-11.
    np.testing.assert_allclose(drawn[:4], at[:4, 0], atol=1e-11)
    # Two widths beyond become one and a half, and far away two; what is no number stays.
    np.testing.assert_allclose(drawn[4:], [5.0, 6.0, np.inf, np.nan])


def test_arrays_of_jax_are_drawn_in_alike():
    rng = np.random.default_rng(0)
    ends = np.sort(rng.normal(size=(2, 3)), axis=0).astype(np.float32)
    seen = (10 * rng.normal(size=(50, 3))).astype(np.float32)
    np.testing.assert_allclose(
        jax.jit(draw_in)(jnp.asarray(seen), jnp.asarray(ends)), draw_in(seen, ends), rtol=1e-6
    )


def test_models_of_tables_draw_in_and_others_do_not():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    y = x[:, 0] + 0.1 * rng.normal(size=40)
    recipe = Recipe(
        hidden=(4,), max_steps=200, num_members=2, temperature=0.1, noise_floor=0.1, residual=False
    )
    post = recipe.fit(x, y, key=jax.random.key(0)).posterior
    assert post.scaling.draws_in
    width = np.ptp(x[:, 0])
    beyond = np.array([1.0, 2.0, 1e3])
    rows = np.stack([x[:, 0].max() + width * beyond, np.zeros(3)], axis=1)
    as_seen = rows.copy()
    as_seen[:, 0] = x[:, 0].max() + width * np.array([1.0, 1.5, 2 - 1e-3])
    plain = sx.Posterior(
        post.networks, post.scaling._replace(draws_in=False), post.history, post.key
    )
    # Inputs are rounded to single precision before they are drawn in.
    np.testing.assert_allclose(
        post.predict(rows).mean, plain.predict(as_seen).mean, rtol=1e-5, atol=1e-5
    )
    assert np.abs(plain.predict(rows).mean - post.predict(rows).mean)[2] > 100


def test_old_scalings_draw_nothing_in():
    seen = np.array([[1e5]])
    scaling = Scaling(np.zeros(1), np.ones(1), 0.0, 1.0, np.array([[0.0], [1.0]]))
    assert scaling.drawn_in(seen) is seen
    assert scaling._replace(draws_in=True).drawn_in(seen) == pytest.approx(3.0, abs=1e-4)


def test_a_column_that_varies_by_rounding_keeps_its_unit():
    ends = np.array([[0.0], [5.6e-17]])
    np.testing.assert_array_equal(draw_in(np.array([[1.0]]), ends), [[1.0]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_what_is_infinite_stays_so_without_a_word(dtype):
    """Cells, and ends that the type does not hold."""
    ends = np.array([[0.0, -1e300, 0.0], [1.0, 1e300, 1e300]])
    scaling = Scaling(np.zeros(3), np.ones(3), 0.0, 1.0, ends, draws_in=True)
    cells = np.array([np.inf, -np.inf, np.nan, -11.0, 0.5], dtype)
    with np.errstate(all="raise"):
        drawn = scaling.drawn_in(np.stack([cells] * 3, axis=1))
    assert drawn.dtype == dtype
    np.testing.assert_allclose(drawn[:, 0], [np.inf, -np.inf, np.nan, 1 / 11 - 2, 0.5], rtol=2e-3)
    np.testing.assert_array_equal(drawn[:, 1:], np.stack([cells] * 2, axis=1))


def test_rows_are_drawn_in_some_at_a_time_and_copied_only_where_they_have_to_be(monkeypatch):
    monkeypatch.setattr("scalemix.data.scaling.AT_A_TIME", 6)
    rng = np.random.default_rng(0)
    scaling = Scaling(
        np.zeros(2), np.ones(2), 0.0, 1.0, np.array([[-1.0, -1.0], [1.0, 1.0]]), draws_in=True
    )
    inside = rng.uniform(-3, 3, size=(20, 2))
    assert scaling.drawn_in(inside) is inside
    far = inside.copy()
    far[[4, 19], [0, 1]] = [-1e4, 7.0]
    kept = far.copy()
    np.testing.assert_array_equal(scaling.drawn_in(far), draw_in(far, scaling.x_ends))
    np.testing.assert_array_equal(far, kept)
