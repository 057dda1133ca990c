"""Networks with zeros in them as smaller networks of the same classes that compute the same."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from scalemix._types import PyTree
from scalemix.networks.cutting.compare import find_difference
from scalemix.networks.cutting.emitted import Emitted, Program
from scalemix.networks.cutting.flow import Flows
from scalemix.networks.cutting.graph import Call, Trace
from scalemix.networks.cutting.keep import Dimension, Keep
from scalemix.networks.cutting.lines import line_of_error
from scalemix.networks.cutting.member import Member, arrays_of, take, with_arrays
from scalemix.networks.cutting.sizes import Places, corrected
from scalemix.networks.cutting.solve import (
    NOT_FOLLOWED,
    all_alike,
    as_many,
    find_flows,
    reasons_to_stay,
    same_shape,
    solve,
)
from scalemix.networks.cutting.whole_numbers import Trial, fit_whole_numbers, path_of


@dataclasses.dataclass(frozen=True)
class Cut:
    """Networks of one form, cut to one form, and what stays of each."""

    members: tuple[Member, ...]
    keeps: tuple[Keep, ...]
    reasons: dict[Dimension, str]
    """Why places that are all zero stay, by array and axis, where that is someone's code."""
    factors: dict[int, float] = dataclasses.field(default_factory=dict)
    """What arrays were multiplied by to make up for other divisors."""
    problem: str | None = None
    """Why not everything that could go is gone."""


