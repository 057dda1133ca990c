"""All steps from networks that are zero in places to smaller ones.

Units that are constants are folded into biases, layers that are off are taken out, places within
heads change, norms come to know which of theirs are constants, and then all is cut.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from scalemix._types import PyTree
from scalemix.networks.cutting.agreement import outputs, same_numbers
from scalemix.networks.cutting.constants import Changes, Constants, NoPathAround, Stuck
from scalemix.networks.cutting.cut import Cut, Cutter
from scalemix.networks.cutting.emitted import Emitted
from scalemix.networks.cutting.folding import fold_units, with_biases, without_idle_biases
from scalemix.networks.cutting.graph import Call, Trace
from scalemix.networks.cutting.heads import meetings_in_heads
from scalemix.networks.cutting.layers import (
    Row,
    constants_of,
    find_rows,
    is_off,
    left_of,
    row_names,
    without,
)
from scalemix.networks.cutting.member import Member, paths_of
from scalemix.networks.cutting.norms import (
    constant_places,
    has_narrow,
    mark,
    simplified,
    with_narrow,
)
from scalemix.networks.cutting.solve import find_flows
from scalemix.networks.sites import path_name

Alike = Callable[[int | None, int | None], bool]
"""Whether two arrays of the first network could take each other's place."""


@dataclasses.dataclass(frozen=True)
class Shrunk:
    """Smaller networks of one form, and how they came to be."""

    members: tuple[Member, ...]
    cut: Cut
    """The last step, from networks that are folded and have lost their layers."""
    dropped: dict[str, int]
    """From how many members each layer is gone."""
    read: np.ndarray | None
    """Which elements of an example any member reads, if it is a single row of numbers."""
    notes: tuple[str, ...]


