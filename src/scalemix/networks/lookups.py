"""Finds the tables of tokens that a network looks up its input in."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn
from jax.interpreters import partial_eval
from jaxtyping import Array

from scalemix._jaxprs import bind, run_operations
from scalemix._types import PyTree
from scalemix.networks.deferred import Lookup, Probe
from scalemix.networks.placing import run_with_weights
from scalemix.networks.sites import Site

# Inputs that stand for their places are larger than any number that a network may hold.
SMALLEST, LARGEST = 2**20, 2**28


class Lookups(NamedTuple):
    """A table of tokens, and which numbers of an input are looked up in it."""

    site: str
    num_tokens: int
    places: list[np.ndarray]
    """Numbers of each part of the input, counted along all axes of the part."""


def find_lookups(network: PyTree, sites: tuple[Site, ...], example: PyTree) -> list[Lookups]:
    """The tables that whole numbers of such an input are looked up in as they are.

    Those in loops, and those of numbers that the network computes, are not found.
    """
    tables = {site: axis for site in sites if (axis := site.axis("token")) is not None}
    met: list[Site] = []

    def run(x: PyTree) -> list[Array]:
        starts: list[Array] = []

        def note(site: Site, use: Any) -> None:
            axis = site.num_stacked + tables[site]
            if isinstance(use, Lookup) and axis in use.starts:
                met.append(site)
                starts.append(use.starts[axis])

        probes = {
            site.name: Probe(
                jnp.zeros_like(site.weight(network)), lambda use, site=site: note(site, use)
            )
            for site in tables
        }
        run_with_weights(network, tuple(tables), probes, x)
        return starts

    if not tables:
        return []
    try:
        closed = jax.make_jaxpr(run)(example)
    except Exception:
        # Whatever a network of someone else's raises at a type that it does not take.
        return []
    # Each number of the input has a value of its own, by which it is known again.
    parts = jax.tree.leaves(example)
    sizes = [math.prod(part.shape) for part in parts]
    values = SMALLEST + np.random.default_rng(0).choice(LARGEST, sum(sizes), replace=False)
    pieces = np.split(values, np.cumsum(sizes)[:-1])
    places = {
        value: (number, place)
        for number, piece in enumerate(pieces)
        for place, value in enumerate(piece.tolist())
    }
    x = [
        jnp.asarray(piece.reshape(part.shape), part.dtype)
        for piece, part in zip(pieces, parts, strict=True)
    ]
    lookups = []
    for number, site in enumerate(met):
        needed = [other == number for other in range(len(met))]
        jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, needed, instantiate=True)
        if not _moves(jaxpr):
            continue
        (tokens,) = run_operations(jaxpr, closed.consts, x, _Unwrapped(jaxpr))
        taken = [places[token] for token in np.ravel(tokens).tolist() if token in places]
        by_part = [
            np.array([place for which, place in taken if which == number], int)
            for number in range(len(parts))
        ]
        lookups.append(Lookups(site.name, site.layer_shape[tables[site]], by_part))
    return lookups


def _moves(jaxpr: Jaxpr) -> bool:
    """Whether nothing but whole numbers is computed."""
    avals: list[Any] = [output.aval for equation in jaxpr.eqns for output in equation.outvars]
    return not any(jnp.issubdtype(aval.dtype, jnp.inexact) for aval in avals)


class _Unwrapped:
    """Runs operations, and leaves numbers below zero as they are where these would count from the
    end of an axis: `where(i < 0, i + length, i)` is `i`."""

    def __init__(self, jaxpr: Jaxpr):
        self.made_by = {id(output): each for each in jaxpr.eqns for output in each.outvars}

    def __call__(self, equation: JaxprEqn, inputs: list[Any]) -> list[Any]:
        return [inputs[1]] if self._wraps(equation) else bind(equation, inputs)

    def _wraps(self, equation: JaxprEqn) -> bool:
        if equation.primitive.name != "select_n":
            return False
        below = self.made_by.get(id(equation.invars[0]))
        return (
            below is not None
            and below.primitive.name == "lt"
            and below.invars[0] is equation.invars[1]
        )
