"""What a report of a table says of its columns, and the values that it shows effects at."""

import numpy as np
import pytest

from scalemix.analysis.sizes import find_sizes
from scalemix.cli.described import MISSING, describe_columns, plain_places
from scalemix.cli.models import read_model
from scalemix.tables import learn_columns, read_table
from tests.cli.conftest import run, write_table


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    return read_table(write_table(tmp_path_factory.mktemp("table") / "data.csv"))


def test_the_report_tells_what_was_made_of_each_column(regression):
    html = (regression.folder / "first.html").read_text(encoding="utf-8")
    for said in (
        "How gaps, dates and categories were treated",
        "and one more input says that the cell was empty",
        "dates, as days since 1970",
        "categories: an input for each of 3, and one for all others",
        "left out: as asked",
        "linear regression",
        "Where it is least sure",
    ):
        assert said in html, said


def test_values_are_encoded_as_the_table_would_be(table):
    columns = learn_columns(table, "price", ignore=["mood"], bins=4)
    described = {column.name: column for column in describe_columns(columns, table)}
    assert list(described) == ["size", "town", "sold", "new"]
    encoded = columns.encode(table).x
    town = described["town"]
    assert town.values.tolist() == ["Bonn", "Köln", "Ulm", MISSING]
    cells = table.column("town")
    for name, block in zip([*town.values[:3], None], town.blocks, strict=True):
        row = cells.index(name)
        np.testing.assert_array_equal(encoded[row, list(town.places)], block)
    sold = described["sold"]
    row = table.column("sold").index(str(sold.values[0]))
    np.testing.assert_allclose(encoded[row, list(sold.places)], sold.blocks[0])
    size = described["size"]
    # The number, its bins, and no gap.
    assert size.blocks.shape == (20, len(size.places))
    np.testing.assert_array_equal(size.blocks[:, 0], size.values)
    assert not size.blocks[:, -1].any()
    assert "one more for each bin (4)." in size.treatment
    assert "Empty cells (4 in 80 rows) count as the median" in size.treatment
    features = [columns.features[place] for place in plain_places(columns)]
    assert features[:3] == ["size", "size is missing", "town = Bonn"]
    assert not any(" to " in feature for feature in features)


def test_without_a_table_treatments_are_told_and_values_are_not(table):
    columns = learn_columns(table, "price", ignore=["mood"])
    described = describe_columns(columns, None)
    assert all(column.values is None for column in described)
    assert described[0].treatment.startswith("numbers. Empty cells count as the median")


def test_sizes_are_counted_alike_before_and_after_pruning(regression, tmp_path):
    """By `prune`, by `info`, and by the report."""
    small = tmp_path / "small.scalemix"
    told = run("prune", regression.model, "-o", small, "--threshold", "30", "--yes", "--json").json
    num = told["num_members"]
    for place, path in enumerate((regression.model, small)):
        stored = run("info", path, "--json").json["num_parameters"]
        sizes = find_sizes(read_model(path).posterior, None)
        assert stored == sizes.stored[0] == told["num_stored"][place] / num
        assert sizes.parameters[0] == round(told["num_parameters"][place] / num)
    before, after = (round(each / num) for each in told["num_parameters"])
    assert after < before
    said = f"from {before:,} parameters of each network to {after:,}"
    assert said in run("info", small).out
    assert "pruned" not in run("info", regression.model).out
    # Pruned again, it remembers how it began.
    again = tmp_path / "smaller.scalemix"
    run("prune", small, "-o", again, "--threshold", "30", "--yes")
    assert f"from {before:,} parameters" in run("info", again).out
