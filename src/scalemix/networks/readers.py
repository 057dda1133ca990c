"""Finds the layers that read the network's input itself."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from scalemix.networks.placing import replace_layers
from scalemix.networks.sites import Site


def input_sites(network: PyTree, sites: tuple[Site, ...]) -> tuple[Site, ...]:
    """The sites whose layers are called on the network's input as it is.

    Where that cannot be told, because the input's shape is unknown or the network changes it on the
    way, it is the first site.
    """
    for guess in dict.fromkeys((site.num_rows,) for site in sites):
        called = _called_on_input(network, sites, guess)
        if called:
            return tuple(site for site in sites if site.name in called)
    return sites[:1]


def _called_on_input(network: PyTree, sites: tuple[Site, ...], shape: tuple[int, ...]) -> set[str]:
    called: set[str] = set()

    def run(x: Array) -> Array:
        def note(site: Site, given: Any) -> None:
            if given is x:
                called.add(site.name)

        return replace_layers(network, sites, lambda site, layer: _Spy(layer, site, note))(x)

    try:
        jax.eval_shape(run, jax.ShapeDtypeStruct(shape, sites[0].weight(network).dtype))
    except Exception:
        # Whatever a network of someone else's raises at an input that does not fit.
        return set()
    return called


class _Spy(eqx.Module):
    """A layer that says what it is called on."""

    layer: Any
    site: Site = eqx.field(static=True)
    note: Callable[[Site, Any], None] = eqx.field(static=True)

    def __call__(self, x: Array, *args: Any, **kwargs: Any) -> Any:
        self.note(self.site, x)
        return self.layer(x, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # Reached only for names that are not fields of this class.
        if name.startswith("__") or name == "layer":
            raise AttributeError(name)
        return getattr(self.layer, name)
