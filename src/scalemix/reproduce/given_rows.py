"""Noise given the rows of training: what one noise for all rows becomes once they are seen.

Weights that were trained by importance weights by batch are right under the noise that explains all
rows together. That noise is one more unknown, with a posterior

    p(Xi | y, X, W)  ~  p(Xi) p(y | X, W, Xi).

Draws from the prior, weighed by the likelihood of the training rows and drawn again by these
weights, are draws from it.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._types import PyTree
from scalemix.data.batches import Data
from scalemix.model.model import Model
from scalemix.posterior.networks import Networks, WeightMoments
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.predictive import Drawn

# Draws that are weighed. At the highest rate of dropping, one in three hundred drops nothing.
NUM_WEIGHED = 2000
# Draws, with repetitions, that are kept of them.
NUM_KEPT = 500
# Draws that go through the network side by side: all rows of a large set for each of them.
TOGETHER = 100
# Models go side by side too, until their draws make up this many rows: one after another, those of
# small sets leave a GPU idle.
ROWS_TOGETHER = 2**19


class KeptNoise(Networks):
    """One set of weights under noise that was drawn beforehand."""

    scales: PyTree
    """As `Model.draw` gives them, with a leading axis of draws."""

    @property
    def default_draws(self) -> int:
        return len(jax.tree.leaves(self.scales)[0])

    def __call__(self, index: Array, key: PRNGKeyArray) -> Drawn:
        scales = jax.tree.map(lambda leaf: leaf[index % self.default_draws], self.scales)
        return Drawn(self.model.with_scales(scales), self.model.likelihood)

    def weight_moments(self) -> dict[str, WeightMoments]:
        moments = {}
        for prior in self.model.site_priors:
            xi = jax.vmap(prior.expand)(self.scales[prior.name])
            w = xi * jnp.expand_dims(prior.weight, 0)
            square = jnp.mean(w**2, axis=0)
            moments[prior.name] = WeightMoments(jnp.mean(w, axis=0), jnp.var(w, axis=0), square)
        return moments


def given_rows(posterior: Posterior, rows: Data, key: PRNGKeyArray) -> Posterior:
    """The posterior of noise training, its noise drawn given these rows of training."""
    model: Any = posterior.model
    scales = eqx.filter_jit(_kept)(model, jax.tree.map(jnp.asarray, rows), key)
    return eqx.tree_at(lambda one: one.networks, posterior, KeptNoise(model, scales))


@eqx.filter_jit
def _scored(models: Model, train: Data, held_out: Data, which: Array, keys: PRNGKeyArray) -> Array:
    arrays, static = eqx.partition(models, eqx.is_array)

    def one(of_model: tuple[PyTree, Array, PRNGKeyArray]) -> Array:
        arrays, place, key = of_model
        model = eqx.combine(arrays, static)
        rows, unseen = (jax.tree.map(lambda a: a[place], data) for data in (train, held_out))
        log_probs = _log_probs(model, unseen, _kept(model, rows, key))
        return jax.nn.logsumexp(log_probs, axis=0) - jnp.log(NUM_KEPT)

    num = len(which)
    most = max(1, min(num, ROWS_TOGETHER // (TOGETHER * train.y.shape[1])))
    # A remainder would be compiled a second time.
    together = next(size for size in range(most, 0, -1) if num % size == 0)
    return jax.lax.map(one, (arrays, which, keys), batch_size=together)


def held_out_log_probs(
    models: Model, train: Data, held_out: Data, which: np.ndarray, keys: PRNGKeyArray
) -> np.ndarray:
    """The log-likelihood of each held-out row under each of some stacked models, (models, rows).

    `train` and `held_out` are stacked data sets, and `which` says which of them each model has.
    """
    train, held_out = (jax.tree.map(jnp.asarray, data) for data in (train, held_out))
    return np.asarray(_scored(models, train, held_out, jnp.asarray(which), keys), np.float64)


def _log_probs(model: Model, rows: Data, scales: PyTree) -> Array:
    """(draws, rows)"""

    def under(drawn: PyTree) -> Array:
        outputs = model.outputs(rows.x, drawn, noise_sharing="batch")
        return jax.vmap(model.likelihood.log_prob)(outputs, rows.y)

    return jax.lax.map(under, scales, batch_size=TOGETHER)


def _kept(model: Model, rows: Data, key: PRNGKeyArray) -> PyTree:
    scales = model.draw((NUM_WEIGHED,), key=key)
    log_probs = _log_probs(model, rows, scales)
    totals = jnp.sum(jnp.where(rows.weight > 0, log_probs, 0.0) * rows.weight[None], axis=1)
    reached = jnp.cumsum(jax.nn.softmax(totals))
    # Evenly spaced places of the cumulated weights: each draw as often as it weighs.
    steps = jnp.arange(0.5, NUM_KEPT, dtype=reached.dtype) / NUM_KEPT
    places = jnp.searchsorted(reached, steps * reached[-1])
    return jax.tree.map(lambda leaf: leaf[jnp.clip(places, 0, NUM_WEIGHED - 1)], scales)
