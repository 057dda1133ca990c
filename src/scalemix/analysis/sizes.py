"""How much of a network is needed, for tables and reports."""

import dataclasses
import math
import warnings
from typing import TYPE_CHECKING

import numpy as np

from scalemix.posterior.pruning.measures import rows_differ
from scalemix.posterior.relevance import span

if TYPE_CHECKING:
    from scalemix.posterior.posterior import Posterior

# A change of predictions that nobody need be asked about, in units of their spread.
UNNOTICED = 0.01


@dataclasses.dataclass(frozen=True)
class Sizes:
    """What is on, and what would be left after pruning; `None` where that cannot be said.

    Attributes
    ----------
    width : dict of str to float
        Hidden units that are on, by the layer that reads them; a mean over the networks.
    hidden : dict of str to int
        All hidden units, likewise.
    units : dict of str to tuple of int
        The fewest and the most units that are on in a network, likewise.
    depth : float
        Layers that are on; a mean over the networks.
    num_layers : int
        Layers that can be off: all but the one that the output is read from.
    layers : tuple of int
        The fewest and the most layers that are on in a network.
    parameters : tuple of int
        Those of one network before pruning and after, as `scalemix.pruning.Report` counts them:
        without weights that are certainly zero.
    stored : tuple of int
        The same with such weights: what a file holds of one network.
    kept : dict of str to tuple of int
        Hidden units before pruning and after, by the layer that puts them out. A unit stays as long
        as one of the networks needs it.
    change : float
        By how much pruning changes predictions at most, as a share of their spread.
    remark : str
        Why something cannot be said.

    Examples
    --------
    >>> from scalemix.analysis.sizes import find_sizes
    >>> find_sizes(post, None).hidden
    {'layers.1': 8, 'layers.2': 8}
    """

    width: dict[str, float] | None = None
    hidden: dict[str, int] | None = None
    units: dict[str, tuple[int, int]] | None = None
    depth: float | None = None
    num_layers: int | None = None
    layers: tuple[int, int] | None = None
    parameters: tuple[int, int] | None = None
    stored: tuple[int, int] | None = None
    kept: dict[str, tuple[int, int]] | None = None
    change: float | None = None
    remark: str = ""

    @property
    def all_on(self) -> bool:
        """Whether it is known that every unit and every layer is on."""
        units = self.units or {}
        return bool(self.hidden) and all(
            units[name][0] == total for name, total in (self.hidden or {}).items()
        ) and (self.layers is None or self.layers[0] == self.num_layers)  # fmt: skip

    def in_words(self) -> dict[str, str]:
        """Lines for a table."""
        lines = {}
        for name, pair in (self.units or {}).items():
            lines[f"units on before {name}"] = f"{span(pair)} of {(self.hidden or {})[name]}"
        if self.layers is not None:
            lines["layers on, before the last"] = f"{span(self.layers)} of {self.num_layers}"
        if self.parameters is not None:
            before, after = self.parameters
            lines["parameters of a network"] = f"{before:,}"
            stored = self.stored or self.parameters
            if stored[0] > before:
                lines["parameters of a network, zeros included"] = f"{stored[0]:,}"
            for name, (total, left) in (self.kept or {}).items():
                if left < total:
                    lines[f"units of {name} after pruning"] = f"{left} of {total}"
            if after < before:
                lines["parameters after pruning"] = f"{after:,} ({after / before:.0%})"
                if stored[1] != after:
                    lines["parameters after pruning, zeros included"] = f"{stored[1]:,}"
                if self.change is not None:
                    lines["largest change of a prediction by pruning"] = (
                        f"{self.change:.1%} of their spread"
                    )
        return lines


def find_sizes(posterior: "Posterior", x: "np.ndarray | None") -> Sizes:
    """The sizes of a posterior's networks.

    With two different rows of inputs `x` or more it is known what pruning does to predictions.
    """
    try:
        relevance = posterior.relevance()
    except ValueError as error:
        return Sizes(remark=str(error))
    hidden = {name: relevance.units_on[name].shape[-1] for name in relevance.effective_width}
    on = {name: relevance.units_on[name].reshape(-1, n).sum(axis=1) for name, n in hidden.items()}
    # By member, as units are.
    deep = np.sum([relevance.layers_on[name] for name in relevance.hidden_layers], axis=0)
    known = not math.isnan(relevance.effective_depth) and bool(relevance.hidden_layers)
    sizes = Sizes(
        width=relevance.effective_width,
        hidden=hidden,
        units={name: (int(num.min()), int(num.max())) for name, num in on.items()},
        depth=None if math.isnan(relevance.effective_depth) else relevance.effective_depth,
        num_layers=len(relevance.hidden_layers),
        layers=(int(deep.min()), int(deep.max())) if known else None,
    )
    try:
        with warnings.catch_warnings():
            # By how much predictions would change is told here.
            warnings.simplefilter("ignore", UserWarning)
            compared = x if x is not None and rows_differ(x) else None
            report = posterior.prune(compared).report
    except ValueError as error:
        return dataclasses.replace(sizes, remark=str(error))
    return dataclasses.replace(
        sizes, parameters=report.parameters_each, stored=report.stored_each, kept=report.units,
        change=report.mean_change,
    )  # fmt: skip
