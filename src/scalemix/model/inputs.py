"""What a network takes and what it puts out, found by tracing it."""

import equinox as eqx
import jax
import jax.numpy as jnp

from scalemix._types import PyTree, Shaped
from scalemix.likelihoods import Likelihood
from scalemix.networks.sites import Site


def find_input(network: PyTree, sites: tuple[Site, ...], example: Shaped | None) -> Shaped | None:
    """One input of the network, in the precision of its weights; `None` if none can be found."""
    if example is not None:
        if not isinstance(example, jax.ShapeDtypeStruct):
            example = jnp.asarray(example)
        as_float = jax.ShapeDtypeStruct(example.shape, sites[0].weight(network).dtype)
        # Whole numbers are measurements (pixels), unless the network takes nothing else.
        if _output_shape(network, as_float) is not None:
            return as_float
        return jax.ShapeDtypeStruct(example.shape, example.dtype)
    # A network that takes a vector takes one that fits one of its dense layers.
    guesses = {
        (shape, site.weight(network).dtype): None
        for site in sites
        for shape in ((site.num_rows,), ())
    }
    # Each guess is tried once: tracing a deep network takes long enough.
    for shape, dtype in guesses:
        guess = jax.ShapeDtypeStruct(shape, dtype)
        if _output_shape(network, guess) is not None:
            return guess
    return None


def find_refusal(network: PyTree, example: Shaped) -> str | None:
    """Why the network refuses an input of this shape and type; `None` if it takes it."""
    try:
        eqx.filter_eval_shape(network, example)
    except Exception as error:
        # A network of the user's may raise anything at an input that does not fit.
        lines = str(error).strip().splitlines()
        return lines[0] if lines else type(error).__name__
    return None


def _output_shape(network: PyTree, example: Shaped) -> tuple[int, ...] | None:
    """The shape of the network's output; `None` if it takes no such input, or gives no array."""
    try:
        return eqx.filter_eval_shape(network, example).shape
    except Exception:
        return None


def check_outputs(network: PyTree, likelihood: Likelihood, example: Shaped) -> None:
    """Raise `ValueError` unless the network puts out what the likelihood needs."""
    shape = _output_shape(network, example)
    if shape is None:
        raise ValueError(
            f"The network cannot be called on one example of shape {example.shape} and type "
            f"{example.dtype}. It must take one example and nothing else: no batch axis, no key, "
            f"no state. It says: {find_refusal(network, example) or 'no array comes out'}"
        )
    needed = likelihood.num_outputs
    if shape != (needed,) and not (needed == 1 and shape == ()):
        raise ValueError(
            f"{likelihood.title} needs {needed} output{'s' if needed > 1 else ''} from "
            f"the network, which puts out the shape {shape} for one example of shape "
            f"{example.shape} (without a batch axis). Give the network out_size={needed}."
        )
