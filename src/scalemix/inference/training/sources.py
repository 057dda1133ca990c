"""Where the batches of training come from: rows in memory, or a stream."""

import abc
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._mesh import to_host
from scalemix._threads import in_this_precision
from scalemix.data.batches import Data
from scalemix.data.rows import take_rows
from scalemix.data.streams import BatchStream
from scalemix.inference.groups import Groups
from scalemix.inference.layout import Layout
from scalemix.inference.training import programs
from scalemix.inference.training.engine import Schedule

# Chunks that are prepared while the device works on one.
AHEAD = 2


class Chosen(NamedTuple):
    """The batches of a chunk."""

    data: Data
    sets: Array
    """Which entry of the data each model reads."""
    rows: Array | None
    """The rows of each model's steps. Without them, an entry of the data is `(steps, rows)` where
    data are streamed, and else all rows, which every step takes."""


class Source(abc.ABC):
    """The data of several models, as batches."""

    num_rows: np.ndarray
    """How many rows each model has."""
    num_data: np.ndarray
    """How many rows these count as."""
    dtype: Any
    """The type of their weights."""

    @abc.abstractmethod
    def batches(self, start: int) -> Chosen:
        """Those of the chunk that begins with step `start`."""

    @abc.abstractmethod
    def identity(self) -> list[np.ndarray]:
        """Arrays by which the data are known from others."""


