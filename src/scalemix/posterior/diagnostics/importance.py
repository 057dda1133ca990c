"""How far importance weights of noise can be trusted: the shape of their tail.

Noise training with importance weights averages over draws from the prior, weighted by the
likelihood. If few draws have nearly all of the weight, the average is an accident of these few. The
estimate k-hat says so (Vehtari et al., 2024).
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._pareto import LEAST_DRAWS, tail_shape
from scalemix._random import check_key
from scalemix.data.checks import check_inputs, check_targets, inputs_as_seen, targets_as_seen
from scalemix.data.rows import num_rows, take_rows
from scalemix.data.values import check_weights, is_whole
from scalemix.posterior.draws import Draws, make_draws
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.statistics import DrawnLikelihoods
from scalemix.posterior.streaming import refuse_lost, stream

# Rows whose weights are held at a time.
ROWS_AT_A_TIME = 4096
# Above this no number of draws that anyone can afford is enough.
LARGEST_K = 0.7


@dataclasses.dataclass(frozen=True)
class ParetoK:
    """How heavy the tail of importance weights is. `Posterior.pareto_k` makes it.

    A generalised Pareto distribution of shape k has moments up to order `1 / k`. The likelihood has
    an upper bound, and with it the weights, so that all their moments exist. The estimate says how
    weights behave in as many draws as there were.

    | k-hat | what so many draws are worth |
    |---|---|
    | below 0.5 | Averages converge as fast as if the weights had a finite variance. |
    | up to `threshold` | Averages can be used, best with smoothed weights. |
    | up to 1 | Averages are biased and their errors unknown. Far more draws are needed. |
    | above 1 | Averages are those of a few draws, and say nothing about the mean. |

    Draws tie where noise is discrete. k-hat is minus infinity if so many of them share the largest
    weight that there is no tail, and infinite if fewer than five are above the rest, too few for a
    fit. The effective number of draws then says whether these few have all of the weight.

    Attributes
    ----------
    batch : float
        Of the weights that draws have by their likelihood of all rows.
    examples : numpy.ndarray
        Of the weights that draws have by their likelihood of each row.
    effective_batch : float
        How many draws of equal weight those of the batch are worth, `1 / sum_s w_s^2`.
    effective_examples : numpy.ndarray
        How many draws of equal weight those of each row are worth.
    num_draws : int
        The number of draws.
    threshold : float
        What k-hat should be below for so many draws: `1 - 1 / log10(num_draws)`, at most 0.7.

    Examples
    --------
    >>> from scalemix.posterior.diagnostics import ParetoK
    >>> print(ParetoK(0.95, np.array([0.1, 0.8]), 5.2, np.array([920.0, 310.0]), 1000))
    by batch:   k-hat 0.95, 1,000 draws worth 5
    by example: k-hat at most 0.80, above 0.67 for 1 of 2, 1,000 draws worth at least 310
    """

    batch: float
    examples: np.ndarray
    effective_batch: float
    effective_examples: np.ndarray
    num_draws: int

    @property
    def threshold(self) -> float:
        """What k-hat should be below for so many draws."""
        return min(1 - 1 / math.log10(self.num_draws), LARGEST_K)

    def __str__(self) -> str:
        worth, num = f"{self.num_draws:,} draws worth", len(self.examples)
        # Without a fit k-hat is infinite, which is no sign that weights are bad.
        known = self.examples[self.examples < np.inf]
        parts = []
        if len(known):
            above = int(np.sum(known > self.threshold))
            largest, threshold = f"{known.max():.2f}", f"{self.threshold:.2f}"
            parts.append(f"k-hat at most {largest}, above {threshold} for {above} of {num}")
        if len(known) < num:
            parts.append(f"no fit for {num - len(known)} of {num}")
        return (
            f"by batch:   k-hat {self.batch:.2f}, {worth} {self.effective_batch:.0f}\n"
            f"by example: {', '.join(parts)}, {worth} at least "
            f"{self.effective_examples.min():.0f}"
        )


def find_pareto_k(
    posterior: Posterior,
    x: Any,
    y: Any,
    num_draws: int,
    sample_weight: Any,
    key: PRNGKeyArray | None,
) -> ParetoK:
    """The tails of the weights of noise; see `Posterior.pareto_k`."""
    networks, scaling = posterior.networks.noise(), posterior.scaling
    if not is_whole(num_draws) or num_draws < LEAST_DRAWS:
        raise ValueError(
            f"num_draws must be a whole number of at least {LEAST_DRAWS}: fewer have no tail that "
            f"could be fitted. Got {num_draws!r}."
        )
    key = posterior.key if key is None else check_key(key, "key")
    likelihood, dtype = networks.model.likelihood, networks.model.dtype
    inputs = inputs_as_seen(check_inputs(x, networks.model), networks.model, scaling)
    targets = targets_as_seen(check_targets(y, likelihood), scaling, dtype)
    num = num_rows(inputs)
    if len(targets) != num or not num:
        raise ValueError(f"x has {num} rows and y has {len(targets)}.")
    weight = check_weights(sample_weight, num)
    # All rows see the same draws, so that these have a likelihood of all rows.
    draws = make_draws(Draws(networks, np.arange(num_draws, dtype=np.int32), key))
    batch, examples, effective = np.zeros(num_draws), [], []
    for start in range(0, num, ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        (log_probs, ks, worths), lost = stream(
            _by_draw, draws, likelihood.num_outputs, take_rows(inputs, rows), targets[rows]
        )
        refuse_lost(lost)
        # In double precision: many rows make sums whose differences single precision would lose.
        batch += weight[rows] @ log_probs
        examples.append(ks)
        effective.append(worths)
    k, worth = _tail(jnp.asarray(batch - batch.max(), dtype))
    return ParetoK(
        float(k), np.concatenate(examples), float(worth), np.concatenate(effective), num_draws
    )


def _by_draw(draws: DrawnLikelihoods, outputs: Array, y: Array) -> tuple[Array, Array, Array]:
    """The log-likelihood of one row under each draw, and what the tail of their weights is like."""
    values = draws.each(lambda likelihood, out: likelihood.log_prob(out, y), outputs)
    return values, *_tail(values)


@jax.jit
def _tail(log_weights: Array) -> tuple[Array, Array]:
    """k-hat, and the effective number of draws, `(sum_s w_s)^2 / sum_s w_s^2`."""
    # Numbers far from zero would lose in their sums the digits that tell them apart.
    centred = log_weights - jnp.max(log_weights)
    total, squares = (jax.nn.logsumexp(power * centred) for power in (1, 2))
    return tail_shape(log_weights), jnp.exp(2 * total - squares)
