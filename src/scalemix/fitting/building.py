"""What the names in a recipe stand for: mixtures, priors, networks, likelihoods, engines."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix import mixtures, networks
from scalemix._random import noise_key
from scalemix._types import PyTree
from scalemix.data.input_layout import InputLayout
from scalemix.fitting.candidates import noisy_likelihoods
from scalemix.fitting.kinds import Mention, SettingError
from scalemix.fitting.settings import ONE_FLOOR, RecipeSettings, scales_by_column
from scalemix.inference.training.noise import NoiseTraining
from scalemix.inference.training.scales import have_maximum
from scalemix.likelihoods import (
    Categorical,
    Correlated,
    Gaussian,
    Independent,
    Likelihood,
    for_target,
)
from scalemix.mixtures import HalfCauchy, ScaleMixture
from scalemix.model.assignment import Prior
from scalemix.networks.mlp import ColumnNumbers
from scalemix.structures import ADD, ARD, ARDADD, DropConnect, Structure

PRIORS: dict[str, type[Structure]] = {
    "ard": ARD,
    "drop-connect": DropConnect,
    "add": ADD,
    "ard-add": ARDADD,
}
# Each family, with parameters under which a scale is about one: weights of unit spread.
MIXTURES: dict[str, tuple[type[ScaleMixture], dict[str, float]]] = {
    "bernoulli": (mixtures.Bernoulli, {"keep": 0.95}),
    "beta": (mixtures.Beta, {"a": 19.0, "b": 1.0}),
    "exponential": (mixtures.Exponential, {"rate": 1.0}),
    "gamma": (mixtures.Gamma, {"shape": 2.0, "rate": 2.0}),
    "gaussian": (mixtures.Gaussian, {"std": 0.25}),
    "half-cauchy": (mixtures.HalfCauchy, {"scale": 1.0}),
    "inverse-gamma": (mixtures.InverseGamma, {"shape": 3.0, "rate": 3.0}),
    "inverse-nakagami": (mixtures.InverseNakagami, {"shape": 3.0, "spread": 1.0}),
    "log-uniform": (mixtures.LogUniform, {}),
    "rayleigh": (mixtures.Rayleigh, {"scale": math.sqrt(0.5)}),
    "uniform": (mixtures.Uniform, {"low": 0.5, "high": 1.5}),
}
# The layer that reads the inputs, in a plain network and in a residual one.
FIRST_LAYER = ("layers.0", "first")
# Chains: the prior's scale, samples that are kept of each, and how far MCLMC may be off, per
# unknown. They were searched on training rows of yacht and energy (benchmarks/README.md).
CHAIN_SCALE, CHAIN_SAMPLES, ENERGY_TOLERANCE = 0.5, 500, 0.1


def mixture_parameters(recipe: RecipeSettings) -> dict[str, float]:
    """The values of all parameters of the family, or a `SettingError`."""
    name = recipe.mixture_name
    kind, defaults = MIXTURES[name]
    given = recipe.mixture_parameters or {}
    known = [field.name for field in dataclasses.fields(kind)]
    for key in given:
        if key not in known:
            takes = f"takes {', '.join(known)}" if known else "has no parameters"
            raise SettingError(Mention("mixture_parameters"), f": {name!r} {takes}; got {key!r}.")
    return defaults | {key: float(value) for key, value in given.items()}


def build_mixture(recipe: RecipeSettings) -> ScaleMixture:
    """The family of scales, with its parameters."""
    return MIXTURES[recipe.mixture_name][0](**mixture_parameters(recipe))


def build_prior(recipe: RecipeSettings) -> Structure:
    """The prior of the weights."""
    structure = PRIORS[recipe.prior]
    if structure in (ADD, ARDADD) and not (recipe.has_paths and len(recipe.widths) > 1):
        structure = ARD
    return structure(
        build_mixture(recipe), scale=CHAIN_SCALE if recipe.inference == "mcmc" else 1.0
    )


def build_table_prior(recipe: RecipeSettings, layout: InputLayout | None) -> Prior:
    """The prior of a network that reads a table whose columns may be several inputs each.

    Weights that read one column then share a scale, so that a rare category shrinks towards the
    others and a useless column goes as a whole. Parts of a column, such as bins, have scales of
    their own besides. Both are half-Cauchy: most of the many inputs can go, and few stay as they
    are.
    """
    prior = build_prior(recipe)
    if not reads_columns(recipe, layout):
        return prior
    reader = FIRST_LAYER[recipe.has_paths]
    # A layer that looks levels up is made of several.
    name = f"{reader}.*" if layout is not None and layout.levels.any() else reader
    first = {name: ARD(HalfCauchy(1.0), by=("column", "part"))}
    if not recipe.has_paths:
        return first | {f"layers.{place + 1}": prior for place in range(len(recipe.widths))}
    blocks = {"blocks.*": prior} if len(recipe.widths) > 1 else {}
    return first | blocks | {"last": ARD(build_mixture(recipe))}


def reads_columns(recipe: RecipeSettings, layout: InputLayout | None) -> bool:
    """Whether the weights that read a table have scales by column: where a column is several inputs
    and the family of the scales was left open, in variational EM."""
    return layout is not None and not layout.is_plain and can_read_columns(recipe)


def can_read_columns(recipe: RecipeSettings) -> bool:
    """Whether columns that are several inputs get scales of their own."""
    return scales_by_column(recipe.inference, recipe.mixture, recipe.prior)


def check_levels(recipe: RecipeSettings, layout: InputLayout | None) -> None:
    """Raise `ValueError` if inputs are positions of levels, and would be read as numbers."""
    if layout is not None and layout.levels.any() and not reads_columns(recipe, layout):
        raise ValueError(
            f"Input {int(np.argmax(layout.levels > 0))} is the position of a level, which only "
            f"variational EM with mixture='auto' looks up. Encode the table with look_up=False."
        )


def inputs_to_read(
    recipe: RecipeSettings, layout: InputLayout | None, num_inputs: int
) -> int | ColumnNumbers:
    """The number of inputs; or, where these have scales by column, columns and parts of them, and
    how many levels each is the position of."""
    if layout is None or not reads_columns(recipe, layout):
        return num_inputs
    return layout.columns.tolist(), layout.parts.tolist(), layout.levels.tolist()


def may_do_without(recipe: RecipeSettings, layout: InputLayout | None) -> bool:
    """Whether held-out rows decide on inputs."""
    return layout is not None and bool(layout.optional.any()) and reads_columns(recipe, layout)


def ways_to_read(
    recipe: RecipeSettings, network: PyTree, layout: InputLayout | None, *, can_choose: bool
) -> list[PyTree]:
    """The network as it is; and, where it may do without some inputs, without them.

    Where held-out rows cannot choose between the two, it does without. Both have the same shapes,
    so that one program fits them.
    """
    if layout is None or not may_do_without(recipe, layout):
        return [network]
    on = jnp.asarray(~layout.optional[layout.levels == 0])
    without = eqx.tree_at(lambda n: n.first_layer.on, network, on)
    return [network, without] if can_choose else [without]


def reads_all(network: PyTree) -> bool:
    """Whether a network that knows its columns reads all inputs."""
    return bool(network.first_layer.reads.all())


def build_network(
    recipe: RecipeSettings,
    num_inputs: int | ColumnNumbers,
    num_outputs: int,
    *,
    key: PRNGKeyArray,
) -> PyTree:
    """A network with fresh weights."""
    # Chains follow slopes, and those of tanh have no kinks.
    bend = jnp.tanh if recipe.inference == "mcmc" else jax.nn.relu
    return _start_network(recipe.has_paths, num_inputs, num_outputs, recipe.widths, bend, key)


@eqx.filter_jit
def _start_network(
    has_paths: bool, num_inputs: int | ColumnNumbers, num_outputs: int, widths: tuple[int, ...],
    bend: Callable[[Array], Array], key: PRNGKeyArray,
) -> PyTree:  # fmt: skip
    """A network, made in one program: alone, each operation would be one of its own."""
    key = noise_key(key)
    if has_paths:
        width, depth = widths[0], len(widths)
        return networks.ResNet(num_inputs, num_outputs, width, depth, activation=bend, key=key)
    return networks.MLP(num_inputs, num_outputs, widths, activation=bend, key=key)


def build_likelihoods(
    recipe: RecipeSettings, num_classes: int | None, num_targets: int | None = None
) -> list[Likelihood]:
    """The distributions of the target that are tried; only EM tries more than one."""
    if recipe.task == "classification":
        return [Categorical(num_classes or 2)]
    floor = None if recipe.noise_floor == "auto" else recipe.noise_floor
    if recipe.inference == "em":
        each = noisy_likelihoods(None if floor is None else (floor,), recipe.target)
    elif recipe.target != "real":
        each: list[Likelihood] = [for_target(recipe.target, floor=floor)]
    elif recipe.inference == "mcmc":
        # As heavy-tailed as in EM: chains that call few rows certain lose much by one that is far.
        each = [for_target("real", floor=floor or ONE_FLOOR, per_input=True)]
    else:
        each = [Gaussian(floor=floor or ONE_FLOOR)]
    if num_targets is None:
        return each
    if recipe.tries_settings and recipe.target == "real":
        # Held-out rows decide whether the noise of the targets goes together.
        return [Correlated(one, num_targets, by) for one in each for by in (0.0, 1.0)]
    return [Independent(one, num_targets) for one in each]


def build_method(recipe: RecipeSettings, num_rows: int) -> Any:
    """Noise training or MCMC, for so many rows."""
    if recipe.inference == "noise":
        return NoiseTraining(
            recipe.objective, num_draws=recipe.num_draws,
            num_members=recipe.plan(num_rows).num_members, **recipe.training(num_rows),
        )  # fmt: skip
    # Chains need packages that not everyone has.
    from scalemix.inference.chains.mcmc import MCMC

    plan = recipe.plan(num_rows)
    half = max(1, plan.steps // 2)
    thin = max(1, half // CHAIN_SAMPLES)
    return MCMC(
        num_chains=plan.num_members,
        num_warmup=half,
        num_samples=max(1, half // thin),
        thin=thin,
        sampler=recipe.sampler,
        warm_start=True,
        warm_start_steps=plan.steps,
        learning_rate=plan.learning_rate,
        energy_tolerance=ENERGY_TOLERANCE,
    )


def has_update(mixture: ScaleMixture) -> bool:
    """Whether variational EM can use the family."""
    try:
        # Nothing has to be computed for that.
        jax.eval_shape(mixture.optimal_variance, 1.0, 1)
    except ValueError:
        return False
    return True


def check_mixture(recipe: RecipeSettings) -> None:
    """Raise `SettingError` if the inference cannot use the mixture, or not with this prior."""
    mixture, inference = Mention("mixture", recipe.mixture), recipe.inference
    built = build_mixture(recipe)
    if inference == "em" and not has_update(built):
        usable = [name for name, (kind, given) in MIXTURES.items() if has_update(kind(**given))]
        raise SettingError(
            mixture,
            " has no closed-form update, which ",
            Mention("inference", "em"),
            f" needs. Use one of {', '.join(usable)}, or ",
            Mention("inference", "noise"),
            " or ",
            Mention("inference", "mcmc"),
            ".",
        )
    prior = build_prior(recipe)
    # A layer has one scale; what else there may be has at least as many as a layer has units.
    num_scales = {group: 1 if group == "layer" else recipe.widths[0] for group in prior.groups}
    if inference == "em" and not have_maximum(prior, num_scales):
        raise SettingError(
            Mention("prior", recipe.prior),
            " with ",
            mixture,
            " has no most probable scales: those of units and of layers multiply, and nothing says "
            "which of them is large. Use ",
            Mention("prior", "ard"),
            ", or ",
            Mention("mixture", "half-cauchy"),
            ".",
        )
    if inference != "em" and recipe.mixture == "log-uniform":
        raise SettingError(
            mixture,
            " is improper, and ",
            Mention("inference", inference),
            " has to sample from it. Use ",
            Mention("inference", "em"),
            ", or ",
            Mention("mixture", "half-cauchy"),
            ".",
        )
