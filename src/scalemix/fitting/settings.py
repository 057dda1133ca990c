"""The settings of a recipe: for each one its default, the values it may have, and its meaning.

The options of the command line are made from these fields; the signatures and the documentation of
the estimators are tested against them. This module does without JAX, so that help comes quickly.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from scalemix.fitting.kinds import (
    Choice,
    Count,
    Flag,
    Kind,
    Mention,
    Parameters,
    Positive,
    SettingError,
    Widths,
)

Task = Literal["regression", "classification"]
Inference = Literal["em", "noise", "mcmc"]
Objective = Literal[
    "lower_bound",
    "importance_weighted",
    "truncated",
    "pareto_smoothed",
    "tail_adaptive",
    "hierarchical",
]
Sampler = Literal["nuts", "mclmc"]

PRIOR_NAMES = ("ard", "drop-connect", "add", "ard-add")
TARGET_NAMES = ("real", "positive", "count", "share", "time")
MIXTURE_NAMES = (
    "bernoulli", "beta", "exponential", "gamma", "gaussian", "half-cauchy", "inverse-gamma",
    "inverse-nakagami", "log-uniform", "rayleigh", "uniform",
)  # fmt: skip
# What "auto" stands for: EM wants scales in closed form, and the others a proper distribution.
AUTO_MIXTURE: dict[str, str] = {
    "em": "inverse-gamma",
    "noise": "bernoulli",
    "mcmc": "inverse-gamma",
}
# Networks in an ensemble, or chains, unless told otherwise.
ENSEMBLE_SIZE: dict[str, int] = {"em": 16, "noise": 8, "mcmc": 8}
# For more rows than this, batches are larger and training is longer.
MANY_ROWS = 5000
# Steps of training for few and for many rows, unless told otherwise.
STEPS: dict[str, tuple[int, int]] = {"em": (14_000, 17_000), "noise": (8_000, 10_000)}
CHAIN_STEPS = 4_000
# Rows in a step of training, for few and for many rows.
BATCH_SIZES = (64, 128)
# The least noise of a real target, where only one value is used.
ONE_FLOOR = 1e-3


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is known of one setting besides its name and default."""

    kind: Kind
    meaning: str


