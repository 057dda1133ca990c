"""Data that come as batches, one after the other, from whatever loads them."""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from scalemix._threads import in_this_precision
from scalemix._types import PyTree
from scalemix.data.batches import Data
from scalemix.data.checks import check_inputs, check_targets, inputs_as_seen, targets_as_seen
from scalemix.data.faults import Fault, first_fault
from scalemix.data.preparation import check_possible, check_support
from scalemix.data.reader import Reader
from scalemix.data.rows import Inputs, are_several, is_table, num_rows, take_rows
from scalemix.data.scaling import UNSCALED, Scaling, ScalingMoments
from scalemix.data.values import TOTAL_WEIGHT, check_weights, is_whole, refuse_masked
from scalemix.likelihoods import Likelihood


class RawBatch(NamedTuple):
    """One batch, or several in a row, as arrays of NumPy that were checked."""

    x: Inputs
    y: np.ndarray
    weight: np.ndarray


@runtime_checkable
class Epochs(Protocol):
    """A loader that knows its rows and can begin anywhere, such as `scalemix.data.DiskBatches`.

    It may be read in another thread.
    """

    num_rows: int
    num_bytes: int

    def __iter__(self) -> Iterator[Any]:
        """The batches of the first pass."""
        ...

    def __len__(self) -> int:
        """How many batches a pass has."""
        ...

    def epoch(self, number: int, first: int = 0) -> Iterator[Any]:
        """The batches of a pass from one of them on, the same whenever they are asked for."""
        ...

    def in_order(self, each: Callable[[int, Any], Any]) -> Iterator[Any]:
        """What `each(number, block)` makes, perhaps in a thread, of all rows in blocks."""
        ...