class Shrinker:
    """Makes networks smaller that differ in the values of their arrays alone.

    `rows` are examples at which they must go on to compute the same, `fixed` the numbers of arrays
    that stay as they are.
    """

    members: list[Member]
    rows: Any
    call: Call
    example: Any
    fixed: set[int]
    alike: Alike

    def __init__(
        self,
        members: Sequence[Member],
        rows: Any,
        call: Call,
        *,
        fixed: Sequence[int] = (),
        alike: Alike = lambda one, other: True,
    ):
        self.members, self.rows, self.call = list(members), rows, call
        self.example = jax.tree.map(lambda part: part[0], rows)
        self.fixed, self.alike = set(fixed), alike
        self.dropped: Counter[str] = Counter()
        self.notes: list[str] = []
        self._known: list[tuple[Member, Constants]] = []

    def shrink(
        self, *, drop_inputs: bool = False, as_function: bool = False, whole_sums: bool = False
    ) -> Shrunk:
        """The smaller networks. With `whole_sums`, no weights have to make up for divisors."""
        self._fold()
        self._drop()
        self.members = [self._ordered(member) for member in self.members]
        self._narrow()
        whole = self._fixed_leaves(self.members[0])
        cutter = Cutter(self.members, self.example, self.call, whole=whole, drop_inputs=drop_inputs)
        cut = cutter.cut(as_function=as_function, whole_sums=whole_sums)
        if cut.problem is not None:
            self.notes.append(f"Some parts only have a mask: {cut.problem}.")
        names = [path_name(path) for path in paths_of(self.members[0].network)]
        stay: dict[str, list[str]] = {}
        for (number, _), reason in cut.reasons.items():
            stay.setdefault(reason, []).append(names[cutter.trace.leaves.index(number)])
        self.notes += [
            f"Zeros stay in {', '.join(dict.fromkeys(which))}, because of {reason}."
            for reason, which in stay.items()
        ]
        read = cutter.read_inputs()
        members = cut.members
        if not isinstance(members[0].network, Emitted):
            members = simplified(members, cut.keeps, self._fixed_leaves(members[0]))
        return Shrunk(members, cut, dict(self.dropped), read, tuple(self.notes))

    def _fixed_leaves(self, member: Member) -> list[int]:
        return [leaf for leaf, origin in enumerate(member.origins) if origin.leaf in self.fixed]

    def _constants(self, member: Member) -> Constants:
        """What is known of a network's constants; it is found once, for all that is tried."""
        for known, constants in self._known:
            if known is member:
                return constants
        trace = Trace(self.call, member.network, self.example)
        flows = find_flows(trace, member.nonzero)
        fixed = self._fixed_leaves(member)
        constants = Constants(trace, flows, member.network, self.example, fixed)
        self._known = [*self._known, (member, constants)][-2 * len(self.members) :]
        return constants

    def _ordered(self, member: Member) -> Member:
        """Places within heads where more of them can go."""
        # What is done in a branch with places that change, the rows need not show.
        stay = self._constants(member).trace.leaves_in_branches.union(self._fixed_leaves(member))
        meetings = [
            meeting
            for meeting in meetings_in_heads(member)
            if stay.isdisjoint(line.leaf for line in meeting.lines)
        ]
        if not meetings:
            return member
        expected = outputs(self.call, member.network, self.rows)
        # Heads may be changed on the way, as by an embedding of positions: then not all can.
        for some in (meetings, *([meeting] for meeting in meetings)):
            ordered = functools.reduce(lambda before, each: each.put_first(before), some, member)
            given = outputs(self.call, ordered.network, self.rows)
            if same_numbers(expected, given, is_proof=True):
                member = ordered
                if some is meetings:
                    break
        return member

    def _narrow(self) -> None:
        """Norms that know which of their places are constants, where there are such places."""
        wide = [member.with_more(with_narrow(member.network)) for member in self.members]
        if not has_narrow(wide[0].network):
            return
        places = [constant_places(member, self._constants(member)) for member in wide]
        which = {path for each in places for path in each}
        members = [member.with_more(with_narrow(member.network, which)) for member in self.members]
        self.members = [mark(*each) for each in zip(members, places, strict=True)]

    # Units

    def _fold(self) -> None:
        """Units that are constants go into biases, also into new ones where there were none."""
        before = self.members
        if not self._fold_where_possible():
            return
        self.members = [member.with_more(with_biases(member.network)) for member in before]
        self._fold_where_possible()
        self._strip(before[0].network)

    def _fold_where_possible(self) -> bool:
        """Fold, and say whether a bias was missing."""
        missing, again = False, True
        while again:
            folded = [fold_units(self._constants(member)) for member in self.members]
            self._change([each.changes for each in folded])
            missing = missing or any(each.stuck for each in folded)
            again = any(each.again for each in folded)
        return missing

    def _change(self, changes: Sequence[Changes]) -> None:
        pairs = zip(self.members, changes, strict=True)
        self.members = [member.changed(each) for member, each in pairs]

    def _strip(self, like: PyTree) -> None:
        networks = without_idle_biases([member.network for member in self.members], like)
        pairs = zip(self.members, networks, strict=True)
        self.members = [member.with_fewer(network) for member, network in pairs]

    # Layers

    def _drop(self) -> None:
        tried: set[str] = set()
        while True:
            trace = self._constants(self.members[0]).trace
            rows = {str(row.path): row for row in find_rows(self.members[0].network, trace)}
            left = [name for name in rows if name not in tried]
            if not left:
                return
            tried.add(left[0])
            self._drop_from(rows[left[0]])

    def _drop_from(self, row: Row) -> None:
        off = [
            [place for place in range(len(row)) if is_off(row, place, member.nonzero)]
            for member in self.members
        ]
        if len(self.members) > 1:
            off = self._as_many(row, off)
        names = row_names(row)
        if not any(off) or self._try_to_drop(row, off, [names[p] for ps in off for p in ps]):
            return
        # Together they cannot go: of a single network, as many as can.
        chosen: list[int] = []
        for place in off[0] if len(self.members) == 1 and len(off[0]) > 1 else []:
            # What is left of the row has other places by now.
            if self._try_to_drop(row, [[place - len(chosen)]], [names[place]]):
                chosen.append(place)
                row = self._same_row(self.members[0], row)

    def _as_many(self, row: Row, off: list[list[int]]) -> list[list[int]]:
        """As many layers of each member; the same ones, if priors tell them apart."""
        origins = self.members[0].origins
        first = row.leaves[0]
        alike = row.stacked or all(
            len(leaves) == len(first)
            and all(
                self.alike(origins[a].leaf, origins[b].leaf)
                for a, b in zip(leaves, first, strict=True)
            )
            for leaves in row.leaves
        )
        if not alike:
            return [[p for p in off[0] if all(p in places for places in off)]] * len(off)
        num = min(map(len, off))
        return [places[:num] for places in off]

    def _try_to_drop(self, row: Row, off: list[list[int]], names: list[str]) -> bool:
        problem = ""
        for give in (False, True):
            members = self.members
            if give:
                members = [m.with_more(with_biases(m.network)) for m in members]
                row = self._same_row(members[0], row)
            try:
                dropped = [self._dropped(m, row, p) for m, p in zip(members, off, strict=True)]
            except NoPathAround:
                # Such layers never go, and nobody expects them to.
                return False
            except Stuck as stuck:
                problem = f"what they add whatever the input cannot go past {stuck}"
                continue
            if not all(map(self._agree, self.members, dropped)):
                problem = "the network does not compute the same without them"
                break
            like = without(self.members[0].network, self._same_row(self.members[0], row), off[0])
            self.members = dropped
            if give:
                self._strip(like)
            self.dropped.update(names)
            return True
        if len(off[0]) == 1 or len(self.members) > 1:
            listed = ", ".join(dict.fromkeys(names))
            self.notes.append(f"Layers that are off stay ({listed}): {problem}.")
        return False

    def _same_row(self, member: Member, row: Row) -> Row:
        rows = find_rows(member.network, self._constants(member).trace)
        same = (each for each in rows if each.path == row.path and each.stacked == row.stacked)
        return next(same, row)

    def _dropped(self, member: Member, row: Row, places: list[int]) -> Member:
        if not row.stacked:
            member = member.changed(constants_of(row, places, self._constants(member)))

        def move(leaf: int, values: np.ndarray) -> Any:
            left = left_of(row, places, leaf)
            return None if left is None else values[left]

        return member.moved(without(member.network, row, places), move)

    def _agree(self, before: Member, after: Member) -> bool:
        """Whether two networks give the same for an example; one that fails does not."""
        try:
            result = self.call(after.network, self.example)
        except Exception:
            # A network of the user's may raise anything without its layers.
            return False
        return same_numbers(self.call(before.network, self.example), result, is_proof=True)
