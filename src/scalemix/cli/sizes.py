"""How much of a network is needed, for tables and reports."""

import dataclasses
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from scalemix.posterior.posterior import Posterior


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What is on, and what would be left after pruning; `None` where that cannot be said."""

    width: dict[str, float] | None = None
    """Hidden units that are on, by the layer that reads them."""
    hidden: dict[str, int] | None = None
    """All hidden units, likewise."""
    depth: float | None = None
    num_layers: int | None = None
    """Layers that can be off: all but the one that the output is read from."""
    parameters: tuple[int, int] | None = None
    """Before pruning and after, of one network."""
    change: float | None = None
    """By how much pruning changes predictions at most, as a share of their spread."""
    remark: str = ""

    def in_words(self) -> dict[str, str]:
        """Lines for a table."""
        lines = {}
        if self.width is not None and self.hidden is not None:
            for name, width in self.width.items():
                lines[f"units on before {name}"] = f"{width:g} of {self.hidden[name]}"
        if self.depth is not None:
            lines["layers on, before the last"] = f"{self.depth:g} of {self.num_layers}"
        if self.parameters is not None:
            before, after = self.parameters
            lines["parameters of a network"] = f"{before:,}"
            lines["parameters after pruning"] = f"{after:,} ({after / before:.0%})"
        if self.change is not None:
            lines["largest change of a prediction by pruning"] = (
                f"{self.change:.1%} of their spread"
            )
        if self.remark:
            lines["remark"] = self.remark
        return lines


def find_sizes(posterior: "Posterior", x: "np.ndarray | None") -> Sizes:
    """The sizes of a posterior's networks; those of an ensemble are averages.

    With inputs `x` it is known what pruning does to predictions.
    """
    try:
        relevance = posterior.relevance()
    except ValueError as error:
        return Sizes(remark=str(error))
    sizes = Sizes(
        width=relevance.effective_width,
        hidden={name: relevance.units_on[name].shape[-1] for name in relevance.effective_width},
        depth=None if math.isnan(relevance.effective_depth) else relevance.effective_depth,
        num_layers=len(relevance.hidden_layers),
    )
    try:
        report = posterior.prune(x).report
    except ValueError as error:
        return dataclasses.replace(sizes, remark=str(error))
    before, after = (count // report.num_members for count in report.num_parameters)
    return dataclasses.replace(sizes, parameters=(before, after), change=report.mean_change)