class InMemory(Source):
    """Data sets stacked on a leading axis; `sets` says which of them each model has.

    On several devices, each has the data sets that its models read. Orders of visits have room for
    data sets as short as `shortest`.
    """

    num_rows: np.ndarray
    num_data: np.ndarray
    dtype: Any
    schedule: Schedule
    layout: Layout
    order_keys: PRNGKeyArray
    given: tuple[Data, np.ndarray, np.ndarray]
    data: Data
    sets: Array

    def __init__(
        self,
        data: Data,
        num_rows: np.ndarray,
        sets: np.ndarray,
        schedule: Schedule,
        order_keys: PRNGKeyArray,
        layout: Layout,
        shortest: int | None = None,
    ):
        self.num_rows, self.dtype = num_rows[sets], data.weight.dtype
        # In double precision, or the mean weight would not be one where all weights are.
        self.num_data = data.weight.sum(axis=1, dtype=np.float64)[sets]
        self.schedule, self.layout = schedule, layout
        self.order_keys, self.given = layout.place(order_keys), (data, num_rows, sets)
        self.longest: int = data.weight.shape[1]
        self.shortest: int = int(num_rows.min()) if shortest is None else shortest
        self.groups: Groups = Groups.of(layout)
        if not schedule.stream:
            # Batches gather rows from anywhere, so that these are spread only without batches.
            rows_axis = 1 if schedule.batch_size is None else None
            self.data, self.sets = layout.place_sets(data, sets, rows_axis)
        self.orders: tuple[list[int], list[Array]] | None = None

    def batches(self, start: int) -> Chosen:
        size, steps = self.schedule.batch_size, self.schedule.chunk_steps
        if size is None:
            return Chosen(self.data, self.sets, None)
        lengths = self.num_rows.tolist()
        mesh, on_device = self.layout.mesh, self.layout.place(self.num_rows.astype(np.int32))
        epochs = [start * size // n for n in lengths]
        if self.orders is None or self.orders[0] != epochs:
            reach = steps * size // self.shortest + 2
            first = self.layout.place(np.array(epochs, np.int32))
            parts = self.groups.split((self.order_keys, on_device, first))
            orders = self.groups.run_apart(
                programs.visits_of,
                [(mesh, keys, num, epoch, self.longest, reach) for keys, num, epoch in parts],
            )
            self.orders = epochs, orders
        places = self.layout.place(np.array([start * size % n for n in lengths], np.int32))
        parts = self.groups.split((places, on_device))
        rows = self.groups.run(
            programs.rows_of,
            [
                (mesh, orders, place, num_rows, steps, size)
                for orders, (place, num_rows) in zip(self.orders[1], parts, strict=True)
            ],
        )
        if not self.schedule.stream:
            return Chosen(self.data, self.sets, rows)
        # Only the rows of this chunk go to the device, and those of members of other processes stay
        # where they are.
        members, places = np.unique(self.layout.members, return_index=True)
        pairs = list(zip(self.given[2][members], to_host(mesh, rows)[places], strict=True))

        def gathered(a: np.ndarray) -> np.ndarray:
            return np.stack([a[which][chosen] for which, chosen in pairs])

        data = jax.tree.map(gathered, self.given[0])
        numbers = np.searchsorted(members, np.arange(self.layout.num))
        return Chosen(*self.layout.place_sets(data, numbers, 2), None)

    def identity(self) -> list[np.ndarray]:
        data, num_rows, sets = self.given
        return [*jax.tree.leaves(data), num_rows, sets]


class Streamed(Source):
    """One stream of batches, which all models read.

    While the device works on a chunk, threads prepare the next ones, if the loader can stand it.
    """

    num_rows: np.ndarray
    num_data: np.ndarray
    dtype: Any
    stream: BatchStream
    schedule: Schedule
    layout: Layout
    first: list[np.ndarray]

    def __init__(self, stream: BatchStream, schedule: Schedule, layout: Layout):
        self.stream, self.schedule, self.layout = stream, schedule, layout
        self.num_rows = np.full(layout.num, stream.num_rows)
        self.num_data = stream.mean_weight * self.num_rows.astype(np.float64)
        self.dtype = np.dtype(stream.reader.dtype)
        first = stream.first
        self.first = [np.asarray(stream.num_rows), *jax.tree.leaves(first)]
        self.kept: tuple[int, Data, Chosen] | None = None
        self.coming: deque[tuple[int, Future[Future[tuple[Data, Chosen]]]]] = deque()
        self.threads: tuple[ThreadPoolExecutor, ThreadPoolExecutor] | None = None
        if stream.epochs is not None:
            # One pulls batches from the loader, in their order. Others make numbers of them.
            self.threads = (
                ThreadPoolExecutor(1, "scalemix-batches"),
                ThreadPoolExecutor(AHEAD, "scalemix-chunks"),
            )

    def batches(self, start: int) -> Chosen:
        if self.kept is None or self.kept[0] != start:
            self.kept = start, *self._take(start)
            self._read_ahead(start + self.schedule.chunk_steps)
        return self.kept[2]

    def _take(self, start: int) -> tuple[Data, Chosen]:
        """A chunk: the one that was read ahead, or, after a jump, another."""
        if self.coming and self.coming[0][0] == start:
            return self.coming.popleft()[1].result().result()
        while self.coming:
            # One reader at a time; what it has met on its way is no concern of this chunk.
            self.coming.popleft()[1].exception()
        return self._make(start, self._pull(start))

    def _read_ahead(self, start: int) -> None:
        """Have the chunk that begins with this step, and some after it, prepared."""
        if self.threads is None:
            return
        puller, makers = self.threads
        make, pull = in_this_precision(self._make), in_this_precision(self._pull)

        def read(start: int) -> Future[tuple[Data, Chosen]]:
            return makers.submit(make, start, pull(start))

        steps = self.schedule.chunk_steps
        for begin in range(start + len(self.coming) * steps, start + AHEAD * steps, steps):
            if begin < self.schedule.num_steps:
                self.coming.append((begin, puller.submit(read, begin)))

    def _pull(self, start: int) -> list[Any]:
        # The last chunk may be shorter, and a stream that can be read once has no more.
        count = min(self.schedule.chunk_steps, self.schedule.num_steps - start)
        return self.stream.pull(start, count)

    def _make(self, start: int, items: list[Any]) -> tuple[Data, Chosen]:
        """A chunk on the host, and on its way to the devices."""
        data = self.stream.as_seen(start, items)
        fill = np.arange(self.schedule.chunk_steps) % len(items)
        data = take_rows(data, fill) if len(fill) > len(items) else data
        stacked, sets = jax.tree.map(lambda a: a[None], data), np.zeros(self.layout.num, int)
        return data, Chosen(*self.layout.place_sets(stacked, sets, 2), None)

    @property
    def last(self) -> Data:
        """The rows of the last chunk, as one table."""
        assert self.kept is not None
        return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), self.kept[1])

    def identity(self) -> list[np.ndarray]:
        return self.first
