"""Predictions as a compiled function in a file, for programs that have JAX and nothing else."""

import importlib.util
import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import export as jax_export
from jaxtyping import Array

from scalemix._files import replacing
from scalemix._random import check_key, side_key
from scalemix._types import PyTree
from scalemix.data.rows import are_several
from scalemix.data.scaling import draw_in
from scalemix.networks.lookups import Lookups
from scalemix.networks.rows import seed
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.statistics import DrawnLikelihoods, moments

ROWS = "rows"


def export(
    posterior: Posterior,
    path: str | Path,
    *,
    num_draws: int | None,
    key: Any,
    platforms: tuple[str, ...] | None,
) -> None:
    """Write the predictions of a posterior as a function; see `Posterior.export`."""
    if importlib.util.find_spec("flatbuffers") is None:
        raise ImportError("To export takes flatbuffers: pip install 'scalemix[export]'.")
    model = posterior.model
    if model.example is None:
        raise ValueError(
            "An exported function needs to know what one input looks like: give "
            "Model(..., example=x[0])."
        )
    num_draws = posterior.networks.default_draws if num_draws is None else num_draws
    if num_draws < 1:
        raise ValueError(f"num_draws must be at least 1, got {num_draws}.")
    key = posterior.key if key is None else check_key(key, "key")
    (rows,) = jax_export.symbolic_shape(ROWS)
    inputs = jax.tree.map(
        lambda part: jax.ShapeDtypeStruct((rows, *part.shape), part.dtype), model.example
    )
    lookups = model.lookups(model.example)
    function = jax.jit(lambda x: _predict(posterior, num_draws, key, lookups, x))
    exported = jax_export.export(function, platforms=platforms)(inputs)
    with replacing(Path(path)) as file:
        file.write(exported.serialize())


def _predict(
    posterior: Posterior, num_draws: int, key: Any, lookups: list[Lookups], x: PyTree
) -> dict[str, Array]:
    """Mean and deviations of the target at each row, in its units."""
    networks, scaling, model = posterior.networks, posterior.scaling, posterior.model
    possible = _are_possible(lookups, x)
    ends = scaling.x_ends
    if scaling.x_mean.size and not are_several(x):
        mean, scale = (jnp.asarray(part, x.dtype) for part in (scaling.x_mean, scaling.x_scale))
        x = (x - mean[None]) / scale[None]
        if ends is not None:
            ends = (jnp.asarray(ends, x.dtype) - mean[None]) / scale[None]
            x = draw_in(x, ends) if scaling.draws_in else x
    num_outputs = model.likelihood.num_outputs
    places = jnp.arange(num_draws), jax.random.split(key, num_draws)

    def draw(x: PyTree) -> tuple[Array, Any]:
        def outputs_of(place: tuple[Array, Any]) -> tuple[Array, Any]:
            network, likelihood = networks(*place)
            outputs = jax.vmap(seed(network, side_key(place[1])))(x)
            outputs = outputs.reshape(outputs.shape[0], num_outputs)
            return outputs, eqx.filter(likelihood, eqx.is_array)

        return jax.lax.map(outputs_of, places)

    outputs, varying = draw(x)
    noise = np.array(model.likelihood.noise_outputs, int)
    if noise.size and ends is not None:
        # As in `scalemix.posterior.noise_levels`; inside nothing is moved, and nothing drawn again.
        inside = jnp.clip(x, ends[:1], ends[1:])
        outputs = jax.lax.cond(
            jnp.any(inside != x),
            lambda: outputs.at[:, :, noise].max(draw(inside)[0][:, :, noise]),
            lambda: outputs,
        )
    first = networks(places[0][0], places[1][0]).likelihood
    draws = DrawnLikelihoods(varying, eqx.filter(first, eqx.is_array, inverse=True))
    mean, epistemic, aleatoric = jax.vmap(lambda out: moments(draws, out), in_axes=1)(outputs)
    # One number, or one for each of several targets.
    unit, middle = (
        jnp.broadcast_to(jnp.asarray(value, mean.dtype), mean.shape)
        for value in (scaling.y_scale, scaling.y_mean)
    )
    told = {
        "mean": unit * mean + middle,
        "std": unit * jnp.sqrt(epistemic + aleatoric),
        "epistemic": unit * jnp.sqrt(epistemic),
        "aleatoric": unit * jnp.sqrt(aleatoric),
    }
    if possible is None:
        return told
    mask = possible.reshape(-1, *[1] * (mean.ndim - 1))
    return {name: jnp.where(mask, values, jnp.nan) for name, values in told.items()}


def _are_possible(lookups: list[Lookups], x: PyTree) -> Array | None:
    """Whether all positions of a row are in the tables that they are looked up in, by row; `None`
    where nothing is. A compiled function has no errors, and the nearest entry would be a guess."""
    parts = [part.reshape(part.shape[0], math.prod(part.shape[1:])) for part in jax.tree.leaves(x)]
    possible = None
    for _, num, places in lookups:
        for part, of_part in zip(parts, places, strict=True):
            if of_part.size:
                tokens = part[:, of_part]
                inside = (tokens >= 0) & (tokens < num)
                if jnp.issubdtype(tokens.dtype, jnp.inexact):
                    inside &= tokens == jnp.floor(tokens)
                row = jnp.all(inside, axis=1)
                possible = row if possible is None else possible & row
    return possible
