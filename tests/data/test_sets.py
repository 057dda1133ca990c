from pathlib import Path

import numpy as np
import pytest

import scalemix as sx

SIZES = {
    "boston": (506, 13), "concrete": (1030, 8), "energy": (768, 8), "kin8nm": (8192, 8),
    "power": (9568, 4), "wine": (1599, 11), "yacht": (308, 6),
}  # fmt: skip
# Where the published files lie beside the checkout, the package's data are compared with them.
PUBLISHED = Path(__file__).parents[3] / "shared" / "uci"
FOLDERS = {"boston": "bostonHousing", "power": "power-plant", "wine": "wine-quality-red"}
ROUNDED = {"concrete": 0.051, "energy": 0.0051}


@pytest.mark.parametrize("name", SIZES)
def test_sets_are_complete(name):
    data = sx.data.load(name)
    assert data.x.shape == SIZES[name]
    assert data.y.shape == SIZES[name][:1]
    assert len(data.feature_names) == SIZES[name][1]
    assert np.isfinite(data.x).all()
    assert data.y.std() > 0
    assert set(SIZES) == set(sx.data.NAMES)


@pytest.mark.parametrize("name", SIZES)
def test_splits_are_partitions(name):
    num = SIZES[name][0]
    pairs = sx.data.splits(num)
    assert len(pairs) == 20
    for train, test in pairs:
        assert len(train) == round(0.9 * num)
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(num))
    assert not np.array_equal(pairs[0][1], pairs[1][1])


def test_splits_leave_the_global_generator_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    sx.data.splits(50)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_the_first_split_of_yacht():
    """Enough of the published file to know it by."""
    test = sx.data.splits(308)[0][1]
    assert test[:8].tolist() == [121, 115, 286, 216, 264, 209, 1, 22]


@pytest.mark.skipif(
    not PUBLISHED.is_dir(),
    reason="needs the published splits in ../shared/uci (PROVENANCE.md says where they are from)",
)
@pytest.mark.parametrize("name", SIZES)
def test_data_and_splits_are_the_published_ones(name):
    folder = PUBLISHED / FOLDERS.get(name, name) / "data"
    table = np.loadtxt(folder / "data.txt")
    columns = np.loadtxt(folder / "index_features.txt").astype(int)
    target = int(np.loadtxt(folder / "index_target.txt"))
    data = sx.data.load(name)
    tolerance = ROUNDED.get(name, 0.0)
    np.testing.assert_allclose(data.x, table[:, columns], rtol=0, atol=tolerance)
    np.testing.assert_allclose(data.y, table[:, target], rtol=0, atol=tolerance)
    for i, (train, test) in enumerate(sx.data.splits(len(data.y))):
        for part, rows in (("train", train), ("test", test)):
            published = np.loadtxt(folder / f"index_{part}_{i}.txt").astype(int)
            np.testing.assert_array_equal(rows, published)


def test_unknown_sets_are_refused():
    assert sx.data.load("power-plant").name == "power"
    with pytest.raises(ValueError, match=r"no data set .iris.\. There are: boston"):
        sx.data.load("iris")
    with pytest.raises(ValueError, match="two rows or more"):
        sx.data.splits(1)


FILES = {
    "data": "1 2 3\n4 5 6\n7 8 9\n", "index_features": "0 1", "index_target": "2",
    "index_train_0": "0 2", "index_test_0": "1",
}  # fmt: skip


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("index_features", "0 -1", r"index_features\.txt names a row or a column .*: -1"),
        ("index_test_0", "3", r"index_test_0\.txt names a row or a column .*: 3"),
        ("index_train_0", "0 0.5", r"index_train_0\.txt names a row or a column .*: 0\.5"),
        ("data", "1 2 nan\n4 5 6\n7 8 9\n", r"data\.txt is not finite at row 0, column 2"),
        ("index_train_0", None, "no split to use"),
    ],
)
def test_files_in_the_public_layout_are_checked(tmp_path, file, text, reason):
    for name, content in (FILES | {file: text}).items():
        if content is not None:
            (tmp_path / f"{name}.txt").write_text(content)
    with pytest.raises(ValueError, match=reason):
        sx.data.read_public(tmp_path)
