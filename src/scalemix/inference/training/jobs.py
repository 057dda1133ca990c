"""Jobs of training: many models, data sets and members of ensembles, run as one program."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from scalemix._mesh import default_device
from scalemix._random import generator_of, split_apart, stack_keys
from scalemix.data.batches import Data, stack
from scalemix.data.streams import BatchStream
from scalemix.inference.driver import Control
from scalemix.inference.layout import Layout
from scalemix.inference.method import Inferred, Outcome
from scalemix.inference.side_by_side import SideBySide, stack_fits, take
from scalemix.inference.training import loop
from scalemix.inference.training.engine import Engine, Schedule
from scalemix.inference.training.findings import warn_of_useless_fits
from scalemix.inference.training.programs import HeldOutScores, split_keys
from scalemix.inference.training.scoring import RowScores
from scalemix.inference.training.sources import InMemory, Streamed
from scalemix.model.model import Model
from scalemix.networks.demands import reads_batch
from scalemix.posterior.networks import Ensemble, Networks
from scalemix.posterior.posterior import History, Posterior

# Bytes of data sets, one of which may be padding for the sake of another run's program.
MOST_PADDING = 2**26


class Job(NamedTuple):
    """One model to train on one of several data sets."""

    model: Model
    engine: Engine
    which: int
    """The number of the data set."""
    key: PRNGKeyArray


def ensemble_jobs(
    model: Model, engine: Engine, which: int, key: PRNGKeyArray, num_members: int
) -> list[Job]:
    """The jobs of an ensemble, whose members start from different values; or the one job."""
    if num_members == 1:
        return [Job(model, engine, which, key)]
    keys = split_apart(key, num_members)
    starts = [model, *(restart(model, k) for k in keys[1:])]
    return [Job(start, engine, which, k) for start, k in zip(starts, keys, strict=True)]


def restart(model: Model, key: PRNGKeyArray) -> Model:
    """The model with each learnable array of its network in another order.

    That is another draw from whatever distribution the network was started with, without having to
    know it. Constants, such as the scales of a norm, stay what they are.
    """
    rng = generator_of(key)

    def reorder(leaf: Any) -> Any:
        values = np.asarray(leaf)
        return jax.device_put(rng.permutation(values.reshape(-1)).reshape(values.shape))

    learned, fixed = eqx.partition(model.network, model.learnable().network)
    network = eqx.combine(jax.tree.map(reorder, learned), fixed)
    return eqx.tree_at(lambda m: m.network, model, network)


class TrainedJobs(NamedTuple):
    """Jobs that ran together: what they started from, and how they ended."""

    jobs: Sequence[Job]
    train: Sequence[Data]
    starts: SideBySide
    trained: loop.Trained
    layout: Layout

    @property
    def networks(self) -> Networks:
        """The networks of all jobs, their arrays stacked on a leading axis."""
        return self.jobs[0].engine.networks(self.trained.state, self.starts.models)

    def inferred(self, num_members: int) -> list[Inferred]:
        """What each fit inferred, so many consecutive jobs being the members of one."""
        networks, results = self.networks, []
        histories = History(self.trained.objective, self.trained.score, self.trained.recorded)
        for first in range(0, len(self.jobs), num_members):
            rows = slice(first, first + num_members) if num_members > 1 else first
            mine = take(networks, rows)
            mine = Ensemble(mine, num_members) if num_members > 1 else mine
            results.append(Inferred(mine, take(histories, rows)))
        return results

    def outcome(self, num_members: int) -> Outcome:
        """What was inferred, and a warning where it is of no use."""

        def warn(posteriors: Sequence[Posterior]) -> None:
            models = [job.model for job in self.jobs]
            data = [self.train[job.which] for job in self.jobs]
            remedies = self.jobs[0].engine.remedies
            warn_of_useless_fits(self.trained, models, data, remedies, posteriors)

        return Outcome(self.inferred(num_members), warn)

    def score_rows(self, held_out: Data, num_draws: int) -> RowScores:
        """What each job says of the held-out rows of its data set: (jobs, rows)."""
        scores = _scores(self.jobs, self.layout, self.starts, held_out, num_draws)
        return scores.of(self.trained.state)


def run_jobs(
    jobs: Sequence[Job],
    schedule: Schedule,
    train: Sequence[Data],
    held_out: Sequence[Data] | None = None,
    control: Control = Control(),  # noqa: B008
    lengths: Sequence[int] = (),
    to_score: tuple[Data, int] | None = None,
) -> TrainedJobs:
    """Train all these models as one program, each on the data set that it names.

    Data are padded so that the program also serves runs on data sets of these `lengths`. For what
    `score_rows` will be asked `to_score`, rows and draws, a program is compiled on the way, on a
    processor that has a core to spare for it.
    """
    engine = jobs[0].engine
    engines = type(engine).side_by_side([job.engine for job in jobs])
    starts = stack_fits(engines, [job.model for job in jobs])
    # A norm over the batch must not see rows that only fill it up.
    exact = any(reads_batch(job.model.network) for job in jobs)
    num_rows = np.array([len(data.y) for data in train])
    if exact and schedule.batch_size is None and num_rows.min() < num_rows.max():
        raise ValueError(
            "The network has a state that depends on all rows of a batch, and these data sets "
            f"differ in length ({num_rows.min()} to {num_rows.max()}): give batch_size, or fit "
            "them one by one."
        )
    # Steps that take all rows would take those of padding, too.
    serves = () if exact or schedule.batch_size is None else lengths
    lengths = [*num_rows.tolist(), *serves]
    keys, sets = stack_keys([job.key for job in jobs]), np.array([job.which for job in jobs])
    layout = Layout.over(control.mesh, len(jobs))
    order_keys, _ = split_keys(keys)
    # Data sets of padding are cheaper than a second program, unless they are large.
    size = max(sum(leaf.nbytes for leaf in jax.tree.leaves(data)) for data in train)
    num_sets = len(serves) if size * len(serves) <= MOST_PADDING else 0
    stacked = stack(train, exact=exact, least=max(lengths), least_sets=num_sets)
    source = InMemory(stacked, num_rows, sets, schedule, order_keys, layout, min(lengths))
    ahead = None
    if to_score is not None and layout.mesh is None and default_device().platform == "cpu":
        # Elsewhere a program depends on where its arguments lie, of which it would need a copy.
        ahead = _scores(jobs, layout, starts, *to_score).compile
    trained = loop.run(
        starts, source, None if held_out is None else stack(held_out), sets, schedule, keys,
        control, layout, ahead,
    )  # fmt: skip
    return TrainedJobs(jobs, train, starts, trained, layout)


def _scores(
    jobs: Sequence[Job], layout: Layout, starts: SideBySide, held_out: Data, num_draws: int
) -> HeldOutScores:
    which, keys = np.array([job.which for job in jobs]), stack_keys([job.key for job in jobs])
    return HeldOutScores(layout, starts, held_out, which, keys, num_draws)


def run_stream(
    jobs: Sequence[Job], schedule: Schedule, stream: BatchStream, control: Control
) -> TrainedJobs:
    """Train all these models as one program on the same stream of batches."""
    engines = type(jobs[0].engine).side_by_side([job.engine for job in jobs])
    starts = stack_fits(engines, [job.model for job in jobs])
    layout = Layout.over(control.mesh, len(jobs))
    source = Streamed(stream, schedule, layout)
    keys, sets = stack_keys([job.key for job in jobs]), np.zeros(len(jobs), int)
    trained = loop.run(starts, source, None, sets, schedule, keys, control, layout)
    # What a constant would say of the last rows stands for what it would say of all.
    return TrainedJobs(jobs, [source.last], starts, trained, layout)