class Cutter:
    """Cuts networks that differ in the values of their arrays alone."""

    members: Sequence[Member]
    example: Any
    call: Call
    trace: Trace
    flows: list[Flows]
    drop_inputs: bool

    def __init__(
        self,
        members: Sequence[Member],
        example: Any,
        call: Call,
        *,
        whole: Sequence[int] = (),
        drop_inputs: bool = False,
    ):
        self.members, self.example, self.call = members, example, call
        self.trace = Trace(call, members[0].network, example)
        self.flows = [find_flows(self.trace, member.nonzero) for member in members]
        self.drop_inputs, self._fixed = drop_inputs, whole
        self._whole = [
            ((self.trace.leaves[leaf], axis), "it is frozen")
            for leaf in whole
            for axis in range(self.trace.ndim(self.trace.leaves[leaf]))
        ]

    def cut(self, *, as_function: bool = False, whole_sums: bool = False) -> Cut:
        """As small as can be. What cannot be followed stays as it is.

        With `as_function`, networks whose classes cannot have the sizes that are left come back as
        the operations that were traced. With `whole_sums`, sums as those of attention, which may
        have divisors of their size, keep it.
        """
        first = self._attempt(whole_sums=whole_sums)
        if first.members:
            return first
        if as_function:
            return self._emit()
        options: dict[str, Any] = {}
        # What may be in the way, the most likely first.
        for more in ("whole_sums", "tied", "alike"):
            options[more] = True
            again = self._attempt(**options)
            if again.members:
                return dataclasses.replace(again, problem=first.problem)
        return dataclasses.replace(self._components(), problem=first.problem)

    def read_inputs(self) -> np.ndarray | None:
        """Which elements of an example any network reads, if it is a single row of numbers."""
        if [self.trace.ndim(number) for number in self.trace.example] != [1]:
            return None
        keeps = [solve(self.trace, flows, pinned=self._whole, inputs=False) for flows in self.flows]
        (number,) = self.trace.example
        return np.logical_or.reduce([keep.is_read(number, 0) for keep in keeps])

    def _solve(
        self,
        pinned: Sequence[tuple[Dimension, str]] = (),
        *,
        alike: bool = False,
        **options: bool,
    ) -> list[Keep]:
        pinned = [*self._whole, *pinned]
        keeps = [
            solve(self.trace, flows, pinned=pinned, inputs=not self.drop_inputs, **options)
            for flows in self.flows
        ]
        if self.drop_inputs:
            same_shape(keeps, all_alike, of=self.trace.example)
        same_shape(keeps, all_alike if alike else as_many)
        return keeps

    def _attempt(self, **options: Any) -> Cut:
        """All networks cut, or none if they do not compute what they did."""
        keeps = self._solve(**options)
        small = [self._rebuild(m, k) for m, k in zip(self.members, keeps, strict=True)]
        fitted, trial = fit_whole_numbers(small[0], keeps[0], lambda n: self._try(n, keeps))
        if fitted is None:
            return Cut((), tuple(keeps), {}, problem=trial.problem)
        # Members differ in their arrays alone.
        members = [
            self._moved(member, with_arrays(fitted, arrays_of(network)), keep).scaled(trial.factors)
            for member, network, keep in zip(self.members, small, keeps, strict=True)
        ]
        nonzero = self.members[0].nonzero
        reasons = reasons_to_stay(keeps[0], nonzero)
        return Cut(tuple(members), tuple(keeps), reasons, trial.factors)

    def _emit(self) -> Cut:
        # One program for all members.
        keeps = self._solve(alike=True)
        program = Program(keeps[0])
        networks = [Emitted(self._rebuild(m, keeps[0]), program) for m in self.members]
        members = [self._moved(m, n, keeps[0]) for m, n in zip(self.members, networks, strict=True)]
        return Cut(tuple(members), tuple(keeps), {})

    def _moved(self, member: Member, network: PyTree, keep: Keep) -> Member:
        def move(leaf: int, values: np.ndarray) -> np.ndarray:
            return take(values, keep.masks(self.trace.leaves[leaf]))

        return member.moved(network, move)

    def _rebuild(self, member: Member, keep: Keep) -> PyTree:
        arrays, static = eqx.partition(member.network, eqx.is_array)
        leaves, form = jax.tree.flatten(arrays)
        numbers = self.trace.leaves
        new = [take(a, keep.masks(n)) for n, a in zip(numbers, leaves, strict=True)]
        kept = [Places(keep.masks(number)) for number in numbers]
        network = eqx.combine(jax.tree.unflatten(form, new), static)
        return corrected(network, member.network, _combine(form, kept, static))

    def _try(self, network: PyTree, keeps: Sequence[Keep]) -> Trial:
        seen: list[PyTree] = []

        def call(network: PyTree, x: Any) -> Any:
            seen.append(network)
            return self.call(network, x)

        try:
            second = Trace(call, network, _take_example(keeps[0], self.example))
        except Exception as error:
            # A network of the user's may raise anything at sizes that it does not expect.
            lines = str(error).strip().splitlines() or [""]
            problem = (
                f"at {line_of_error(error)}, {type(error).__name__}: {lines[0][:110].rstrip('.')}"
            )
            return Trial(problem, _blamed(error, seen[-1]) if seen else ())
        differences = [find_difference(keep, second, self._fixed) for keep in keeps]
        problems = (difference.problem for difference in differences)
        # Members differ in what is live, and have one form: their factors are the same.
        factors = differences[0].factors
        return Trial(next((p for p in problems if p is not None), None), factors=factors)

    def _components(self) -> Cut:
        """Only those parts whose cut works."""
        keeps = self._solve(tied=True, alike=True)
        parts: dict[Dimension, list[Dimension]] = {}
        for number in self.trace.leaves:
            for axis in range(self.trace.ndim(number)):
                if not all(keep.is_whole(number, axis) for keep in keeps):
                    root = keeps[0].component_of((number, axis))
                    parts.setdefault(root, []).append((number, axis))

        def attempt(roots: list[Dimension]) -> Cut:
            others = [d for root, group in parts.items() if root not in roots for d in group]
            pinned = [(dimension, NOT_FOLLOWED) for dimension in others]
            return self._attempt(pinned=pinned, tied=True, alike=True)

        def search(roots: list[Dimension], good: list[Dimension]) -> list[Dimension]:
            if not roots or attempt([*good, *roots]).members:
                return [*good, *roots]
            if len(roots) == 1:
                return good
            half = len(roots) // 2
            return search(roots[half:], search(roots[:half], good))

        return attempt(search([*parts], []))


def _take_example(keep: Keep, example: Any) -> Any:
    leaves, form = jax.tree.flatten(example)
    numbers = keep.trace.example
    taken = [
        jax.ShapeDtypeStruct(keep.shape(number), leaf.dtype)
        for number, leaf in zip(numbers, leaves, strict=True)
    ]
    return jax.tree.unflatten(form, taken)


def _combine(form: Any, leaves: Sequence[Any], static: PyTree) -> PyTree:
    """As `eqx.combine`, of leaves that are not arrays."""
    new = jax.tree.unflatten(form, leaves)
    is_leaf = lambda node: node is None or isinstance(node, Places)  # noqa: E731
    return jax.tree.map(
        lambda one, other: other if one is None else one, new, static, is_leaf=is_leaf
    )


def _blamed(error: BaseException, network: PyTree) -> tuple[tuple[Any, ...], ...]:
    """The modules whose methods an error came through, from the outside in."""
    blamed, traceback = [], error.__traceback__
    while traceback is not None:
        owner = traceback.tb_frame.f_locals.get("self")
        if isinstance(owner, eqx.Module):
            path = path_of(network, owner)
            if path is not None:
                blamed.append(path)
        traceback = traceback.tb_next
    return tuple(blamed)
