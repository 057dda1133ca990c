"""A traced network as a graph: operations, what they read and what they write.

Calls that only wrap others (`jit`, `checkpoint`, derivatives of one's own) are written out. A loop
or a choice keeps its bodies as graphs of their own.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Literal

from scalemix._jaxprs import bind, wrapped
from scalemix._types import PyTree
from scalemix.networks.cutting.lines import line_of

Call = Callable[[PyTree, Any], Any]
"""(network, one example) -> its output."""


@dataclasses.dataclass(frozen=True)
class Graph:
    """Operations in order. Arrays go by their numbers in the trace."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    nodes: "tuple[Node, ...]"

    def walk(self) -> "Iterator[Node]":
        """All operations, those of bodies included."""
        for node in self.nodes:
            yield node
            for body in node.bodies:
                yield from body.walk()


@dataclasses.dataclass(frozen=True)
class Node:
    """One operation."""

    equation: JaxprEqn
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    bodies: tuple[Graph, ...] = ()
    within: tuple[JaxprEqn, ...] = ()
    """The calls that it was written out of, the outermost first."""

    @property
    def name(self) -> str:
        return self.equation.primitive.name

    @property
    def params(self) -> dict[str, Any]:
        return self.equation.params

    @property
    def line(self) -> str:
        """Where the network's code has it."""
        # What JAX has traced before, it knows no line of: that of the call will do.
        return line_of([e.source_info for e in reversed((*self.within, self.equation))])


class Trace:
    """The graph of one call of a network, the shapes of all its arrays, and its constants.

    The first inputs of the graph are the network's arrays, its leaves; the others the example.
    """

    num_leaves: int
    graph: Graph

    def __init__(self, call: Call, network: PyTree, example: Any):
        arrays, static = eqx.partition(network, eqx.is_array)
        self.shapes: list[tuple[int, ...]] = []
        self.dtypes: list[Any] = []
        self.constants: dict[int, Any] = {}
        self.num_leaves = len(jax.tree.leaves(arrays))
        closed = jax.make_jaxpr(lambda arrays, x: call(eqx.combine(arrays, static), x))(
            arrays, example
        )
        inputs = tuple(self._new(variable.aval) for variable in closed.jaxpr.invars)
        nodes: list[Node] = []
        outputs = self._inline(closed.jaxpr, closed.consts, inputs, nodes)
        self.graph = Graph(inputs, tuple(outputs), tuple(nodes))

    @property
    def leaves(self) -> tuple[int, ...]:
        """The numbers of the network's arrays."""
        return self.graph.inputs[: self.num_leaves]

    @property
    def example(self) -> tuple[int, ...]:
        """The numbers of the arrays of the example."""
        return self.graph.inputs[self.num_leaves :]

    @functools.cached_property
    def nodes(self) -> "tuple[Node, ...]":
        """All operations, those of bodies included."""
        return tuple(self.graph.walk())

    @functools.cached_property
    def neighbours(self) -> dict[int, list[int]]:
        """The numbers of the operations that read or write each array."""
        near: dict[int, list[int]] = {}
        for index, node in enumerate(self.nodes):
            inner = [n for body in node.bodies for n in (*body.inputs, *body.outputs)]
            for number in {*node.inputs, *node.outputs, *inner}:
                near.setdefault(number, []).append(index)
        return near

    @functools.cached_property
    def computed(self) -> "dict[int, Node]":
        """Single numbers that the code computes of constants alone, and by which operations."""
        known: dict[int, Node] = {}
        for node in self.nodes:
            single = not node.bodies and [self.shapes[n] for n in node.outputs] == [()]
            if (
                single
                and node.inputs
                and all(n in self.constants or n in known for n in node.inputs)
            ):
                known[node.outputs[0]] = node
        return known

    @functools.cached_property
    def leaves_in_branches(self) -> frozenset[int]:
        """Which of the leaves, counted among them, go into a branch or a loop of unknown length.

        Examples need not show what is done with them there.
        """
        made_of = {number: frozenset([leaf]) for leaf, number in enumerate(self.leaves)}
        inside: frozenset[int] = frozenset()
        for node in self.nodes:
            leaves = [made_of.get(number, frozenset()) for number in node.inputs]
            if node.name in ("cond", "while"):
                inside = inside.union(*leaves)
            elif node.name == "scan":
                made_of.update(zip(node.bodies[0].inputs, leaves, strict=True))
            elif all(n in made_of or n in self.constants for n in node.inputs):
                made_of.update(dict.fromkeys(node.outputs, frozenset().union(*leaves)))
        return inside

    def is_given(self, array: int) -> bool:
        """Whether the code alone says what its value is."""
        return array in self.constants or array in self.computed

    def ndim(self, array: int) -> int:
        return len(self.shapes[array])

    def constant(self, array: int) -> Any:
        """The value of a constant, of the type that it has in the graph."""
        if array in self.computed:
            node = self.computed[array]
            return bind(node.equation, [self.constant(number) for number in node.inputs])[0]
        value = self.constants[array]
        return value if eqx.is_array(value) else jnp.asarray(value, self.dtypes[array])

    def _new(self, aval: Any) -> int:
        self.shapes.append(tuple(getattr(aval, "shape", ())))
        self.dtypes.append(getattr(aval, "dtype", None))
        return len(self.shapes) - 1

    def _constant(self, value: Any, aval: Any) -> int:
        number = self._new(aval)
        self.constants[number] = value
        return number

    def _inline(
        self,
        jaxpr: Jaxpr,
        consts: Sequence[Any],
        inputs: Sequence[int],
        nodes: list[Node],
        within: tuple[JaxprEqn, ...] = (),
    ) -> list[int]:
        known: dict[Any, int] = {
            variable: self._constant(value, variable.aval)
            for variable, value in zip(jaxpr.constvars, consts, strict=True)
        }
        known.update(zip(jaxpr.invars, inputs, strict=True))

        def read(atom: Any) -> int:
            if isinstance(atom, Literal):
                return self._constant(atom.val, atom.aval)
            return known[atom]

        for equation in jaxpr.eqns:
            arguments = tuple(map(read, equation.invars))
            inner = wrapped(equation)
            if inner is not None:
                outputs = self._inline(*inner, arguments, nodes, (*within, equation))
            else:
                around = (*within, equation)
                bodies = tuple(self._body(closed, around) for closed in _bodies(equation))
                outputs = [self._new(variable.aval) for variable in equation.outvars]
                nodes.append(Node(equation, arguments, tuple(outputs), bodies, within))
            known.update(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _body(self, closed: Any, within: tuple[JaxprEqn, ...]) -> Graph:
        inputs = tuple(self._new(variable.aval) for variable in closed.jaxpr.invars)
        nodes: list[Node] = []
        outputs = self._inline(closed.jaxpr, closed.consts, inputs, nodes, within)
        return Graph(inputs, tuple(outputs), tuple(nodes))


def _bodies(equation: JaxprEqn) -> Sequence[Any]:
    if equation.primitive.name == "scan":
        return (equation.params["jaxpr"],)
    if equation.primitive.name == "cond":
        return equation.params["branches"]
    return ()


def is_numeric(value: Any) -> bool:
    """Whether an array holds numbers, and no random keys."""
    dtype = getattr(value, "dtype", None)
    return dtype is None or not jnp.issubdtype(dtype, jax.dtypes.prng_key)
