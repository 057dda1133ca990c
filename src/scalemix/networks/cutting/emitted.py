"""A network that was cut, as the operations that were traced, at the sizes that are left."""

from typing import Any

import equinox as eqx

from scalemix._types import PyTree
from scalemix.networks.cutting.keep import Keep
from scalemix.networks.cutting.member import arrays_of
from scalemix.networks.cutting.running import resized, run_graph


class Program:
    """What a network did with its arrays and an example, step by step."""

    def __init__(self, keep: Keep):
        self.keep = keep

    def __call__(self, arrays: list[Any], x: Any) -> Any:
        trace = self.keep.trace
        values = run_graph(trace, trace.graph, [*arrays, x], lambda node: resized(self.keep, node))
        (output,) = trace.graph.outputs
        return values[output]


class Emitted(eqx.Module):
    """A network whose class writes its sizes into its code, run without this code.

    It holds the arrays of the network, and takes examples of the shape that was traced.
    """

    network: PyTree
    program: Program = eqx.field(static=True)

    def __call__(self, x: Any) -> Any:
        return self.program(arrays_of(self.network), x)