class BatchStream:
    """Batches from a loader, which is read again from its beginning when it ends.

    All have as many rows as the first one. A shorter one, such as the last of an epoch, is filled
    up with rows of weight zero, and its own rows count for more; unless the network looks at all
    rows of a batch at once, for which it is left out (`whole_batches`).
    """

    batches: Iterable[Any]
    num_rows: int
    reader: Reader
    whole_batches: bool
    epochs: Epochs | None
    """The loader, if its passes can be read from anywhere."""
    once: bool
    position: int
    pass_number: int
    scaling: Scaling
    first: RawBatch
    """The first batch."""
    mean_weight: float

    def __init__(
        self, batches: Iterable[Any], num_rows: int | None, reader: Reader, whole_batches: bool
    ):
        if isinstance(batches, str | bytes | dict) or not isinstance(batches, Iterable):
            raise ValueError(
                f"batches must be an iterable of (x, y) or (x, y, sample_weight), such as a data "
                f"loader; got {type(batches).__name__}."
            )
        epochs = batches if isinstance(batches, Epochs) else None
        num_rows = epochs.num_rows if num_rows is None and epochs is not None else num_rows
        if num_rows is None or not is_whole(num_rows) or num_rows <= 0:
            raise ValueError(f"num_rows must be a positive whole number, got {num_rows!r}.")
        self.batches, self.num_rows, self.reader = batches, int(num_rows), _KnownReader(reader)
        self.whole_batches, self.epochs = whole_batches, epochs
        self.once = epochs is None and iter(batches) is batches
        self.position, self.pass_number = 0, 0
        self.current: Iterator[Any] | None = None
        self.scaling = UNSCALED
        # Not known before there is a batch.
        self.batch_size: int = 0
        self.ahead: list[Any] = [self._next()]
        # A copy: it is kept, and would keep the window that its rows were taken from.
        with self._naming_rows():
            self.first: RawBatch = jax.tree.map(np.array, self._read(self.ahead[0], 0))
        self.batch_size = len(self.first.y)
        if self.batch_size > self.num_rows:
            raise ValueError(
                f"num_rows={self.num_rows}, and the first batch has {self.batch_size} rows."
            )
        # What the objective is divided by: any number has the same maximum, and this one makes it
        # per datum.
        self.mean_weight = float(self.first.weight.mean())

    def standardise(self, *, inputs: bool) -> None:
        """Learn means and deviations, those of the inputs too if asked, in one pass."""
        if self.once:
            raise ValueError(
                "Standardising takes a pass over all batches before the first step, and these can "
                "be iterated over only once. Pass something that can be iterated over again, or "
                "standardize=False and data that are scaled already."
            )
        likelihood = self.reader.likelihood
        table = inputs and is_table(self.first.x) and self.first.x.dtype.kind == "f"

        def measured(number: int, item: Any) -> tuple[int, float, ScalingMoments]:
            batch = self._read(item, number)
            moments = ScalingMoments(
                inputs=table,
                targets=likelihood.continuous_units,
                positive=likelihood.support[0] == 0,
            )
            moments.add(*batch)
            return len(batch.y), float(batch.weight.sum()), moments

        if self.epochs is None:
            blocks = itertools.starmap(measured, enumerate(self.batches))
        else:
            blocks = self.epochs.in_order(in_this_precision(measured))
        seen, weight, together = 0, 0.0, None
        with self._naming_rows():
            for num, weighs, moments in blocks:
                seen, weight = seen + num, weight + weighs
                if seen > self.num_rows:
                    break
                together = moments if together is None else together.merge(moments)
        if seen != self.num_rows:
            raise ValueError(
                f"num_rows={self.num_rows}, and one pass over all batches has "
                f"{'more' if seen > self.num_rows else seen} rows."
            )
        self.mean_weight = weight / seen
        assert together is not None
        self.scaling = together.scaling()

    def take(self, start: int, count: int) -> Data:
        """Batches from number `start` on, `(count, batch_size, ...)`, as the network sees them."""
        return self.as_seen(start, self.pull(start, count))

    def pull(self, start: int, count: int) -> list[Any]:
        """Batches from number `start` on, as the loader gives them."""
        if start != self.position:
            self._go_to(start)
        return [self._pop() for _ in range(count)]

    def as_seen(self, start: int, items: list[Any]) -> Data:
        """What `take` gives, of batches that were pulled. Nothing else is changed."""
        with self._naming_rows():
            return self._as_seen(start, items)

    def _as_seen(self, start: int, items: list[Any]) -> Data:
        whole = self._joined(start, items)
        try:
            data = self._seen(self._filled(items, whole))
        except ValueError:
            # One of these calls says in which batch.
            for number, item in enumerate(items, start):
                batch = self._read(item, number)
                with _naming(number):
                    self._seen(batch)
            raise
        shape = len(items), self.batch_size
        return jax.tree.map(lambda a: a.reshape(*shape, *a.shape[1:]), data)

    def _seen(self, rows: RawBatch) -> Data:
        """Rows as the network sees them, or a `ValueError`."""
        x, dtype = inputs_as_seen(rows.x, self.reader, self.scaling), self.reader.dtype
        return Data(x, targets_as_seen(rows.y, self.scaling, dtype), rows.weight.astype(dtype))

    def _joined(self, start: int, items: list[Any]) -> RawBatch:
        """All rows of these batches, checked together: one by one takes several times as long."""
        try:
            whole = self._read(_concatenated(items), start)
            ends = np.cumsum([_length(item) for item in items])
            weighs = np.add.reduceat(whole.weight, [0, *ends[:-1]])
            if weighs.min() < TOTAL_WEIGHT[0]:
                raise ValueError("A batch weighs next to nothing.")
        except (ValueError, TypeError):
            # Batches that cannot be joined, or a fault: one of these calls says in which.
            batches = [self._read(item, start + i) for i, item in enumerate(items)]
            return jax.tree.map(lambda *parts: np.concatenate(parts), *batches)
        return whole

    def _go_to(self, start: int) -> None:
        if self.epochs is not None:
            of_a_pass = len(self.epochs)
            if self.whole_batches and self.num_rows % self.batch_size:
                of_a_pass = max(of_a_pass - 1, 1)
            self.pass_number, first = divmod(start, of_a_pass)
            self.current = self.epochs.epoch(self.pass_number, first)
            self.position, self.ahead = start, []
            return
        if start < self.position:
            if self.once:
                raise ValueError(
                    "These batches can be iterated over only once, so that none can be read again."
                )
            self.current, self.position, self.ahead = None, 0, []
        while self.position < start:
            self._pop()

    def _pop(self) -> Any:
        batch = self.ahead.pop() if self.ahead else self._next()
        self.position += 1
        return batch

    def _next(self) -> Any:
        size = self.batch_size
        for _ in range(2):
            if self.current is None:
                number, epochs = self.pass_number, self.epochs
                self.current = iter(self.batches) if epochs is None else epochs.epoch(number)
            for item in self.current:
                num = self._num_rows(item)
                if size and num > size:
                    raise ValueError(
                        f"Batch {self.position} has {num} rows, and the first one has {size}: no "
                        f"batch may be longer than the first."
                    )
                if self.whole_batches and num < size:
                    continue
                # Loaders may fill the same arrays again for the next batch.
                return item if self.epochs is not None else jax.tree.map(_copied, item)
            self.current = None
            self.pass_number += 1
            if self.once:
                break
        raise ValueError(
            f"The batches have ended after {self.position}, and training takes more steps. Pass "
            f"something that can be iterated over again, or fewer steps."
            if self.position
            else "There are no batches."
        )

    def _num_rows(self, item: Any) -> int:
        """How many rows a batch has, which is looked at no further than that."""
        # One number, of which the targets may be made up by mistake, has no length.
        with contextlib.suppress(TypeError):
            if isinstance(item, tuple | list) and len(item) in (2, 3) and _length(item):
                return _length(item)
        # Says what is wrong with it.
        return len(self._read(item, self.position).y)

    def _read(self, item: Any, number: int) -> RawBatch:
        if not (isinstance(item, tuple | list) and len(item) in (2, 3)):
            raise ValueError(
                f"Each batch must be (x, y) or (x, y, sample_weight); got {type(item).__name__}."
            )
        with _naming(number):
            return self._checked(item)

    def _checked(self, item: Any) -> RawBatch:
        x = check_inputs(_as_numpy(item[0]), self.reader)
        y = check_targets(_as_numpy(item[1]), self.reader.likelihood)
        if len(y) != num_rows(x) or not len(y):
            raise ValueError(f"x has {num_rows(x)} rows and y has {len(y)}.")
        weight = check_weights(item[2] if len(item) == 3 else None, len(y))
        # A row of weight zero only fills: whatever its target is, it gets one that can be.
        counted = np.flatnonzero(weight)
        y = np.where((weight > 0).reshape(-1, *[1] * (y.ndim - 1)), y, y[counted[0]])
        check_support(self.reader.likelihood, y, y, np.arange(len(y)))
        if not self.reader.likelihood.continuous_units:
            check_possible(self.reader, y, np.arange(len(y)))
        return RawBatch(x, y, weight)

    @contextlib.contextmanager
    def _naming_rows(self) -> Iterator[None]:
        """Errors name the row on disk, if the loader knows it: a batch is shuffled."""
        try:
            yield
        except ValueError:
            # A loader of one's own need not know it.
            place = getattr(self.epochs, "place", None)
            if self.epochs is not None and place is not None:
                for number, fault in enumerate(
                    self.epochs.in_order(in_this_precision(self._fault))
                ):
                    if fault is not None:
                        where = place(number, fault.row)
                        raise ValueError(fault.said.replace("at row 0", f"at {where}")) from None
            raise

    def _fault(self, number: int, item: Any) -> Fault | None:
        """The first row of a block that cannot be used."""
        # Rows of weight zero may hold anything.
        rows = np.flatnonzero(item[2]) if len(item) == 3 else np.arange(_length(item))
        return first_fault(rows, lambda some: self._seen(self._checked(take_rows(item, some))))

    def _filled(self, items: list[Any], joined: RawBatch) -> RawBatch:
        """The rows of these batches with the shorter ones filled up."""
        size, nums = self.batch_size, [_length(item) for item in items]
        if min(nums) == size:
            return joined
        starts, place = np.cumsum([0, *nums[:-1]]), np.arange(size)
        rows = np.concatenate([start + place % n for start, n in zip(starts, nums, strict=True)])
        # Together the rows of a short one weigh what a whole batch does.
        share = np.concatenate([np.where(place < n, size / n, 0.0) for n in nums])
        filled = take_rows(joined, rows)
        return filled._replace(weight=filled.weight * share)


