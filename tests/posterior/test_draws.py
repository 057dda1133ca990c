"""Draws that are made once and kept are the same as those that are made where they are used."""

import threading

import equinox as eqx
import jax
import numpy as np
import pytest

import scalemix as sx
from scalemix._remembered import MEMORY
from scalemix.networks import MLP
from scalemix.posterior import draws as drawing
from scalemix.posterior import streaming
from scalemix.posterior.draws import Draws, MadeDraws, make_draws
from scalemix.posterior.networks import OneNetwork
from scalemix.posterior.storage import to_bytes
from tests.posterior.storage.cases import NETWORKS, build, ensemble, noisy

KEY = jax.random.key(5)
X = np.random.default_rng(1).normal(size=(4, 3))
EPS = np.finfo(np.float32).eps


def with_own_noise():
    """Weights that are certain, in a network whose call draws noise in prediction too."""

    def call(network, x, key):
        return network(x) + jax.random.normal(key)

    network = sx.networks.with_call(MLP(3, "scalar", 5, 1, key=KEY), call)
    return OneNetwork(build(network=network))


KINDS = {name: make for name, (make, _) in NETWORKS.items()} | {
    "Ensemble": lambda: ensemble().networks,
    "own noise": with_own_noise,
}


@pytest.mark.parametrize("kind", KINDS)
def test_made_draws_are_those_that_are_made_one_by_one(kind):
    draws = Draws(KINDS[kind](), np.arange(7, dtype=np.int32), KEY)
    made = make_draws(draws)
    assert isinstance(made, MadeDraws)
    x = X.astype(np.float32)
    likelihoods, outputs, lost = streaming.draw_outputs(draws, 1, x)
    again, others, also_lost = streaming.draw_outputs(made, 1, x)
    # Two layers, of sums of three and five products: each rounds, and so do the draws.
    np.testing.assert_allclose(outputs, others, rtol=0, atol=20 * EPS * np.abs(outputs).max())
    np.testing.assert_array_equal(lost, also_lost)
    assert likelihoods.fixed == again.fixed
    jax.tree.map(np.testing.assert_array_equal, likelihoods.varying, again.varying)


@pytest.fixture
def made(monkeypatch):
    """How many draws were made at once, each time that it happened."""
    numbers, program = [], drawing._program()

    def count(draws):
        numbers.append(draws.num)
        return program(draws)

    monkeypatch.setattr(drawing, "_program", lambda: count)
    return numbers


def test_a_posterior_draws_once_and_other_keys_draw_anew(made):
    post = noisy()
    first = post.predict(X, num_draws=9)
    np.testing.assert_array_equal(first.mean, post.predict(X, num_draws=9).mean)
    np.testing.assert_array_equal(first.mean[:2], post.predict(X[:2], num_draws=9).mean)
    assert made == [9]
    # Its own key is the same as none, and a prediction keeps the draws of a key that it was given.
    own = post.predict(X, num_draws=9, key=post.key)
    np.testing.assert_array_equal(first.mean, own.mean)
    np.testing.assert_array_equal(first.log_prob(np.ones(4)), own.log_prob(np.ones(4)))
    assert made == [9, 9]
    other = post.predict(X, num_draws=9, key=KEY).mean
    assert np.all(first.mean != other)
    assert np.all(first.mean != post.predict(X, num_draws=8).mean)
    # A posterior that differs in the key alone has draws of its own.
    moved = eqx.tree_at(lambda p: p.key, post, KEY)
    np.testing.assert_array_equal(moved.predict(X, num_draws=9).mean, other)
    samples = first.sample(KEY, 9)
    assert np.all(samples != first.sample(post.key, 9))
    np.testing.assert_array_equal(post.predict(X, num_draws=9).mean, first.mean)


def test_draws_that_take_much_memory_are_not_kept(made, monkeypatch):
    post = noisy()
    size = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(post.model.network, eqx.is_array)))
    # The likelihood has two numbers more.
    monkeypatch.setattr(drawing, "NUMBERS_AT_ONCE", 9 * (size + 2))
    kept = post.predict(X, num_draws=9).mean
    before = MEMORY.num_bytes
    post.predict(X, num_draws=10).mean  # noqa: B018
    assert made == [9]
    assert MEMORY.num_bytes == before
    # What little is kept may go at any time.
    monkeypatch.setattr(MEMORY, "most_bytes", 0)
    np.testing.assert_array_equal(ensemble().predict(X).mean, ensemble().predict(X).mean)
    assert MEMORY.num_bytes == 0
    np.testing.assert_array_equal(post.predict(X, num_draws=9).mean, kept)


def test_files_hold_nothing_of_it():
    post = ensemble()
    before = to_bytes(post)
    post.predict(X).mean  # noqa: B018
    assert to_bytes(post) == before


def test_threads_share_what_is_kept():
    post, results = noisy(), {}
    expected = noisy().predict(X, num_draws=9).mean

    def ask(number):
        results[number] = post.predict(X, num_draws=9).mean

    threads = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=300)
        assert not thread.is_alive()
    assert len(results) == 6
    for mean in results.values():
        np.testing.assert_array_equal(mean, expected)


@pytest.mark.parametrize(
    ("num_rows", "made", "unmade"),
    [
        (0, 8, 64), (8, 8, 64), (9, 64, 64), (65, 64, 128), (512, 64, 512), (513, 1024, 1024),
        (8192, 1024, 8192), (8193, 8192, 16384),
    ],
)  # fmt: skip
def test_few_sizes_of_blocks_serve_all_numbers_of_rows(num_rows, made, unmade):
    assert streaming._block(num_rows, made=True) == made
    # Each block would draw anew.
    assert streaming._block(num_rows, made=False) == unmade
