"""How good predictions are, as a table at the terminal."""

from collections.abc import Sequence

from scalemix.cli.console import print_table

NONE = "–"


def print_figures(
    figures: dict[str, float],
    by_target: Sequence[dict[str, float]],
    names: Sequence[str],
    called: str,
    *,
    meanings: bool = False,
) -> None:
    """Print the figures of rows that are `called` so, and if asked for what they mean.

    Each of several targets has a column of its own. Only what has a mean over all of them, or is of
    all of them together, stands in one more column.
    """
    from scalemix.analysis.evaluation import MEASURES

    if len(names) > 1:
        together = {name: value for name, value in figures.items() if MEASURES[name].averaged}
        # Files from before there were figures of each target have the others alone.
        heads = [*(names if by_target else ()), "together"]
        parts, title = [*by_target, together], called
    else:
        heads, parts, title = [called], [figures], None
    rows = [
        (
            measure.label,
            *(measure.show(part[name]) if name in part else NONE for part in parts),
            *([measure.meaning] if meanings else []),
        )
        for name, measure in MEASURES.items()
        if any(name in part for part in parts)
    ]
    print_table(
        ["", *heads, *(["meaning"] if meanings else [])], rows, right=range(1, len(parts) + 1),
        title=title,
    )  # fmt: skip


def named_figures(
    names: Sequence[str], by_target: Sequence[dict[str, float]]
) -> dict[str, dict[str, dict[str, float]]]:
    """The figures of each of several targets by its name, for JSON; nothing for one target."""
    return {"by_target": dict(zip(names, by_target, strict=True))} if by_target else {}
