"""Rows on disk as batches: read ahead in threads, and shuffled in windows.

No more is in memory than one window of rows, the next one, and what is being made of them.
"""

import functools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import numpy as np

from scalemix.data.pages import empty
from scalemix.data.rows import take_rows

Rows = tuple[Any, ...]
"""`(x, y)` or `(x, y, sample_weight)`, with the examples along the first axis."""


class Piece(NamedTuple):
    """Rows that lie together on disk."""

    num_rows: int
    num_bytes: int
    read: Callable[[], Rows]
    """Reads them, or raises a `ValueError` that names the file and the row."""
    place: Callable[[int], str]
    """Where one of its rows lies, as a person would say it."""


class Selection(NamedTuple):
    """Some of all rows: those that are listed, or all others."""

    rows: np.ndarray
    """Their numbers, in rising order."""
    inside: bool

    def of(self, start: int, stop: int) -> np.ndarray:
        """Which rows of a piece are among them, counted from its start."""
        first, last = np.searchsorted(self.rows, [start, stop])
        listed = self.rows[first:last] - start
        if self.inside:
            return listed
        kept = np.ones(stop - start, bool)
        kept[listed] = False
        return np.flatnonzero(kept)

    def num_of(self, start: int, stop: int) -> int:
        """How many rows of a piece are among them."""
        first, last = np.searchsorted(self.rows, [start, stop])
        return int(last - first) if self.inside else int(stop - start - (last - first))


ALL = Selection(np.zeros(0, np.int64), False)


