"""What pruning did: to the network, to its speed, to its predictions."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from scalemix._text import shortened, text_table


@dataclasses.dataclass(frozen=True)
class Report:
    """What pruning took away, and what that cost. `print` shows it as a table.

    Pairs are before and after.

    Attributes
    ----------
    num_members : int
        How many networks there are: those of an ensemble, or one.
    num_layers : tuple of int
        Layers that can carry a prior, whether they do or not.
    num_parameters : tuple of int
        Numbers in the networks of all members, but for weights that are certainly zero.
    num_stored : tuple of int
        The same with them: what is left is smaller only if parts could be cut out.
    multiply_adds : tuple of int or None
        Multiplications, each with an addition, that products and convolutions take for one example
        through all members.
    units : dict of str to tuple of int
        Hidden units, by the layer under the prior that puts them out; of layers that share them,
        such as those of a residual stream, by the first.
    dropped : dict of str to int
        The layers that are gone, and from how many members.
    rows_off : dict of str to tuple of int
        How many rows of each layer are off, and how many there are, over all members.
    groups_off : dict of str to dict of str to tuple of int
        The same of outputs, heads or tokens, by group (`output`, `head`, `token`), for the layers
        that have such scales.
    outputs_off : dict of str to tuple of int
        Those of outputs, or filters: `groups_off["output"]`.
    inputs : tuple of int
        The inputs that the network takes, as columns of the `x` that it was fitted to.
    inputs_off : tuple of int
        The inputs that no member reads any more, whether they are taken or not.
    columns_off : tuple of str or None
        The columns of a table that were read and of which no input is read any more; `None` where
        no columns are known.
    latency : tuple of float or None
        Median seconds of a compiled pass of 1,024 rows through all members, measured here and now,
        with `timed=True`.
    mean_change : float or None
        The largest change of the predictive mean at the inputs given, in units of its spread over
        the rows; in units of the predictive standard deviation where the mean is the same in all
        rows. Before and after share the noise of their draws, so that it is no chance.
    std : tuple of float or None
        The average predictive standard deviation at the inputs given, each from draws of its own.
    notes : tuple of str
        Anything else worth knowing.

    Examples
    --------
    >>> report = post.prune(mask_only=True).report
    >>> report.num_members, report.num_layers
    (1, (3, 3))
    """

    num_members: int
    num_layers: tuple[int, int]
    num_parameters: tuple[int, int]
    num_stored: tuple[int, int]
    multiply_adds: tuple[int, int] | None = None
    units: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    rows_off: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    groups_off: dict[str, dict[str, tuple[int, int]]] = dataclasses.field(default_factory=dict)
    inputs: tuple[int, ...] = ()
    inputs_off: tuple[int, ...] = ()
    columns_off: tuple[str, ...] | None = None
    latency: tuple[float, float] | None = None
    mean_change: float | None = None
    std: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()

    def by_column(
        self, columns: Mapping[str, Sequence[int]], unread: Collection[int] = ()
    ) -> "Report":
        """The same, by the names of columns that became several inputs each.

        Parameters
        ----------
        columns : dict of str to sequence of int
            The inputs that each column became.
        unread : collection of int, optional
            Inputs that were not read before, either. A column of which none was read is not named.

        Returns
        -------
        Report
            With `columns_off`.

        Examples
        --------
        >>> import dataclasses
        >>> report = post.prune(mask_only=True).report
        >>> report = dataclasses.replace(report, inputs_off=(0, 1, 2))
        >>> report.by_column({"size": [0, 1], "town": [2, 3]}).columns_off
        ('size',)
        """
        off, before = set(self.inputs_off), set(unread)
        gone = (
            name
            for name, places in columns.items()
            if off >= set(places) and not before >= set(places)
        )
        return dataclasses.replace(self, columns_off=tuple(gone))

    @property
    def outputs_off(self) -> dict[str, tuple[int, int]]:
        """How many outputs of each layer are off, and how many there are."""
        return self.groups_off.get("output", {})

    @property
    def parameters_each(self) -> tuple[int, int]:
        """`num_parameters` of one network, a mean over the members."""
        return self._each(self.num_parameters)

    @property
    def stored_each(self) -> tuple[int, int]:
        """`num_stored` of one network, all of which are of one size."""
        return self._each(self.num_stored)

    def _each(self, pair: tuple[int, int]) -> tuple[int, int]:
        before, after = (round(num / self.num_members) for num in pair)
        return before, after

    def __str__(self) -> str:
        pairs: dict[str, tuple[float, float]] = {
            f"{name}, units": pair for name, pair in self.units.items()
        }
        of = f" of each of {self.num_members} networks" if self.num_members > 1 else ""
        pairs |= {"layers": self.num_layers, f"parameters{of}": self.parameters_each}
        if self.num_stored != self.num_parameters:
            pairs[f"numbers stored{of}"] = self.stored_each
        if self.multiply_adds is not None:
            pairs[f"multiply-adds{of}"] = self._each(self.multiply_adds)
        if self.latency is not None:
            pairs["ms for 1,024 rows"] = (1e3 * self.latency[0], 1e3 * self.latency[1])
        if self.std is not None:
            pairs["average predictive std"] = self.std
        rows = [("", "before", "after")]
        for name, pair in pairs.items():
            before, after = (f"{n:,}" if isinstance(n, int) else _short(n) for n in pair)
            rows.append((name, before, after))
        text = text_table(rows, "<>>")
        if self.dropped:
            gone = [
                name if num == self.num_members else f"{name} (of {num} members)"
                for name, num in self.dropped.items()
            ]
            text.append(f"dropped: {', '.join(gone)}")
        # A unit goes only if all that it feeds can do without it.
        text.append(f"rows of weights set to zero: {_listed(self.rows_off)}")
        for group, off in self.groups_off.items():
            text.append(f"{group}s of weights set to zero: {_listed(off)}")
        if self.columns_off:
            text.append(f"not read any more: {shortened(self.columns_off)}")
        elif self.inputs_off and self.columns_off is None:
            text.append(f"inputs not read: {', '.join(map(str, self.inputs_off))}")
        if self.mean_change is not None:
            text.append(
                f"largest change of the predictive mean: {self.mean_change:.2g} of its spread"
            )
        return "\n".join([*text, *self.notes])


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e3 else f"{value:.3g}"


def _listed(off: dict[str, tuple[int, int]]) -> str:
    shown = [f"{name} {num} of {total}" for name, (num, total) in off.items() if num]
    return ", ".join(shown) or "none"
