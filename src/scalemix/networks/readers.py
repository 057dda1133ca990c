"""Finds the layers that read the network's input, and those that its output is read from."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval
from jaxtyping import Array

from scalemix._types import PyTree, Shaped
from scalemix.networks.placing import get_weights, put_weights, replace_layers
from scalemix.networks.sites import Site

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def input_sites(
    network: PyTree, sites: tuple[Site, ...], example: Shaped | None
) -> tuple[Site, ...]:
    """The sites whose layers are called on the network's input as it is: their rows are inputs.

    There are none where the shape of an input is not known, where the network changes its input on
    the way, or where a layer with several weights reads it.
    """
    called: set[str] = set()
    num_sites = Counter(site.path for site in sites)

    def run(x: Array) -> Array:
        def see(site: Site, given: Arguments) -> Arguments:
            if given[0] and given[0][0] is x:
                called.add(site.name)
            return given

        return _watched(network, sites, see)(x)

    if example is None or not _runs(lambda: jax.eval_shape(run, example)):
        return ()
    # The rows of an embedding are not the tokens that it reads.
    return tuple(
        site
        for site in sites
        if site.name in called and num_sites[site.path] == 1 and site.axis("token") is None
    )


def output_sites(
    network: PyTree, sites: tuple[Site, ...], example: Shaped | None
) -> tuple[Site, ...]:
    """The sites from which a path leads to the output past no other site.

    There are none where the shape of an input is not known, or where the network reads a weight
    without calling its layer.
    """
    called: set[tuple[Any, ...]] = set()

    def see(site: Site, given: Arguments) -> Arguments:
        called.add(site.path)
        # Once cut off from whatever came before, the output depends on the last weights alone.
        return jax.tree.map(_without_value, given)

    def run(weights: dict[str, Array], x: Array) -> Array:
        return _watched(put_weights(network, sites, weights), sites, see)(x)

    is_used: list[bool] = []

    def trace() -> None:
        traced = jax.make_jaxpr(run)(get_weights(network, sites), example).jaxpr
        is_used.extend(partial_eval.dce_jaxpr(traced, [True] * len(traced.outvars))[1])

    if example is None or not _runs(trace) or any(site.path not in called for site in sites):
        return ()
    # JAX flattens a dict in the order of its keys.
    used = dict(zip(sorted(site.name for site in sites), is_used, strict=False))
    return tuple(site for site in sites if used[site.name])


def _without_value(leaf: Any) -> Any:
    is_number = eqx.is_array(leaf) and not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    return jnp.zeros_like(leaf) if is_number else leaf


def _runs(function: Callable[[], Any]) -> bool:
    try:
        function()
    except Exception:
        # Whatever a network of someone else's raises at an input that does not fit.
        return False
    return True


def _watched(
    network: PyTree, sites: tuple[Site, ...], see: Callable[[Site, Arguments], Arguments]
) -> PyTree:
    """The network with layers whose arguments pass through `see` before each call."""

    def watch(site: Site, layer: Any) -> Any:
        return layer if isinstance(layer, _Watched) else _Watched(layer, site, see)

    return replace_layers(network, sites, watch)


class _Watched(eqx.Module):
    layer: Any
    site: Site = eqx.field(static=True)
    see: Callable[[Site, Arguments], Arguments] = eqx.field(static=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = self.see(self.site, (args, kwargs))
        return self.layer(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # Reached only for names that are not fields of this class.
        if name.startswith("__") or name == "layer":
            raise AttributeError(name)
        return getattr(self.layer, name)
