"""Tries a layer rule on a layer."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from scalemix.networks.groups import GROUPS
from scalemix.networks.placing import expand_scales, put_scales, put_weights
from scalemix.networks.sites import find_sites


def check_rule(layer: Any, x: Array) -> None:
    """Raise `ValueError` unless the rules of a layer's type hold for this layer and input.

    Scaling the rows of each weight by `expand` must give the same output as scaling the layer's
    input by `scale_input`, and scaling its outputs by `expand_outputs` the same as `scale_output`.
    A rule that takes columns for rows fails.

    Parameters
    ----------
    layer : Any
        A layer whose type has rules.
    x : Array
        One input of the layer.

    Raises
    ------
    ValueError
        If the type has no rule, or a rule does not hold.

    Examples
    --------
    >>> sx.networks.check_rule(eqx.nn.Linear(3, 4, key=key), jnp.ones(3))
    """
    sites = find_sites(layer)
    if not sites or sites[0].path:
        raise ValueError(f"No rule is registered for {type(layer).__name__}.")
    for i, site in enumerate(sites):
        kinds = [("unit", "input", "rows", "expand and scale_input")]
        if site.num_outputs is not None:
            kinds.append(("output", "output", "outputs", "expand_outputs and scale_output"))
        for group, end, what, fields in kinds:
            key = jax.random.fold_in(jax.random.key(0), i)
            shape = GROUPS[group].shape(site)
            scales = {group: jax.random.uniform(key, shape, x.dtype, 0.5, 2.0)}
            weight = site.weight(layer) * expand_scales(site, layer, scales)
            by_weight = put_weights(layer, (site,), {site.name: weight})(x)
            by_layer = put_scales(layer, (site,), {site.name: scales})(x)
            if not np.allclose(by_weight, by_layer, rtol=1e-3, atol=1e-4):
                raise ValueError(
                    f"The rule for {type(layer).__name__}: scaling its {end} is not the same as "
                    f"scaling the {what} of {site.rule.weight!r}. Check {fields}."
                )
