"""Tries a layer rule on a layer."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from scalemix.networks.placing import expand_scales, put_weights
from scalemix.networks.readers import find_products
from scalemix.networks.sites import find_sites, path_name


def check_rule(layer: Any, x: Array) -> None:
    """Raise `ValueError` unless the rule of a layer's type holds for this layer and input.

    Wherever the layer multiplies data by a weight, it must sum over the weight's rows: a rule that
    takes outputs for rows fails. Of a layer with one weight, scaling its rows must also give the
    same output as scaling the units of the input.

    Parameters
    ----------
    layer : Any
        A layer whose type has rules.
    x : Array
        One input of the layer, with its units along the first axis.

    Raises
    ------
    ValueError
        If the type has no rule, or its rule does not hold.

    Examples
    --------
    >>> sx.networks.check_rule(eqx.nn.Linear(3, 4, key=key), jnp.ones(3))
    """
    sites = find_sites(layer)
    if not sites or sites[0].path:
        raise ValueError(f"No rule is registered for {type(layer).__name__}.")
    site, *others = sites
    units = x.shape[:1] or (1,)
    if not others and units != (site.num_rows,):
        raise ValueError(
            f"The rule for {site.layer_type} finds {site.num_rows} rows in "
            f"{path_name(site.rule.path)!r}, and the input has {units[0]} units. Check row_axis."
        )
    for met in find_products(layer, sites, x):
        if met.axis is None:
            raise ValueError(
                f"The rule for {met.site.layer_type}: the layer multiplies data by "
                f"{path_name(met.site.rule.path)!r} and does not sum over its rows. Check row_axis."
            )
    if others:
        return
    scales = jax.random.uniform(jax.random.key(0), units, x.dtype, 0.5, 2.0)
    weight = site.weight(layer) * expand_scales(site, {"unit": scales}, scales.dtype)
    by_weight = put_weights(layer, sites, {site.name: weight})(x)
    by_input = layer(x * scales.reshape(x.shape[:1] + (1,) * (x.ndim - 1)))
    # Biases and the like are there in both.
    if not np.allclose(by_weight, by_input, rtol=1e-3, atol=1e-4):
        raise ValueError(
            f"The rule for {site.layer_type}: scaling the rows of {path_name(site.rule.path)!r} is "
            f"not the same as scaling the units of the input. Check row_axis."
        )
