"""What stands beside the weights goes with them."""

import jax.numpy as jnp
import numpy as np
import pytest

from scalemix.networks.groups import GROUPS
from scalemix.posterior.networks import GaussianNetworks
from scalemix.posterior.pruning.compact import compact
from tests.network_kinds import KINDS


def numbers(site, group):
    shape = GROUPS[group].full_shape(site)
    return jnp.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape)


def spread(site, group, scales):
    return np.broadcast_to(GROUPS[group].expand(site, scales), site.shape)


@pytest.mark.parametrize(
    ("kind", "reader", "off", "left"),
    [
        ("`Conv`, grouped", "head", np.arange(12) % 6 >= 3, {"body": (2, 2, 2)}),
        (
            "transformer block, by head and ADD", "body.mixer.output_proj", np.arange(4) < 2,
            {"body.mixer.output_proj": (4, 2)},
        ),
        ("`Embedding`, by token", "head", np.arange(3) == 1, {"body.table": (5, 2)}),
    ],
)  # fmt: skip
def test_each_weight_keeps_its_scale(kind, reader, off, left):
    """Weights tell their scales, so what is left of both can be compared."""
    case = KINDS[kind]
    model = case.model()
    weights, deviations, variances = {}, {}, {}
    for site in model.sites:
        (group,) = model.structures[site.name].groups
        variances[site.name] = {group: numbers(site, group)}
        weights[site.name] = 0.1 * jnp.asarray(spread(site, group, variances[site.name][group]))
    weights[reader] = jnp.where(jnp.asarray(off), 0.0, weights[reader])
    deviations = {name: 0.5 * weight for name, weight in weights.items()}
    networks = GaussianNetworks(model.with_weights(weights), deviations, variances)
    rows = case.data()[0]
    made = compact([networks], rows, drop_inputs=False)
    (small,) = made.members
    shapes = {name: weight.shape for name, weight in small.model.weights.items()}
    assert left.items() <= shapes.items()
    for site in small.model.sites:
        ((group, scales),) = small.variances[site.name].items()
        assert scales.shape == GROUPS[group].full_shape(site)
        weight = np.asarray(small.model.weights[site.name])
        expected = np.where(weight != 0, 0.1 * spread(site, group, scales), 0.0)
        np.testing.assert_allclose(weight, expected, rtol=1e-6)
        np.testing.assert_allclose(small.deviations[site.name], 0.5 * weight, rtol=1e-6)
