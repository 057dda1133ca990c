"""What pruning did: to the network, to its speed, to its predictions."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Report:
    """What went, and what it cost. Pairs are before and after. `print` shows it as a table."""

    num_members: int
    num_layers: tuple[int, int]
    """Dense layers, the output layer included; under a mask, those under the prior."""
    num_parameters: tuple[int, int]
    """Numbers in the networks of all members; under a mask, those that it left alone."""
    units: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """Hidden units by the layer that puts them out; those of a residual stream at its first."""
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    """The layers that are gone, and from how many members."""
    rows_off: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """How many rows of each layer are off, and of how many; of all members together."""
    inputs: tuple[int, ...] = ()
    """The inputs that the network takes, as columns of the `x` that it was fitted to."""
    inputs_off: tuple[int, ...] = ()
    """The inputs that no member reads any more, whether they are taken or not."""
    latency: tuple[float, float] | None = None
    """Median seconds of a compiled pass of 1,024 rows through all members, here and now."""
    mean_change: float | None = None
    """On the data given, the largest change of the predictive mean, in units of its spread over the
    rows. Before and after have the noise of the same draws, so that this is no chance."""
    std: tuple[float, float] | None = None
    """On the data given, the average predictive standard deviation, each from draws of its own."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        table: dict[str, tuple[float, float]] = {
            f"{name}, units": pair for name, pair in self.units.items()
        }
        of = f" of {self.num_members} members" if self.num_members > 1 else ""
        table |= {"layers": self.num_layers, f"parameters{of}": self.num_parameters}
        if self.latency is not None:
            table["ms for 1,024 rows"] = (1e3 * self.latency[0], 1e3 * self.latency[1])
        if self.std is not None:
            table["average predictive std"] = self.std
        width = max(map(len, table))
        text = [f"{'':{width}}  {'before':>10}  {'after':>10}"]
        for name, pair in table.items():
            shown = [f"{n:,}" if isinstance(n, int) else f"{n:.3g}" for n in pair]
            text.append(f"{name:{width}}  {shown[0]:>10}  {shown[1]:>10}")
        if self.dropped:
            gone = [
                name if num == self.num_members else f"{name} (of {num} members)"
                for name, num in self.dropped.items()
            ]
            text.append(f"dropped: {', '.join(gone)}")
        masked = [f"{n} {off} of {total}" for n, (off, total) in self.rows_off.items() if off]
        # A unit goes only if all that it feeds can do without it.
        text.append(f"rows of weights set to zero: {', '.join(masked) or 'none'}")
        if self.inputs_off:
            text.append(f"inputs not read: {', '.join(map(str, self.inputs_off))}")
        if self.mean_change is not None:
            text.append(
                f"largest change of the predictive mean: {self.mean_change:.2g} of its spread"
            )
        return "\n".join([*text, *self.notes])
