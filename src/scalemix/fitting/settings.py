"""The settings of a recipe: for each one its default, the values it may have, and its meaning.

The options of the command line are made from these fields; the signatures and the documentation of
the estimators are tested against them. This module does without JAX, so that help comes quickly.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

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


# Where the rate of Adam starts.
RATE = 1e-2


class Plan(NamedTuple):
    """How training goes unless told otherwise."""

    steps: int
    batch_size: int
    num_members: int
    num_trial_members: int = 0
    learning_rate: float = RATE
    trial_share: float = 0.3
    """The share of the steps that trials take."""


# Chains see all rows in every step, and mix better in small networks.
CHAIN_STEPS, NUM_CHAINS, CHAIN_WIDTHS = 3_200, 8, (16, 16)
# Plans for up to so many rows. Those of EM were chosen on tables that are in no benchmark here, and
# on training rows of some that are (benchmarks/README.md).
HUNDREDS, THOUSAND, FEW_ROWS, MANY_ROWS = 500, 1_000, 5_000, 20_000
EM_PLANS: dict[float, Plan] = {
    HUNDREDS: Plan(4_000, 64, 16, 2, learning_rate=2e-2, trial_share=0.375),
    THOUSAND: Plan(6_000, 64, 16, 2, trial_share=0.25),
    FEW_ROWS: Plan(8_000, 64, 16, 2, trial_share=0.3125),
    MANY_ROWS: Plan(10_000, 128, 16, 2),
    math.inf: Plan(4_000, 512, 8, 1, trial_share=0.625),
}
FEWEST, FEWER, FEW, MORE, MOST = EM_PLANS.values()
# Classes are learned sooner, and then by heart: trials that stop before would not show that.
CLASS_PLANS: dict[float, Plan] = {
    FEW_ROWS: FEW._replace(steps=4_000, trial_share=1.0),
    MANY_ROWS: MORE._replace(steps=5_000, trial_share=1.0),
    math.inf: MOST._replace(learning_rate=3e-3, trial_share=1.0),
}
FEW_CLASSES, MORE_CLASSES, MOST_CLASSES = CLASS_PLANS.values()
PLANS: dict[str, dict[float, Plan]] = {
    "em": EM_PLANS,
    "em of classes": CLASS_PLANS,
    "noise": {FEW_ROWS: Plan(8_000, 64, 8), math.inf: Plan(10_000, 128, 8)},
    # Of chains only steps and members are planned.
    "mcmc": {math.inf: Plan(CHAIN_STEPS, 0, NUM_CHAINS)},
}
WIDTHS = (50, 50)
# The least noise of a real target, where only one value is used.
ONE_FLOOR = 1e-3


@dataclasses.dataclass(frozen=True)
class Setting:
    """What is known of one setting besides its name and default."""

    kind: Kind
    meaning: str


def _shown(widths: tuple[int, ...]) -> str:
    return " and ".join(map(str, widths))


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
            f"for noise training and inverse-gamma otherwise. With auto, the first layer of EM "
            f"has half-Cauchy scales by column instead, where columns became several inputs. A "
            f"family that is named holds for all layers.",
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
    hidden: tuple[int, ...] | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Widths(may_be_open=True),
            f"The width of each hidden layer. All are equal in a residual network. By default "
            f"{_shown(WIDTHS)}, and {_shown(CHAIN_WIDTHS)} for MCMC.",
        ),
    )
    residual: bool | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Flag(may_be_open=True),
            "Whether every hidden layer but the first has a path around it. By default so, except "
            "for MCMC.",
        ),
    )
    num_members: int | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Count(may_be_open=True),
            f"How many networks the ensemble has; for MCMC, how many chains run. By default "
            f"{FEW.num_members} for EM with up to {MANY_ROWS:,} rows, and {MOST.num_members} "
            f"otherwise.",
        ),
    )
    num_trial_members: int | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Count(may_be_open=True),
            f"How many networks are fitted to try each combination of settings that held-out rows "
            f"choose among. Each holds out another quarter of the rows. By default "
            f"{FEW.num_trial_members}, and {MOST.num_trial_members} for more than {MANY_ROWS:,} "
            f"rows.",
        ),
    )
    max_steps: int | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Count(may_be_open=True),
            f"Steps of training; for MCMC, steps of each chain, the first half of which adapt "
            f"the sampler. By default {FEW.steps:,}, and {MORE.steps:,} for more than "
            f"{FEW_ROWS:,} rows; {CHAIN_STEPS:,} for MCMC; for EM {FEWEST.steps:,} with up to "
            f"{HUNDREDS:,} rows, {FEWER.steps:,} with up to {THOUSAND:,}, and {MOST.steps:,} with "
            f"more than {MANY_ROWS:,}, whose batches are larger; for EM with classes "
            f"{FEW_CLASSES.steps:,}, and {MORE_CLASSES.steps:,} for {FEW_ROWS:,} to {MANY_ROWS:,} "
            f"rows.",
        ),
    )
    batch_size: int | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Count(may_be_open=True),
            f"Rows in a step of training. By default {FEW.batch_size}; {MORE.batch_size} for "
            f"more than {FEW_ROWS:,} rows; and {MOST.batch_size} for EM with more than "
            f"{MANY_ROWS:,}. Chains use all rows.",
        ),
    )
    learning_rate: float | None = dataclasses.field(
        default=None,
        metadata=_setting(
            Positive(may_be_open=True),
            f"Where the rate of Adam starts. It falls to zero along a cosine. By default {RATE:g}; "
            f"for EM {FEWEST.learning_rate:g} with up to {HUNDREDS:,} rows and no classes, and "
            f"{MOST_CLASSES.learning_rate:g} with classes and more than {MANY_ROWS:,} rows.",
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
        if self.has_paths and len(set(self.widths)) > 1:
            raise SettingError(
                Mention("hidden", self.widths),
                ": the layers of a residual network are of one width. Make them so, or use ",
                Mention("residual", False),
                ".",
            )

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of each hidden layer, as told or by default."""
        if self.hidden is not None:
            return self.hidden
        return CHAIN_WIDTHS if self.inference == "mcmc" else WIDTHS

    @property
    def has_paths(self) -> bool:
        """Whether there are paths around hidden layers, as told or by default."""
        return self.inference != "mcmc" if self.residual is None else self.residual

    @property
    def mixture_name(self) -> str:
        """The family of the scales, with "auto" resolved."""
        return AUTO_MIXTURE[self.inference] if self.mixture == "auto" else self.mixture

    @property
    def tries_settings(self) -> bool:
        """Whether held-out rows choose among settings."""
        floor = self.noise_floor if self.task == "regression" else None
        return self.inference == "em" and "auto" in (self.temperature, floor)

    def plan(self, num_rows: int) -> Plan:
        """How training on so many rows goes, with what was told."""
        of_classes = self.inference == "em" and self.task == "classification"
        plans = PLANS["em of classes" if of_classes else self.inference]
        plan = plans[min(most for most in plans if num_rows <= most)]
        batch_size = self.batch_size or plan.batch_size
        return Plan(
            self.max_steps or plan.steps,
            num_rows if self.inference == "mcmc" else batch_size,
            self.num_members or plan.num_members,
            self.num_trial_members or plan.num_trial_members,
            self.learning_rate or plan.learning_rate,
            plan.trial_share,
        )

    def training(self, num_rows: int) -> dict[str, Any]:
        """Steps, batches and rate of training on so many rows, as engines name them."""
        plan = self.plan(num_rows)
        return {
            "steps": plan.steps,
            "batch_size": plan.batch_size,
            "learning_rate": plan.learning_rate,
            # Often enough for a bar that moves, seldom enough to cost nothing.
            "chunk_steps": min(500, plan.steps),
        }


def scales_by_column(inference: str, mixture: str, prior: str) -> bool:
    """Whether columns that are several inputs get scales of their own: in variational EM, if the
    family of the scales was left open."""
    return inference == "em" and mixture == "auto" and prior != "drop-connect"


def settings_of(recipe: type[RecipeSettings]) -> dict[str, Setting]:
    """The settings of a recipe by name, in their order."""
    return {field.name: field.metadata["setting"] for field in dataclasses.fields(recipe)}
