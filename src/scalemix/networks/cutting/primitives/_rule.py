"""What a rule says about a primitive."""

import dataclasses
from collections.abc import Callable
from typing import Any

from scalemix.networks.cutting.flow import FlowRule, anything
from scalemix.networks.cutting.graph import Node
from scalemix.networks.cutting.keep import Keep


@dataclasses.dataclass(frozen=True)
class Primitive:
    """How places of arrays go through an operation."""

    keep: Callable[[Keep, Node], None]
    """What of its inputs and outputs must stay together."""
    flow: FlowRule = anything
    """Where its outputs can be nonzero, and where they can vary."""
    resize: Callable[[Keep, Node], dict[str, Any]] = lambda keep, node: {}
    """Those of its parameters that are other numbers at the sizes that are left."""
    linear: bool = False
    """Whether what is added to one input is added to the output, after the same operation."""
