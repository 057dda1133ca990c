"""Tables in plain text."""

from collections.abc import Sequence


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
