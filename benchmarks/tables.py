"""Tables of measurements in benchmarks/README.md."""

from pathlib import Path

PAGE = Path(__file__).parent / "README.md"


def write_table(name: str, rows: list[tuple[str, str, str]]) -> None:
    """Put the rows between the marks of that name in benchmarks/README.md."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, rest = PAGE.read_text().split(begin)
    after = rest.split(end)[1]
    table = ["| | measured | wanted |", "|---|---|---|"]
    table += [f"| {' | '.join(row)} |" for row in rows]
    PAGE.write_text("\n".join([before + begin, *table, end + after]))
