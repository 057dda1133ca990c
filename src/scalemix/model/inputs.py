"""What a network takes and what it puts out, found by tracing it."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from scalemix._types import PyTree, Shaped
from scalemix.likelihoods import Likelihood
from scalemix.networks.columns import ColumnReader
from scalemix.networks.demands import how_to_call
from scalemix.networks.sites import Site, path_name


def find_input(network: PyTree, sites: tuple[Site, ...], example: PyTree) -> PyTree:
    """The shapes and types of one input, in the precision of the weights; `None` if not found."""
    if example is not None:
        like = jax.tree.map(_shaped, example)
        dtype = sites[0].weight(network).dtype
        # Whole numbers are measurements (pixels), unless the network takes nothing else.
        as_floats = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype), like)
        if _output_shape(network, as_floats) is not None:
            return as_floats
        return like
    # A network that takes a vector takes one that fits one of its dense layers, or one that says
    # how long it is.
    told = jax.tree.leaves(network, is_leaf=_is_reader)
    shapes = [(len(node.levels),) for node in told if _is_reader(node)]
    guesses = {
        (shape, site.weight(network).dtype): None
        for site in sites
        for shape in (*shapes, (site.num_rows,), ())
    }
    # Each guess is tried once: tracing a deep network takes long enough.
    for shape, dtype in guesses:
        guess = jax.ShapeDtypeStruct(shape, dtype)
        if _output_shape(network, guess) is not None:
            return guess
    return None


def _is_reader(node: Any) -> bool:
    return isinstance(node, ColumnReader)


class ExampleParts(NamedTuple):
    """The shapes and types of one input, and the dicts and tuples that it comes in, hashable."""

    form: Any
    leaves: tuple[Shaped, ...]

    def example(self) -> PyTree:
        """The input itself; `None` where it is not known."""
        return jax.tree.unflatten(self.form, self.leaves)


def example_parts(example: PyTree) -> ExampleParts:
    """The parts of an input, or of there being none."""
    leaves, form = jax.tree.flatten(example)
    return ExampleParts(form, tuple(leaves))


def _shaped(leaf: Any) -> jax.ShapeDtypeStruct:
    leaf = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jnp.asarray(leaf)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)


@eqx.filter_jit
def _run(network: PyTree, example: PyTree) -> PyTree:
    return network(example)


def find_refusal(network: PyTree, example: PyTree) -> str | None:
    """Why the network refuses an input of these shapes and types; `None` if it takes it.

    Where the network wants more than an input, how to give it that comes first.
    """
    try:
        # What has been traced once is remembered: every prediction asks.
        eqx.filter_eval_shape(_run, network, example)
        return None
    except Exception:
        pass
    try:
        # Not all that can be called can be remembered; this way has the last word.
        eqx.filter_eval_shape(network, example)
    except Exception as error:
        # A network of the user's may raise anything at an input that does not fit.
        lines = str(error).strip().splitlines()
        says = f"It says: {lines[0] if lines else type(error).__name__}"
        return " ".join(part for part in (how_to_call(network), says) if part)
    return None


def _output_shape(network: PyTree, example: PyTree) -> tuple[int, ...] | None:
    """The shape of the network's output; `None` if it takes no such input, or gives no array."""
    try:
        return eqx.filter_eval_shape(network, example).shape
    except Exception:
        return None


def in_words(example: PyTree) -> str:
    """`shape (3,) and type float32`, or the same of each of several inputs."""
    if isinstance(example, jax.ShapeDtypeStruct):
        return f"shape {example.shape} and type {example.dtype}"
    leaves, _ = jax.tree_util.tree_flatten_with_path(example)
    return "; ".join(f"{path_name(tuple(path))}: {in_words(leaf)}" for path, leaf in leaves)


def check_outputs(network: PyTree, likelihood: Likelihood, example: PyTree) -> None:
    """Raise `ValueError` unless the network puts out what the likelihood needs."""
    shape = _output_shape(network, example)
    if shape is None:
        raise ValueError(
            f"The network cannot be called on one example of {in_words(example)}. It must take one "
            f"example, without a batch axis, and give an array. A key, a state, several inputs or "
            f"outputs need Model(..., call=...). "
            f"{find_refusal(network, example) or 'No array comes out.'}"
        )
    needed = likelihood.num_outputs
    if shape != (needed,) and not (needed == 1 and shape == ()):
        raise ValueError(
            f"{likelihood.title} needs {needed} output{'s' if needed > 1 else ''} from "
            f"the network, which puts out the shape {shape} for one example of "
            f"{in_words(example)} (without a batch axis). Give the network out_size={needed}."
        )
