"""The contract that every distribution over networks keeps, and an ensemble of them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.posterior.networks import AnyNetworks, Ensemble, Networks
from scalemix.posterior.storage.classes import NETWORKS_CLASSES
from tests.posterior.storage.cases import (
    CHAIN_HISTORY,
    HISTORY,
    NETWORKS,
    posterior,
)

KEY = jax.random.key(1)
NUM_DRAWS = 4000


@pytest.fixture(params=NETWORKS)
def networks(request):
    return NETWORKS[request.param][0]()


def test_every_distribution_has_a_row():
    assert NETWORKS_CLASSES.keys() == NETWORKS.keys()


def test_every_distribution_says_what_it_is(networks):
    kind = type(networks)
    for words in ("method", "summary"):
        assert getattr(kind, words)
        assert getattr(kind, words) != getattr(Networks, words)
    assert kind.summary.endswith(".")
    assert posterior(networks).__repr__().count(kind.__name__) == 1


@eqx.filter_jit
def drawn_weights(networks, indices, keys):
    def one(index, key):
        network = networks(index, key).network
        return {site.name: site.weight(network) for site in networks.model.sites}

    return jax.vmap(one)(indices, keys)


def test_moments_are_those_of_the_draws(networks):
    for part in networks.parts:
        # Whole rounds of all places, so that samples are met equally often.
        num = NUM_DRAWS // part.num_places * part.num_places
        drawn = drawn_weights(part, jnp.arange(num), jax.random.split(KEY, num))
        for name, moments in part.weight_moments().items():
            weights = np.asarray(drawn[name], np.float64)
            error = np.sqrt(np.asarray(moments.variance, np.float64) / num)
            gap = np.abs(weights.mean(axis=0) - np.asarray(moments.mean))
            assert (gap <= 5 * error + 1e-5).all()
            # The noise and the weights are Gaussian here: the variance's standard error is
            # sqrt(2 / num) of it, and none where all places were met.
            np.testing.assert_allclose(
                weights.var(axis=0), moments.variance, rtol=5 * np.sqrt(2 / num), atol=1e-5
            )
            assert (np.asarray(moments.prior_variance) >= 0).all()


def test_second_moments_are_squares_and_own_variances(networks):
    for name, moments in networks.second_moments().items():
        square = np.asarray(networks.model.weights[name], np.float64) ** 2
        deviation = getattr(networks, "deviations", {}).get(name, jnp.zeros(()))
        np.testing.assert_allclose(moments, square + np.asarray(deviation) ** 2, rtol=1e-6)


def test_masked_rows_are_certainly_zero_and_others_as_they_were(networks):
    if networks.obstacle_to_pruning is not None:
        with pytest.raises(ValueError, match=f"{networks.title} cannot be pruned: its draws"):
            posterior(networks, history=CHAIN_HISTORY).prune(mask_only=True)
        return
    keep = {s.name: np.arange(s.num_rows) % 2 == 0 for s in networks.model.sites}
    masked = networks.masked({name: {"unit": rows} for name, rows in keep.items()})
    assert type(masked) is type(networks)
    before, after = (
        drawn_weights(one, jnp.arange(3), jax.random.split(KEY, 3)) for one in (networks, masked)
    )
    for name, kept in keep.items():
        assert not np.asarray(after[name])[:, :, ~kept].any()
        np.testing.assert_array_equal(after[name][:, :, kept], before[name][:, :, kept])


def test_arrays_bring_the_same_networks_back(networks):
    again = type(networks).from_arrays(networks.model, networks.to_arrays(), ())
    assert eqx.tree_equal(networks, again)
    with pytest.raises(ValueError, match=r".+"):
        type(networks).from_arrays(networks.model, {**networks.to_arrays(), "more": KEY}, ())


@pytest.mark.parametrize("kind", NETWORKS)
def test_history_must_be_of_such_a_fit(kind):
    build, ours = NETWORKS[kind]
    networks, other = build(), HISTORY if ours is CHAIN_HISTORY else CHAIN_HISTORY
    networks.check_history(ours, ())
    with pytest.raises(ValueError, match="one objective for each step"):
        networks.check_history(other, ())


def test_only_samples_have_chains(networks):
    if hasattr(networks, "positions"):
        assert networks.chains() is networks
    else:
        with pytest.raises(ValueError, match="Only a posterior that MCMC sampled"):
            networks.chains()
        with pytest.raises(ValueError, match="Only a posterior that MCMC sampled"):
            ensemble_of(networks, 2).chains()


def ensemble_of(networks, num):
    arrays, static = eqx.partition(networks, eqx.is_array)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf * (1 + i) for i in range(num)]), arrays)
    return Ensemble(eqx.combine(stacked, static), num)


def test_an_ensemble_answers_what_one_fit_answers():
    one: AnyNetworks = NETWORKS["GaussianNetworks"][0]()
    several: AnyNetworks = ensemble_of(one, 3)
    asked = [name for name in vars(AnyNetworks) if not name.startswith("_")]
    assert {"model", "lead", "stacked", "members", "with_members", "parts", "chains"} <= {*asked}
    for networks in (one, several):
        assert all(hasattr(type(networks), name) or hasattr(networks, name) for name in asked)
    assert (one.lead, several.lead) == ((), (3,))
    assert one.members == (one,)
    assert len(several.members) == len(several.parts) == 3
    assert eqx.tree_equal(several.members[0], one)
    assert one.stacked is one
    assert several.title == "3 x GaussianNetworks"
    assert several.default_draws == 102
    # Members put back, in another order, are members again.
    turned = several.with_members(several.members[::-1])
    assert eqx.tree_equal(turned.members[2], one)
    assert one.with_members([several.members[1]]).lead == ()
    # Draws go round the members.
    for index in range(4):
        drawn = several(jnp.int32(index), KEY).network
        alone = several.members[index % 3](jnp.int32(index // 3), KEY).network
        assert eqx.tree_equal(drawn, alone)
