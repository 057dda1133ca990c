"""Tries a layer rule on a layer."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

from scalemix.networks.placing import expand_scales, put_scales, put_weights
from scalemix.networks.sites import find_sites


def check_rule(layer: Any, x: Array) -> None:
    """Raise `ValueError` unless the rules of a layer's type mean what they say for this input.

    Scaling the rows of each weight by `expand` must give what scaling the layer gives, and what
    scaling the input by hand would: a rule that takes columns for rows is found out here.
    """
    sites = find_sites(layer)
    if not sites or sites[0].path:
        raise ValueError(f"No rule is registered for {type(layer).__name__}.")
    for i, site in enumerate(sites):
        key = jax.random.fold_in(jax.random.key(0), i)
        scales = {"unit": jax.random.uniform(key, (site.num_rows,), x.dtype, 0.5, 2.0)}
        weight = site.weight(layer) * expand_scales(site, layer, scales)
        by_weight = put_weights(layer, (site,), {site.name: weight})(x)
        by_layer = put_scales(layer, (site,), {site.name: scales})(x)
        if not np.allclose(by_weight, by_layer, rtol=1e-3, atol=1e-4):
            raise ValueError(
                f"The rule for {type(layer).__name__}: scaling its input is not the same as "
                f"scaling the rows of {site.rule.weight!r}. Check expand and scale_input."
            )