def _setting(kind: Kind, meaning: str) -> dict[str, Setting]:
    return {"setting": Setting(kind, meaning)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecipeSettings:
    """The fields of `scalemix.recipes.Recipe`, checked one by one."""

    task: Task = dataclasses.field(
        default="regression",
        metadata=_setting(
            Choice(get_args(Task)), "Whether the target is a number or one of several classes."
        ),
    )
    target: str = dataclasses.field(
        default="real",
        metadata=_setting(
            Choice(TARGET_NAMES),
            'What numbers the target has: any ("real"), above zero ("positive"), whole from zero '
            '("count"), strictly between zero and one ("share"), or times that are below zero '
            'where they were not observed to the end ("time").',
        ),
    )
    prior: str = dataclasses.field(
        default="ard-add",
        metadata=_setting(
            Choice(PRIOR_NAMES),
            'Which weights share a scale: those of a unit ("ard"), those of a layer ("add"), '
            'both ("ard-add"), or none ("drop-connect"). In layers that no path leads around, '
            '"add" and "ard-add" mean "ard".',
        ),
    )
    mixture: str = dataclasses.field(
        default="auto",
        metadata=_setting(
            Choice(("auto", *MIXTURE_NAMES)),
            f"The family of the scales: {', '.join(MIXTURE_NAMES)}, or auto, which is bernoulli "
            f"for noise training and inverse-gamma otherwise.",
        ),
    )
    mixture_parameters: Mapping[str, float] | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Parameters(),
            "Parameters of the family by name, such as keep for Bernoulli scales. The others "
            "keep their defaults.",
        ),
    )
    inference: Inference = dataclasses.field(
        default="em",
        metadata=_setting(
            Choice(get_args(Inference)),
            'Variational EM ("em"), training under noise ("noise": dropout and its relatives), or '
            'Markov chain Monte Carlo ("mcmc").',
        ),
    )
    hidden: tuple[int, ...] = dataclasses.field(
        default=(50, 50),
        metadata=_setting(
            Widths(), "The width of each hidden layer. All are equal in a residual network."
        ),
    )
    residual: bool = dataclasses.field(
        default=True,
        metadata=_setting(Flag(), "Whether every hidden layer but the first has a path around it."),
    )
    num_members: int | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Count(may_be_open=True),
            f"How many networks the ensemble has; for MCMC, how many chains run. By default "
            f"{ENSEMBLE_SIZE['em']} for EM, and {ENSEMBLE_SIZE['noise']} otherwise.",
        ),
    )
    num_trial_members: int = dataclasses.field(
        default=4,
        metadata=_setting(
            Count(),
            "How many networks are fitted to try each combination of temperature and noise floor.",
        ),
    )
    max_steps: int | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Count(may_be_open=True),
            f"Steps of training; for MCMC, steps of each chain, the first half of which adapt "
            f"the sampler. By default {STEPS['em'][0]:,} for EM and {STEPS['noise'][0]:,} for "
            f"noise training ({STEPS['em'][1]:,} and {STEPS['noise'][1]:,} for more than "
            f"{MANY_ROWS:,} rows), and {CHAIN_STEPS:,} for MCMC.",
        ),
    )
    batch_size: int | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Count(may_be_open=True),
            f"Rows in a step of training. By default {BATCH_SIZES[0]}, and {BATCH_SIZES[1]} for "
            f"more than {MANY_ROWS:,} rows. Chains use all rows.",
        ),
    )
    learning_rate: float = dataclasses.field(
        default=1e-2,
        metadata=_setting(
            Positive(), "Where the rate of Adam starts. It falls to zero along a cosine."
        ),
    )
    temperature: float | Literal["auto"] = dataclasses.field(
        default="auto",
        metadata=_setting(
            Positive(may_be_auto=True),
            'How strongly EM weighs the prior; 1 is Bayes\' rule. With "auto", held-out rows '
            "choose.",
        ),
    )
    noise_floor: float | Literal["auto"] = dataclasses.field(
        default="auto",
        metadata=_setting(
            Positive(may_be_auto=True),
            f"The least noise of a real target, in standard deviations of it; of other numbers, "
            f'the `floor` of their likelihood. With "auto", held-out rows choose for EM; otherwise '
            f"it is {ONE_FLOOR:g}, or the likelihood's own. Classes have no such noise.",
        ),
    )
    objective: Objective = dataclasses.field(
        default="tail_adaptive",
        metadata=_setting(
            Choice(get_args(Objective)),
            f"What noise training maximises: {', '.join(get_args(Objective))}.",
        ),
    )
    num_draws: int = dataclasses.field(
        default=10, metadata=_setting(Count(), "Draws of the noise in each step of noise training.")
    )
    sampler: Sampler = dataclasses.field(
        default="mclmc", metadata=_setting(Choice(get_args(Sampler)), "The sampler of MCMC.")
    )
    devices: int | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Count(may_be_open=True),
            "How many devices the networks or chains are spread over. By default all there are.",
        ),
    )

    def __post_init__(self) -> None:
        for name, known in settings_of(RecipeSettings).items():
            object.__setattr__(self, name, known.kind.check(name, getattr(self, name)))
        if self.task == "classification" and self.target != "real":
            raise SettingError(
                Mention("target", self.target), " is about numbers, and the target is a class."
            )
        if self.residual and len(set(self.hidden)) > 1:
            raise SettingError(
                Mention("hidden", self.hidden),
                ": the layers of a residual network are of one width. Make them so, or use ",
                Mention("residual", False),
                ".",
            )

    @property
    def ensemble_size(self) -> int:
        """How many networks are fitted, or chains run."""
        return ENSEMBLE_SIZE[self.inference] if self.num_members is None else self.num_members

    @property
    def mixture_name(self) -> str:
        """The family of the scales, with "auto" resolved."""
        return AUTO_MIXTURE[self.inference] if self.mixture == "auto" else self.mixture

    def training(self, num_rows: int) -> dict[str, Any]:
        """Steps, batches and rate of training on so many rows, as engines name them."""
        many = num_rows > MANY_ROWS
        steps = self.max_steps or STEPS[self.inference][many]
        return {
            "steps": steps,
            "batch_size": self.batch_size or BATCH_SIZES[many],
            "learning_rate": self.learning_rate,
            # Often enough for a bar that moves, seldom enough to cost nothing.
            "chunk_steps": min(500, steps),
        }


def settings_of(recipe: type[RecipeSettings]) -> dict[str, Setting]:
    """The settings of a recipe by name, in their order."""
    return {field.name: field.metadata["setting"] for field in dataclasses.fields(recipe)}
