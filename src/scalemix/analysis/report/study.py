"""What several sections of a report need, found once and only if it is needed."""

from functools import cached_property

import jax
import numpy as np

from scalemix.analysis.baselines import (
    ONLY_NO_MODEL,
    Baselines,
    Kind,
    NoBaseline,
    fit_baselines,
    kind_of,
    row_losses,
)
from scalemix.analysis.column_relevance import column_relevance, shares_of_columns
from scalemix.analysis.effects import Importance, permutation_importance
from scalemix.analysis.evaluation import PROBABILITY, find_figures_by_target
from scalemix.analysis.learning_curve import LEAST_ROWS, Curve, learning_curves
from scalemix.analysis.report.story import ReportedFit, Story
from scalemix.likelihoods import Likelihood
from scalemix.likelihoods.targets import suggestion
from scalemix.posterior.predictive import Predictive

# Importance is that of so many columns at most, measured on so many rows.
MOST_COLUMNS, MOST_ROWS = 40, 300
SHUFFLES = 3
# So many of the levels that networks look up are inputs of simpler models.
MOST_LEVELS = 500


class Study:
    """A story, and what follows from it."""

    def __init__(self, story: Story):
        self.story = story

    @property
    def last(self) -> ReportedFit:
        """The fit to tell of where only one can be told of."""
        return self.story.fits[-1]

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the test."""
        assert self.story.test is not None
        return self.story.test

    @cached_property
    def predictives(self) -> list[Predictive]:
        """The predictions of the rows of the test, by fit."""
        return [fit.posterior.predict(self.test[0]) for fit in self.story.fits]

    @cached_property
    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """The intervals of the last fit."""
        return self.predictives[-1].interval(PROBABILITY)

    @property
    def is_observed(self) -> bool:
        """Whether all targets of the test are known, as times that went on are not."""
        return not np.any(self.test[1] < self.last.posterior.model.likelihood.support[0])

    @property
    def num_targets(self) -> int:
        """How many targets a row has."""
        return int(np.prod(self.last.posterior.model.likelihood.target_shape, dtype=int))

    @property
    def target_names(self) -> list[str]:
        """What each target is called."""
        if self.num_targets == 1:
            return [self.story.target]
        given = list(self.story.targets)
        if len(given) == self.num_targets:
            return given
        return [f"{self.story.target}, {i + 1}" for i in range(self.num_targets)]

    @cached_property
    def by_target(self) -> list[dict[str, float]]:
        """The figures of the last fit for each of several targets; none for one target, or if
        nothing is known of them."""
        if self.last.by_target or self.story.test is None:
            return self.last.by_target
        return find_figures_by_target(self.predictives[-1], self.test[1])

    @property
    def outputs(self) -> dict[str, int | None]:
        """What effects are shown on, by name: each target; or the probability of one class, the
        last of two or else the commonest one."""
        classes = self.story.classes
        if classes is not None:
            one = 1 if len(classes) == 2 else int(np.bincount(self.test[1]).argmax())
            return {f"the probability of {classes[one]}": one}
        several = self.num_targets > 1
        return {name: i if several else None for i, name in enumerate(self.target_names)}

    @property
    def bounds(self) -> tuple[float, float]:
        """What predictions lie between."""
        if self.story.classes is not None:
            return 0.0, 1.0
        return (0.0, np.inf) if self._likelihood.innermost.discrete else self._likelihood.support

    @property
    def other_kind(self) -> str:
        """What to say where another kind of target would suit the numbers better; mostly nothing.

        `scalemix fit` says it, too.
        """
        if self.story.classes is not None or np.isfinite(self._likelihood.support).any():
            return ""
        y = self.test[1] if self.story.train is None else self.story.train[1]
        said = suggestion(y, lambda kind: f"--target-kind {kind} (in Python target={kind!r})")
        if said is None:
            return ""
        lower, upper = self.interval
        share = np.all((y > 0) & (y < 1))
        beyond = (lower < 0) | (share & (upper > 1))
        return f"{said} Here {int(beyond.sum()):,} of {beyond.size:,} do." if beyond.any() else ""

    @cached_property
    def baselines(self) -> "Baselines | str":
        """Simpler models of the same rows, or why there are none."""
        if self.story.test is None:
            return (
                "The rows that were held out are not here, so that there is nothing to compare on: "
                "give the table that the model was fitted to."
            )
        if self.story.train is None:
            return (
                "It is not known here which rows the model was trained on, so that no other model "
                "could be fitted to them and compared."
            )
        try:
            return fit_baselines(
                self._plain(self.story.train), self._plain(self.test), self._likelihood
            )
        except NoBaseline as reason:
            return str(reason)

    @cached_property
    def figures(self) -> list[dict[str, float]]:
        """The figures of each fit, with the one that it is compared by."""
        by_fit = [fit.figures for fit in self.story.fits]
        if isinstance(self.baselines, str) or self.kind in ("classes", "real", "times"):
            return by_fit
        losses = [row_losses(p.mean, self.test[1], self.kind).mean() for p in self.predictives]
        return [f | {"deviance": float(loss)} for f, loss in zip(by_fit, losses, strict=True)]

    @property
    def losses(self) -> np.ndarray:
        """What each row of the test costs the last fit, as it costs the baselines."""
        predictive, y = self.predictives[-1], self.test[1]
        if self.kind == "times":
            return -predictive.log_prob(y)
        return row_losses(predictive.mean, y, self.kind)

    @cached_property
    def curves(self) -> list[Curve]:
        """Learning curves of the baselines, as far as there are any."""
        if isinstance(self.baselines, str) or self.story.train is None:
            return []
        train, test = self._plain(self.story.train), self._plain(self.test)
        return learning_curves(train, test, self._likelihood, self.baselines.fitted)

    @property
    def why_no_curves(self) -> str:
        """What to say where there are no learning curves."""
        if isinstance(self.baselines, str):
            return self.baselines
        if self.kind == "times":
            return ONLY_NO_MODEL
        if self.story.train is not None and len(self.story.train[1]) < LEAST_ROWS:
            return "There are too few rows to train on."
        return "Simpler models cannot be fitted to a part of the rows: too many targets are zero."

    @cached_property
    def kind(self) -> Kind:
        """What is compared, where there are baselines."""
        return kind_of(self._likelihood, self.test, self.story.train or self.test)

    @cached_property
    def relevances(self) -> "list[np.ndarray | str]":
        """The prior's relevance of each column by fit, or why it is not known."""
        rows = self.story.train or self.story.test
        groups = [column.places for column in self.story.columns]
        by_fit = []
        for fit in self.story.fits:
            try:
                if rows is None:
                    # All inputs count as if they varied alike.
                    alike = np.ones(1 + max(map(max, groups)))
                    by_fit.append(shares_of_columns(fit.posterior, alike, groups))
                else:
                    by_fit.append(column_relevance(fit.posterior, rows[0], groups))
            except ValueError as error:
                by_fit.append(str(error))
        return by_fit

    @cached_property
    def measured(self) -> list[int]:
        """The columns whose importance is measured: all, or the most relevant ones."""
        shares = self.relevances[-1]
        num = len(self.story.columns)
        order = range(num) if isinstance(shares, str) else np.argsort(-shares, kind="stable")
        return [int(i) for i in order][:MOST_COLUMNS]

    @cached_property
    def importances(self) -> list[Importance]:
        """The importance of the measured columns, by fit."""
        x, y = self.test
        some = np.unique(np.linspace(0, len(y) - 1, min(len(y), MOST_ROWS)).astype(int))
        groups = [self.story.columns[i].places for i in self.measured]
        return [
            permutation_importance(
                fit.posterior, x[some], y[some], groups=groups, num_shuffles=SHUFFLES,
                key=jax.random.key(0),
            )
            for fit in self.story.fits
        ]  # fmt: skip

    @cached_property
    def leading(self) -> list[int]:
        """The measured columns, the most important one first."""
        return [self.measured[i] for i in self.importances[-1].order]

    @property
    def _likelihood(self) -> Likelihood:
        return self.last.posterior.model.likelihood

    def _plain(self, rows: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Rows as simpler models take them: these can make nothing of the position of a level."""
        x, y = rows
        places = range(x.shape[1]) if self.story.plain is None else self.story.plain
        if not self._levels:
            return x[:, list(places)], y
        parts = [
            x[:, place, None] == self._levels[place] if place in self._levels else x[:, place, None]
            for place in places
        ]
        return np.concatenate(parts, axis=1).astype(np.float64), y

    @cached_property
    def _levels(self) -> dict[int, np.ndarray]:
        """The inputs that networks look up, and the most frequent levels in the training rows."""
        model, (x, _) = self.last.posterior.model, self.story.train or self.test
        looked_up = model.lookups(jax.ShapeDtypeStruct(x.shape[1:], model.dtype))
        frequent = {}
        for place in (int(place) for each in looked_up for place in np.concatenate(each[2])):
            levels, counts = np.unique(x[:, place], return_counts=True)
            frequent[place] = levels[np.argsort(-counts, kind="stable")][:MOST_LEVELS]
        return frequent
