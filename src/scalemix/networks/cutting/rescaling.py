"""Arrays of a network that can be multiplied so that one array inside of it is.

A number that depends on a size, such as the root that attention divides its logits by, is another
one in a smaller network. Where it is a factor, weights before it can make up for it.
"""

from collections.abc import Collection, Sequence

import jax.numpy as jnp
import numpy as np

from scalemix._jaxprs import scan_counts
from scalemix.networks.cutting.graph import Node, Trace

# A multiple of their first input makes the same multiple of their output.
PROPORTIONAL = {
    "transpose", "broadcast_in_dim", "squeeze", "reshape", "rev", "copy", "convert_element_type",
    "neg", "reduce_sum", "stop_gradient",
}  # fmt: skip
# For these it takes a multiple of all inputs.
JOINT = {"add", "sub", "concatenate"}
# For these a multiple of either input will do.
PRODUCTS = {"mul", "dot_general", "conv_general_dilated"}


class Rescaling:
    """Finds the arrays of a network, none of them `fixed`, that some array is proportional to."""

    def __init__(self, trace: Trace, fixed: Collection[int] = ()):
        self._trace = trace
        self._leaves = {number: leaf for leaf, number in enumerate(trace.leaves)}
        self._fixed = set(fixed)
        self._made_by: dict[int, Node] = {}
        self._outside: dict[int, int] = {}
        self._uses: dict[int, int] = {}
        self._of_example = set(trace.example)
        self._read(trace.graph.outputs)
        for node in trace.nodes:
            self._made_by.update(dict.fromkeys(node.outputs, node))
            self._read(node.inputs)
            for body in node.bodies:
                self._read(body.outputs)
            if not self._of_example.isdisjoint(node.inputs):
                self._of_example.update(node.outputs)
            if node.name == "scan":
                self._enter(node)

    def _read(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._uses[number] = self._uses.get(number, 0) + 1

    def _enter(self, node: Node) -> None:
        """All that a loop reads comes from outside, but for what it carries along."""
        num_consts, num_carried = scan_counts(node.params, len(node.inputs))
        pairs = [*zip(node.inputs, node.bodies[0].inputs, strict=True)]
        for outer, inner in (*pairs[:num_consts], *pairs[num_consts + num_carried :]):
            self._outside[inner] = outer
            if outer in self._of_example:
                self._of_example.add(inner)
        self._of_example.update(inner for _, inner in pairs if inner not in self._outside)

    def find(self, number: int) -> frozenset[int] | None:
        """The numbers of network arrays to multiply, so that this array is multiplied as well.

        `None` if there are none, or if something else would be multiplied, too.
        """
        if number in self._trace.constants:
            # Nothing is any multiple of itself.
            zero = not np.any(np.asarray(self._trace.constants[number]))
            return frozenset() if zero else None
        if self._uses.get(number) != 1:
            return None
        if number in self._leaves:
            leaf = self._leaves[number]
            is_real = jnp.issubdtype(self._trace.dtypes[number], jnp.floating)
            return frozenset([leaf]) if is_real and leaf not in self._fixed else None
        if number in self._outside:
            return self.find(self._outside[number])
        node = self._made_by.get(number)
        return None if node is None else self._through(node)

    def _through(self, node: Node) -> frozenset[int] | None:
        if node.name in PROPORTIONAL:
            is_real = jnp.issubdtype(self._trace.dtypes[node.inputs[0]], jnp.floating)
            return self.find(node.inputs[0]) if is_real else None
        if node.name == "div":
            return self.find(node.inputs[0])
        if node.name in JOINT:
            parts = [self.find(number) for number in node.inputs]
            if None in parts:
                return None
            return frozenset().union(*(part for part in parts if part is not None))
        if node.name in PRODUCTS:
            # Weights rather than what is computed of the example.
            for number in sorted(node.inputs, key=self._of_example.__contains__):
                leaves = self.find(number)
                if leaves is not None:
                    return leaves
        return None
