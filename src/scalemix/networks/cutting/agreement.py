"""Whether networks compute the same."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._types import PyTree
from scalemix.networks.cutting.graph import Call


def same_numbers(expected: Any, given: Any, *, is_proof: bool = False) -> bool:
    """Whether outputs are equal up to rounding.

    With `is_proof` nothing else says that they are. Then numbers of few digits must be the very
    same, as rounding could hide that a network has become another.
    """
    expected, given = jax.tree.leaves(expected), jax.tree.leaves(given)
    if [a.shape for a in expected] != [a.shape for a in given]:
        return False
    for one, other in zip(expected, given, strict=True):
        rounding = _rounding(one.dtype, is_proof)
        one, other = _as_known(one), _as_known(other)
        size = np.abs(one, where=np.isfinite(one), out=np.zeros(one.shape)).max(initial=0.0)
        if not np.allclose(one, other, rtol=0, atol=rounding * (1 + size), equal_nan=True):
            return False
    return True


def _rounding(dtype: Any, is_proof: bool) -> float:
    if not jnp.issubdtype(dtype, jnp.floating):
        return 0.0
    eps = float(jnp.finfo(dtype).eps)
    has_few_digits = eps > float(jnp.finfo(jnp.float32).eps)
    # A thousand roundings, or half of the digits where they would leave none.
    return 0.0 if is_proof and has_few_digits else min(1e3 * eps, math.sqrt(eps))


def _as_known(array: Any) -> np.ndarray:
    """An array of a type that NumPy has: it does not compare all of JAX's."""
    known = np.asarray(array)
    return known.astype(np.float64) if jnp.issubdtype(array.dtype, jnp.floating) else known


@eqx.filter_jit
def outputs(call: Call, network: PyTree, rows: Any) -> Any:
    """What a network makes of many examples, in full precision.

    GPUs round the factors of products in single precision to fewer digits, and then networks that
    compute the same would differ.
    """
    with jax.default_matmul_precision("highest"):
        return jax.vmap(lambda x: call(network, x))(rows)
