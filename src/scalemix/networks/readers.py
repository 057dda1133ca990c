"""Finds the weights that the network's input meets, and those that its output is read from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr
from jax.interpreters import partial_eval
from jaxtyping import Array

from scalemix._types import PyTree
from scalemix.networks.deferred import Cut, Probe, Term, Use
from scalemix.networks.origins import Origins, kept_case
from scalemix.networks.placing import get_weights, run_with_weights
from scalemix.networks.sites import Site

# Operations that leave numbers as they are.
MOVES = ("transpose", "squeeze", "convert_element_type", "copy")
# Those that may only put in or take out axes of length one.
SHAPES = ("reshape", "broadcast_in_dim")


def input_sites(network: PyTree, sites: tuple[Site, ...], example: PyTree) -> dict[Site, set[int]]:
    """The sites whose rows meet the network's input as it is, and along which of its axes.

    Their rows are inputs. There are none where the shape of an input is not known, where there are
    several inputs, where the network changes its input on the way, or where it reads its input in a
    loop.
    """
    met: list[Met] = []

    def run(x: PyTree) -> list[Array]:
        met.extend(each for each in find_products(network, sites, x) if each.axis is not None)
        return [each.data for each in met]

    alone = len(jax.tree.leaves(example)) == 1
    if not alone or (traced := _traced(run, example)) is None:
        return {}
    axes: dict[Site, set[int]] = {}
    for each, data in zip(met, traced.outvars, strict=True):
        assert each.axis is not None
        source, axis = _origin(traced, data, each.axis)
        if source is traced.invars[0]:
            axes.setdefault(each.site, set()).add(axis)
    return {site: axes[site] for site in sites if site in axes}


def rows_read(network: PyTree, sites: tuple[Site, ...], example: PyTree) -> dict[Site, np.ndarray]:
    """The sites whose rows meet numbers of the network's input, a vector, and which each meets."""
    met: list[Met] = []

    def run(x: PyTree) -> list[Array]:
        met.extend(each for each in find_products(network, sites, x) if each.axis is not None)
        return [each.data for each in met]

    is_vector = hasattr(example, "shape") and len(example.shape) == 1
    if not is_vector or (closed := _closed(run, example)) is None:
        return {}
    origins, rows = Origins(closed, example), {}
    for number, each in enumerate(met):
        places = origins.of(number)
        if places and len(places) == each.site.num_rows and None not in places:
            rows[each.site] = np.array([place[1] for place in places if place])
    return rows


class Met(NamedTuple):
    """A product of a site's weight with data."""

    site: Site
    axis: int | None
    """The axis of the data that meets the rows of the weight; `None` if none does."""
    data: Array


def find_products(network: PyTree, sites: tuple[Site, ...], x: PyTree) -> list[Met]:
    """The products of weights with data when the network is called; not those in loops."""
    met: list[Met] = []

    def note(site: Site, use: Any) -> None:
        row = site.axis("row")
        assert row is not None
        if isinstance(use, Use):
            axis = use.product.summed.get(use.axes.index(site.num_stacked + row))
            met.append(Met(site, axis, use.product.data))

    probes = {
        site.name: Probe(
            jnp.zeros_like(site.weight(network)), lambda use, site=site: note(site, use)
        )
        for site in sites
    }
    run_with_weights(network, sites, probes, x)
    return met


def output_sites(network: PyTree, sites: tuple[Site, ...], example: PyTree) -> tuple[Site, ...]:
    """The sites from which a path leads to the output past no other site.

    There are none where the shape of an input is not known.
    """

    def run(weights: dict[str, Array], x: PyTree) -> Any:
        # Cut off from whatever came before, the output depends on the last weights alone.
        cut = {site.name: Cut((Term(weights[site.name], {}),), site.num_stacked) for site in sites}
        return run_with_weights(network, sites, cut, x)

    weights = get_weights(network, sites)
    if example is None or (traced := _traced(run, weights, example)) is None:
        return ()
    _, is_used = partial_eval.dce_jaxpr(traced, [True] * len(traced.outvars))
    # JAX flattens a dict in the order of its keys.
    used = dict(zip(sorted(weights), is_used, strict=False))
    return tuple(site for site in sites if used[site.name])


def _traced(function: Callable[..., Any], *arguments: Any) -> Any:
    closed = _closed(function, *arguments)
    return None if closed is None else closed.jaxpr


def _closed(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return jax.make_jaxpr(function)(*arguments)
    except Exception:
        # Whatever a network of someone else's raises at an input that does not fit.
        return None


def _origin(jaxpr: Jaxpr, variable: Any, axis: int) -> tuple[Any, int]:
    """The variable whose numbers these are, before axes were moved and types changed.

    The second number is where an axis was there.
    """
    made_by = {id(output): equation for equation in jaxpr.eqns for output in equation.outvars}
    while (equation := made_by.get(id(variable))) is not None:
        name = equation.primitive.name
        kept = kept_case(equation, made_by) if name == "select_n" else 0
        source = None if kept is None else equation.invars[kept]
        rounds = not jnp.issubdtype(variable.aval.dtype, jnp.floating)
        reshapes = name in SHAPES and _lengths(source) == _lengths(variable)
        if rounds or not (name in MOVES or reshapes or (name == "select_n" and source)):
            break
        if name == "select_n":
            # Each number stays in its place, or is nothing.
            pass
        elif name == "transpose":
            axis = equation.params["permutation"][axis]
        else:
            # Axes of length one come and go; the others stay in order.
            axis = _place(source, len(_lengths(variable, axis)))
        variable = source
    return variable, axis


def _lengths(variable: Any, end: int | None = None) -> list[int]:
    """How long the axes are that are longer than one, of all or of those before this one."""
    return [length for length in variable.aval.shape[:end] if length != 1]


def _place(variable: Any, index: int) -> int:
    """Which axis is the one of this number, of those longer than one; 0 where there is none."""
    longer = [axis for axis, length in enumerate(variable.aval.shape) if length != 1]
    return longer[index] if index < len(longer) else 0