class DiskBatches:
    """Batches of rows that lie on disk. `open_batches` makes one, for `fit_batches`.

    Every pass visits each row once. Its pieces come in another order, and the rows of each window
    of pieces are shuffled. The key decides both, so that any pass can be read again, from any batch
    on.

    Attributes
    ----------
    num_rows : int
        How many rows a pass has.
    num_bytes : int
        About how many bytes of files they are.
    batch_size : int
        How many rows a batch has; the last one of a pass may be shorter.

    Examples
    --------
    >>> batches = sx.data.open_batches(x, target=y, batch_size=10, key=key)
    >>> len(batches), [len(targets) for _, targets in batches]
    (4, [10, 10, 10, 10])
    """

    num_rows: int
    num_bytes: int
    batch_size: int
    window: int
    threads: int

    def __init__(
        self,
        pieces: Sequence[Piece],
        *,
        batch_size: int,
        window: int,
        seed: Sequence[int] | None,
        threads: int,
        selection: Selection = ALL,
    ):
        self.batch_size, self.window, self.threads = batch_size, window, threads
        self._pieces, self._seed, self._selection = pieces, seed, selection
        self._starts = np.cumsum([0, *(piece.num_rows for piece in pieces)])
        self._counts = np.array([
            selection.num_of(start, stop)
            for start, stop in zip(self._starts[:-1], self._starts[1:], strict=True)
        ])  # fmt: skip
        self.num_rows = int(self._counts.sum())
        whole = sum(piece.num_bytes for piece in pieces)
        self.num_bytes = round(whole * self.num_rows / int(self._starts[-1]))

    def __len__(self) -> int:
        return -(-self.num_rows // self.batch_size)

    def __iter__(self) -> Iterator[Rows]:
        return self.epoch(0)

    def epoch(self, number: int, first: int = 0) -> Iterator[Rows]:
        """The batches of a pass, from one of them on.

        Parameters
        ----------
        number : int
            The number of the pass. Each has an order of its own, unless nothing is shuffled.
        first : int, default=0
            The batch to begin with. Windows before it are not read.

        Yields
        ------
        tuple
            `(x, y)` or `(x, y, sample_weight)`.

        Examples
        --------
        >>> batches = sx.data.open_batches(x, target=y, batch_size=10, key=key)
        >>> len(list(batches.epoch(1, first=3)))
        1
        """
        size, rest = self.batch_size, None
        skip = first * size
        windows = self._windows(number)
        while windows and skip >= (num := self._counts[windows[0][1]].sum()):
            skip -= num
            windows.pop(0)
        for rows in self._shuffled(number, windows):
            rows, skip = (take_rows(rows, slice(skip, None)) if skip else rows), 0
            if rest is not None:
                need = size - len(rest[1])
                joined = _joined([rest, take_rows(rows, slice(need))])
                rest, rows = joined, take_rows(rows, slice(need, None))
                if len(rest[1]) < size:
                    continue
                yield rest
            num = len(rows[1])
            for start in range(0, num - size + 1, size):
                yield take_rows(rows, slice(start, start + size))
            # A copy, or the window would stay in memory with it.
            left = num % size
            rest = jax.tree.map(np.copy, take_rows(rows, slice(num - left, num))) if left else None
        if rest is not None:
            yield rest

    def in_order(
        self, each: Callable[[int, Rows], Any] = lambda number, rows: rows
    ) -> Iterator[Any]:
        """All rows once, piece by piece, as they lie on disk, or what a function makes of them.

        Parameters
        ----------
        each : callable, optional
            Called with the number of a piece and its rows, `(x, y)` or `(x, y, sample_weight)`, by
            several threads at a time. By default the rows are left as they are.

        Yields
        ------
        object
            What it returns, in the order of the pieces.

        Examples
        --------
        >>> batches = sx.data.open_batches(x, target=y, batch_size=10, key=key)
        >>> bool(np.all(np.concatenate([targets for _, targets in batches.in_order()]) == y))
        True
        >>> sum(batches.in_order(lambda number, rows: len(rows[1])))
        40
        """
        wanted = np.flatnonzero(self._counts).tolist()
        jobs = (
            [lambda which=which, number=number: each(number, self._read(which))]
            for number, which in enumerate(wanted)
        )
        for (result,) in self._run_ahead(jobs, 1):
            yield result

    def place(self, number: int, row: int) -> str:
        """Where a row of a piece lies on disk.

        Parameters
        ----------
        number : int
            The number of the piece, as `in_order` counts them.
        row : int
            The row, counted from 0 among those of the piece that are read.

        Returns
        -------
        str
            Its file, if it has one, and its row in it.

        Examples
        --------
        >>> batches = sx.data.open_batches(x, target=y, batch_size=10, key=key)
        >>> batches.place(0, 7)
        'row 7'
        """
        which = int(np.flatnonzero(self._counts)[number])
        start, stop = self._starts[which : which + 2]
        return self._pieces[which].place(int(self._selection.of(int(start), int(stop))[row]))

    def split(self, fraction: float, *, key: Any) -> tuple["DiskBatches", "DiskBatches"]:
        """The batches without a random part of the rows, and that part.

        Parameters
        ----------
        fraction : float
            The share of the rows to hold out. They take 8 bytes of memory each.
        key : PRNGKey
            The key that chooses them.

        Returns
        -------
        tuple of DiskBatches
            The rows to train on, and those held out, which come in their order on disk.

        Examples
        --------
        >>> train, held_out = sx.data.open_batches(x, target=y, batch_size=10, key=key).split(
        ...     0.25, key=key
        ... )
        >>> train.num_rows, held_out.num_rows
        (30, 10)
        """
        num_held = round(fraction * self.num_rows)
        if not 0 < num_held < self.num_rows:
            raise ValueError(f"fraction={fraction} of {self.num_rows:,} rows leaves a part empty.")
        if self._selection is not ALL:
            raise ValueError("These batches have been split already. Split those of all rows.")
        rng = np.random.default_rng([*seed_of(key), 1])
        rows = np.sort(rng.choice(self.num_rows, num_held, replace=False, shuffle=False))
        return self.without(rows), self._with(Selection(rows, True), None)

    def without(self, rows: np.ndarray) -> "DiskBatches":
        """The batches without some rows, which are given by their numbers in rising order."""
        return self._with(Selection(rows, False), self._seed)

    def _with(self, selection: Selection, seed: Sequence[int] | None) -> "DiskBatches":
        return DiskBatches(
            self._pieces, batch_size=self.batch_size, window=self.window, seed=seed,
            threads=self.threads, selection=selection,
        )  # fmt: skip

    def _windows(self, number: int) -> list[tuple[int, list[int]]]:
        """The pieces of each window, with its number, which is its own whatever is skipped."""
        order = np.flatnonzero(self._counts)
        if self._seed is not None:
            np.random.default_rng([*self._seed, number]).shuffle(order)
        windows, pieces, num = [], [], 0
        for piece in order.tolist():
            pieces.append(piece)
            num += self._counts[piece]
            if num >= self.window:
                windows.append((len(windows), pieces))
                pieces, num = [], 0
        return [*windows, (len(windows), pieces)] if pieces else windows

    def _shuffled(self, number: int, windows: list[tuple[int, list[int]]]) -> Iterator[Rows]:
        """The rows of each window, in the order of the pass."""
        waiting: deque[_Window] = deque()

        def reading() -> Iterator[list[Callable[[], None]]]:
            for which, pieces in windows:
                waiting.append(self._window(number, which, pieces))
                yield waiting[-1].jobs()

        num_pieces = sum(len(pieces) for _, pieces in windows)
        for _ in self._run_ahead(reading(), num_pieces / max(len(windows), 1)):
            yield waiting.popleft().rows()

    def _window(self, number: int, which: int, pieces: list[int]) -> "_Window":
        nums = self._counts[pieces]
        num = int(nums.sum())
        if self._seed is None:
            places = np.arange(num)
        else:
            places = np.random.default_rng([*self._seed, number, which]).permutation(num)
        reads = [lambda piece=piece: self._read(piece) for piece in pieces]
        return _Window(num, reads, np.split(places, np.cumsum(nums)[:-1]))

    def _run_ahead(
        self, groups: Iterable[Sequence[Callable[[], Any]]], jobs_a_group: float
    ) -> Iterator[list[Any]]:
        """What the jobs of each group return, while threads do those of the next."""
        waiting: deque[list[Future[Any]]] = deque()
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="scalemix-rows")
        # Groups of few jobs would leave threads idle.
        ahead = max(1, math.ceil(self.threads / max(jobs_a_group, 1)))
        try:
            for group in groups:
                waiting.append([pool.submit(job) for job in group])
                if len(waiting) > ahead:
                    yield [future.result() for future in waiting.popleft()]
            while waiting:
                yield [future.result() for future in waiting.popleft()]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, which: int) -> Rows:
        rows = self._pieces[which].read()
        if self._counts[which] == self._pieces[which].num_rows:
            return rows
        start, stop = self._starts[which : which + 2]
        return take_rows(rows, self._selection.of(int(start), int(stop)))


