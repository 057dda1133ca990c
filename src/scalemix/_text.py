"""Tables and lists in plain text."""

from collections.abc import Iterable, Sequence


def text_table(rows: Sequence[Sequence[str]], align: str = "") -> list[str]:
    """Lines in which the cells of each column stand below each other, two spaces apart.

    `align` has a letter for each column, `<` for the left and `>` for the right; columns that it
    does not reach are on the left. Rows may end early, and lines have no spaces at their ends.
    """
    num = max(map(len, rows), default=0)
    align = align.ljust(num, "<")
    widths = [max(len(row[i]) for row in rows if i < len(row)) for i in range(num)]
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=False)
        ).rstrip()
        for row in rows
    ]


def counted(num: float, noun: str) -> str:
    """So many of something: 1 row, 1,200 rows."""
    return f"{num:,.0f} {noun}{'' if num == 1 else 's'}"


def listing(names: Iterable[object], most: int = 12) -> str:
    """Names for a sentence, in quotes, not too many of them."""
    return shortened([repr(name) for name in names], most)


def few_lines(lines: Sequence[str], most: int = 12) -> list[str]:
    """Lines that say much the same of many things: the first of them, and how many more."""
    more = [f"and {len(lines) - most:,} more of these"] if len(lines) > most else []
    return [*lines[:most], *more]


def shortened(items: Iterable[str], most: int = 12) -> str:
    """What a line says of many things: the first of them, and how many more there are."""
    items = list(items)
    text = ", ".join(items[:most])
    return text if len(items) <= most else f"{text} and {len(items) - most:,} more"