@contextlib.contextmanager
def _naming(number: int) -> Iterator[None]:
    """Errors say in which batch they are."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"Batch {number}: {error}") from None


def _length(item: Any) -> int:
    return len(item[1])


def _concatenated(items: list[Any]) -> tuple[Any, ...]:
    """All rows of several batches as one, or a `ValueError` where they do not go together."""
    if len(items) == 1:
        return items[0]
    # Some with weights and some without have no columns in common.
    columns = [[_as_numpy(part) for part in column] for column in zip(*items, strict=True)]
    for x, y in zip(columns[0], columns[1], strict=True):
        if num_rows(x) != len(y):
            raise ValueError("Inputs and targets have not as many rows.")

    def join(*parts: Any) -> np.ndarray:
        for part in parts:
            refuse_masked("A batch", part)
        return np.concatenate(parts)

    return tuple(
        jax.tree.map(join, *column, is_leaf=lambda v: not are_several(v)) for column in columns
    )


class _KnownReader:
    """A reader that is asked about each kind of example once, since an answer takes a trace."""

    likelihood: Likelihood
    dtype: np.dtype
    example: PyTree

    def __init__(self, reader: Reader):
        self.likelihood, self.dtype, self.example = reader.likelihood, reader.dtype, reader.example
        self._reader = reader
        self._refusal, self._lookups = _once(reader.refusal), _once(reader.lookups)

    def refusal(self, example: PyTree) -> str | None:
        return self._refusal(example)

    def frozen_readers(self, example: PyTree) -> list[str]:
        return self._reader.frozen_readers(example)

    def lookups(self, example: PyTree) -> Sequence[tuple[str, int, Sequence[np.ndarray]]]:
        return self._lookups(example)


def _once(ask: Callable[[PyTree], Any]) -> Callable[[PyTree], Any]:
    known: dict[Any, Any] = {}

    def answer(example: PyTree) -> Any:
        leaves, form = jax.tree.flatten(example)
        question = form, tuple(leaves)
        if question not in known:
            known[question] = ask(example)
        return known[question]

    return answer


def _copied(values: Any) -> Any:
    """The values, if they are in an array that may change, in one of their own."""
    is_fixed = isinstance(values, jax.Array) or not hasattr(values, "__array__")
    return values if is_fixed else np.array(values, subok=True)


def _as_numpy(values: Any) -> Any:
    """Tensors of other libraries as arrays; several inputs stay in their dict or tuple."""
    if are_several(values):
        return jax.tree.map(_as_numpy, values, is_leaf=lambda part: not are_several(part))
    # A mask stays, so that it can be refused.
    return np.asanyarray(values) if hasattr(values, "__array__") else values
