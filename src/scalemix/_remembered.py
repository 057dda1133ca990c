"""What follows from objects that never change, kept until they are gone or memory runs short.

It is kept beside the objects and not in them: whoever copies, pickles or saves one, or hands it to
a compiled function, takes nothing else along.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
from jax.core import Tracer

Value = TypeVar("Value")

# All that is kept together, in bytes of arrays. What was not asked for longest goes first.
MOST_BYTES = 128 * 1024**2


class _Kept(NamedTuple):
    owner: weakref.ref
    value: Any
    num_bytes: int


class Memory:
    """Values by the object that they belong to and by name. Any thread may ask."""

    def __init__(self, most_bytes: int):
        self.most_bytes = most_bytes
        self._kept: OrderedDict[tuple[int, Hashable], _Kept] = OrderedDict()
        # Whatever is made while this is held may collect an owner, and so come back here.
        self._lock = threading.RLock()

    @property
    def num_bytes(self) -> int:
        """What all arrays take."""
        with self._lock:
            # A list, at once: between two steps of Python the collector may drop some of them.
            return sum(kept.num_bytes for kept in list(self._kept.values()))

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, owner: Any, name: Hashable, make: Callable[[], Value]) -> Value:
        """What `make()` gives, or gave when this was asked of the same object before.

        The object must be one that never changes, and the value must not hold on to it.
        """
        place = id(owner), name
        with self._lock:
            kept = self._kept.get(place)
            if kept is not None and kept.owner() is owner:
                self._kept.move_to_end(place)
                return kept.value
        # Two threads may both make it: the same, and for that no other has to wait.
        value = make()
        arrays = [leaf for leaf in jax.tree.leaves(value) if eqx.is_array(leaf)]
        # In a function that is traced there are no values yet.
        if any(isinstance(leaf, Tracer) for leaf in arrays):
            return value
        owned = weakref.ref(owner, lambda _: self._drop(place))
        with self._lock:
            self._kept[place] = _Kept(owned, value, sum(leaf.nbytes for leaf in arrays))
            self._kept.move_to_end(place)
            while self.num_bytes > self.most_bytes:
                self._kept.popitem(last=False)
        return value

    def _drop(self, place: tuple[int, Hashable]) -> None:
        with self._lock:
            self._kept.pop(place, None)


MEMORY = Memory(MOST_BYTES)
remembered = MEMORY.of
