"""Where a table is: a file, a table in a database or a book, or standard input."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

STDIN = "-"
SCHEMES = ("sqlite", "duckdb")


class Address(NamedTuple):
    """A file, and the table in it where it holds several."""

    path: Path
    table: str | None = None

    @property
    def is_stdin(self) -> bool:
        """Whether the table comes by standard input."""
        return str(self.path) == STDIN


def parse_address(said: str | Path) -> Address:
    """What a user means by `shop.db::orders`, `sqlite:///shop.db?table=orders` or `shop.csv`.

    Of three slashes the last one belongs to the address, as in those of SQLAlchemy; with four, the
    path begins at the root.
    """
    said = str(said)
    scheme, _, rest = said.partition("://")
    if rest and scheme.lower() in SCHEMES:
        parts = urlsplit(said)
        tables = parse_qs(parts.query).get("table")
        path = unquote(parts.netloc + parts.path.removeprefix("/"))
        return Address(Path(path), tables[-1] if tables else None)
    if "::" in said and not Path(said).exists():
        path, table = said.rsplit("::", 1)
        return Address(Path(path), table)
    return Address(Path(said))
