"""Each kind of network goes all the way through, and the documentation's table says so."""

import pytest

from tests.network_kinds import END, KINDS, PAGE, START, USES

# Those whose mechanisms differ from one another; all others run in `make test-all`. How a
# transformer block is cut is in the tests of pruning.
QUICK = {
    "`GRUCell`": ("noise",),
    "`Embedding`, by token": ("prune",),
    "stacked layers, ADD": ("prune",),
    "tied weights (`eqx.nn.Shared`)": ("save, load",),
}


def shown() -> dict[tuple[str, str], str]:
    """The cells of the table in the documentation."""
    _, _, rest = PAGE.read_text().partition(START)
    header, _, *rows = rest.partition(END)[0].strip().splitlines()
    uses = [cell.strip() for cell in header.strip("|").split("|")][1:]
    split = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return {(row[0], use): cell for row in split for use, cell in zip(uses, row[1:], strict=True)}


def test_the_table_has_every_kind_and_use():
    assert set(shown()) == {(kind, use) for kind in KINDS for use in USES}
    assert set(QUICK) <= set(KINDS)


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        pytest.param(kind, use, marks=[] if use in QUICK.get(kind, ()) else pytest.mark.slow)
        for kind in KINDS
        for use in USES
    ],
)
def test_a_cell_of_the_table(kind, use):
    assert USES[use](KINDS[kind]) == shown()[kind, use]
