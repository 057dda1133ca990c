"""What a fit returns."""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._random import check_key
from scalemix.model import Model
from scalemix.networks.gaussians import draw_network
from scalemix.predictive import Predictive, Regime
from scalemix.scaling import Scaling


class History(NamedTuple):
    """How the fit went."""

    objective: np.ndarray
    """Each step's objective, per datum."""
    score: np.ndarray
    """The held-out log-likelihood per datum after each chunk; empty if nothing was held out."""
    recorded: dict[str, np.ndarray]
    """What was recorded on request, one entry a chunk."""


class Networks(eqx.Module):
    """Networks that can be drawn: the part of a posterior that predictions are made of.

    It holds nothing but what a draw needs, so that posteriors of one kind share compiled code.
    """

    @property
    @abc.abstractmethod
    def default_draws(self) -> int:
        """How many draws a prediction takes if nothing is said."""

    @abc.abstractmethod
    def __call__(self, index: Array, key: PRNGKeyArray) -> Any:
        """The network of one draw."""


class NoisyNetworks(Networks):
    """One set of weights under noise drawn from its prior."""

    model: Model

    @property
    def default_draws(self) -> int:
        return 100

    def __call__(self, index: Array, key: PRNGKeyArray) -> Any:
        return self.model.with_scales(self.model.draw(key=key))


class GaussianNetworks(Networks):
    """An independent Gaussian for each weight, around the means that the model holds.

    `deviations` are their standard deviations, by site; `variances` the scales that the prior
    settled on, by site and group.
    """

    model: Model
    deviations: dict[str, Array]
    variances: dict[str, dict[str, Array]]

    @property
    def default_draws(self) -> int:
        return 100

    def __call__(self, index: Array, key: PRNGKeyArray) -> Any:
        return draw_network(self.model.network, self.model.sites, self.deviations, key)


class OneNetwork(Networks):
    """One set of weights and no noise."""

    model: Model

    @property
    def default_draws(self) -> int:
        return 1

    def __call__(self, index: Array, key: PRNGKeyArray) -> Any:
        return self.model.network


class Posterior(eqx.Module):
    """What is believed about a network after the data.

    `model` holds what was learned: the network's weights, the likelihood's noise. `networks` draws
    from what is still uncertain.
    """

    model: Model
    networks: Networks
    scaling: Scaling
    history: History
    key: PRNGKeyArray
    """The key of predictions that are given none, so that they too are repeatable."""

    def predict(
        self, x: Any, *, num_draws: int | None = None, key: PRNGKeyArray | None = None
    ) -> Predictive:
        """The predictive distribution of the targets of some inputs.

        Nothing is computed yet, and whatever is asked of the result is computed in blocks of rows:
        memory is bounded whatever the numbers of rows and draws. Inputs and results are on the
        scale of the data that were fitted.
        """
        num_draws = self.networks.default_draws if num_draws is None else num_draws
        if num_draws < 1:
            raise ValueError(f"num_draws must be at least 1, got {num_draws}.")
        key = self.key if key is None else check_key(key, "key")
        regime = Regime(self.networks, self.model.likelihood, self.scaling, key)
        return Predictive(regime, check_inputs(x, self.model), num_draws)

    def __repr__(self) -> str:
        kind, steps = type(self.networks).__name__, len(self.history.objective)
        return f"Posterior({self.model!r}, {kind}, after {steps} steps)"


def check_inputs(x: Any, model: Model) -> np.ndarray:
    """Inputs as an array that the model's network takes row by row, or a `ValueError`."""
    columns = list(getattr(x, "columns", []))
    if columns:
        text = [
            name for name, kind in zip(columns, x.dtypes, strict=True) if kind.kind not in "biuf"
        ]
        if text:
            raise ValueError(
                f"Column {text[0]!r} of x holds no plain numbers ({x.dtypes[text[0]]}). Encode or "
                f"drop it first."
            )
    x = np.asarray(x)
    if x.dtype.kind not in "biuf":
        raise ValueError(f"x must be real numbers, got the type {x.dtype}.")
    if x.ndim == 0:
        raise ValueError("x must hold examples along its first axis, got a single number.")
    dtype = next(iter(model.weights.values())).dtype
    # Whole numbers are measurements, unless the network takes nothing else (an embedding).
    problem = _refusal(model, x.shape[1:], dtype)
    if problem is None:
        x = x.astype(dtype)
    elif x.dtype.kind in "iu" and _refusal(model, x.shape[1:], x.dtype) is None:
        return x
    else:
        raise ValueError(
            f"The network does not take an example of shape {x.shape[1:]}, a row of x, which has "
            f"the shape {x.shape}. It says: {problem}"
        )
    if not np.isfinite(x).all():
        where = np.argwhere(~np.isfinite(x))[0]
        place = f"row {where[0]}" + (f", column {where[1]}" if x.ndim == 2 else "")
        raise ValueError(f"x is not finite at {place}. Remove or impute such values first.")
    return x


def _refusal(model: Model, shape: tuple[int, ...], dtype: Any) -> str | None:
    """What the network says against an example of this shape and type, if anything."""
    try:
        eqx.filter_eval_shape(
            model.network, jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
        )
    except Exception as error:
        lines = str(error).strip().splitlines()
        return lines[0] if lines else type(error).__name__
    return None
