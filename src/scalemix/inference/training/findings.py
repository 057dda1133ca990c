"""Whether a fit is of use, and a warning where it is not.

A run can end with everything switched off, or wherever a rate that was too large has left it, and
still return a posterior that predicts. What gives it away is that it explains the data it was
trained on no better than a constant would.
"""

from collections.abc import Sequence

import numpy as np

from scalemix._warnings import warn
from scalemix.data.batches import Data
from scalemix.inference.training.loop import Trained
from scalemix.model.model import Model
from scalemix.posterior.posterior import Posterior

# The share of all steps, the last ones, whose log-likelihoods are averaged.
LAST = 0.2
# A gain of fewer standard errors than this is none.
ERRORS = 3.0
# A fit that is worse than a constant by more than this, in nats a row, has not merely failed to
# find a use for the inputs.
FAR = 1.0
# Rows whose weights add up to less than this share of their number leave the prior to itself.
LIGHT = 0.1


class UselessFitWarning(UserWarning):
    """A fit explains its training data no better than a constant would.

    The message says by how much, which layers are switched off altogether, and what to try. `fit`
    and its siblings warn once for each such fit, after training by `NoiseTraining` or
    `VariationalEM`.

    Examples
    --------
    Turn the warning into an error, or silence it where it is expected:

    >>> import warnings
    >>> from scalemix import UselessFitWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", UselessFitWarning)
    ...     post = sx.fit(model, x, y, sx.VariationalEM(steps=20), key=key)
    """


def warn_of_useless_fits(
    trained: Trained,
    models: Sequence[Model],
    data: Sequence[Data],
    remedies: Sequence[str],
    posteriors: Sequence[Posterior],
) -> None:
    """Warn, and say what to try, where a network explains its data no better than a constant.

    `models` and `data` have one entry for each fit in `trained`; each posterior holds equally many.
    """
    gains = _gains(trained, models, data).reshape(len(posteriors), -1)
    for which, (posterior, gain) in enumerate(zip(posteriors, gains, strict=True)):
        useless = gain <= 0
        if not useless.any():
            continue
        where = f"Fit {which}" if len(posteriors) > 1 else "The fit"
        if len(gain) > 1:
            where += f" ({useless.sum()} of its {len(gain)} networks)"
        worst = float(gain.min())
        how = (
            f"is worse than a constant, by {-worst:.3g} nats a training row: it has not arrived"
            if worst < -FAR
            else "explains the training rows no better than a constant"
        )
        rate = "a smaller learning_rate"
        # A fit that is far off was most likely sent there by its rate.
        ways = [f"{rate} first", *remedies] if worst < -FAR else [*remedies, rate]
        weight = data[which * len(gain)].weight
        if weight.sum() < LIGHT * len(weight):
            how += f". The weights of its {len(weight)} rows add up to {weight.sum():.3g} only"
        warn(
            f"{where} {how}{_what_is_off(posterior, useless)}. Unless the inputs say nothing about "
            f"the target, try {', '.join(ways[:-1])} or {ways[-1]}.",
            UselessFitWarning,
        )


def _gains(trained: Trained, models: Sequence[Model], data: Sequence[Data]) -> np.ndarray:
    """By how much, in nats a row, each fit explains its data better than the best constant.

    Zero where a gain is within its error. Not a number where there is no telling.
    """
    gains = []
    for which, (model, (_, y, weight)) in enumerate(zip(models, data, strict=True)):
        # Not a number for steps that an earlier version took, which makes their mean one too.
        seen = trained.log_likelihood[which, _judged(trained, which)].astype(np.float64)
        constant = model.likelihood.constant_log_prob(y, weight)
        gain = np.nan if constant is None else seen.mean() - constant
        gains.append(0.0 if 0 < gain <= ERRORS * seen.std() / np.sqrt(seen.size) else gain)
    return np.array(gains)


def _judged(trained: Trained, which: int) -> slice:
    """The last steps; where rows were held out, those before the state that was kept."""
    num_steps = trained.log_likelihood.shape[1]
    if not trained.score.shape[1]:
        return slice(num_steps - max(1, round(LAST * num_steps)), num_steps)
    best = int(np.argmax(trained.score[which]))
    return slice(best * trained.chunk_steps, (best + 1) * trained.chunk_steps)


def _what_is_off(posterior: Posterior, useless: np.ndarray) -> str:
    try:
        layers_on = posterior.relevance().layers_on
    except ValueError:
        # Noise without a variance, which has no rule for what is off.
        return ""
    off = [name for name, on in layers_on.items() if not on[useless].any()]
    return f"; everything is switched off at {', '.join(map(repr, off))}" if off else ""
