"""Networks made smaller, and compared with what they were."""

import equinox as eqx
import jax
import numpy as np

from scalemix.networks.cutting import Member, Shrinker
from scalemix.networks.cutting.member import arrays_of


def call(network, x):
    return network(x)


def shrink(network, rows, **options):
    member = Member.start(network, [np.asarray(a) != 0 for a in arrays_of(network)])
    return Shrinker([member], rows, call).shrink(**options)


@eqx.filter_jit
def run(network, rows):
    """As one program, where each operation would be one of its own."""
    return jax.vmap(network)(rows)


def assert_same(network, small, rows):
    np.testing.assert_allclose(run(small, rows), run(network, rows), rtol=1e-4, atol=1e-5)