def seed_of(key: Any) -> list[int]:
    """The words of a PRNG key, from which NumPy's generator starts."""
    return [int(word) for word in np.asarray(jax.random.key_data(key)).reshape(-1)]


def _joined(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


class _Window:
    """Rows of several pieces, each of which is read and put into its places by a job of its own."""

    def __init__(self, num: int, reads: Sequence[Callable[[], Rows]], places: Sequence[np.ndarray]):
        self._reads, self._places = reads, places
        self._num, self._rows, self._lock = num, None, threading.Lock()

    def jobs(self) -> list[Callable[[], None]]:
        """One for each piece. They are not kept here, where they would keep the rows in memory."""
        return [
            functools.partial(self._place, read, where)
            for read, where in zip(self._reads, self._places, strict=True)
        ]

    def rows(self) -> Rows:
        """All rows, once every job is done."""
        assert self._rows is not None
        return self._rows

    def _place(self, read: Callable[[], Rows], where: np.ndarray) -> None:
        piece = read()
        with self._lock:
            if self._rows is None:
                self._rows = jax.tree.map(
                    lambda leaf: empty((self._num, *leaf.shape[1:]), leaf.dtype), piece
                )
        for whole, part in zip(jax.tree.leaves(self._rows), jax.tree.leaves(piece), strict=True):
            whole[where] = part
