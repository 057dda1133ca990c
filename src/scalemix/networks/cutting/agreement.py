"""Whether networks compute the same."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._types import PyTree
from scalemix.networks.cutting.graph import Call


def same_numbers(expected: Any, given: Any) -> bool:
    """Whether outputs are equal up to rounding."""
    expected, given = jax.tree.leaves(expected), jax.tree.leaves(given)
    if [a.shape for a in expected] != [a.shape for a in given]:
        return False
    for one, other in zip(expected, given, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        rounding = 1e3 * float(jnp.finfo(one.dtype).eps) if one.dtype.kind == "f" else 0.0
        size = np.abs(one, where=np.isfinite(one), out=np.zeros(one.shape)).max(initial=0.0)
        if not np.allclose(one, other, rtol=0, atol=rounding * (1 + size), equal_nan=True):
            return False
    return True


@eqx.filter_jit
def outputs(call: Call, network: PyTree, rows: Any) -> Any:
    """What a network makes of many examples, in full precision.

    GPUs round the factors of products in single precision to fewer digits, and then networks that
    compute the same would differ.
    """
    with jax.default_matmul_precision("highest"):
        return jax.vmap(lambda x: call(network, x))(rows)
