"""Fits to files that need not fit into memory."""

import gc
import os
import sys
import weakref

import jax
import numpy as np
import pytest

import scalemix as sx
from scalemix.data.streams import BatchStream
from scalemix.data.windows import _Window
from tests.fitting.test_from_batches import EM, KEY, MODEL, NUM, SIZE, X, Y

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

NAMES = ["a", "b", "c"]


def table(rows=slice(None)):
    columns = {name: X[rows, i] for i, name in enumerate(NAMES)}
    return pa.table(columns | {"y": Y[rows]})


@pytest.fixture
def folder(tmp_path):
    """Three files, of which one is of another kind, and row groups of four."""
    (tmp_path / "deep").mkdir()
    parquet.write_table(table(slice(0, 11)), tmp_path / "1.parquet", row_group_size=4)
    parquet.write_table(table(slice(11, 20)), tmp_path / "deep" / "2.pq", row_group_size=4)
    feather.write_feather(
        table(slice(20, 30)), tmp_path / "3.arrow", chunksize=4, compression="uncompressed"
    )
    (tmp_path / "_SUCCESS.parquet").write_bytes(b"not a table")
    return tmp_path


def open_(source, **settings):
    settings = {"target": "y", "batch_size": SIZE, "key": KEY, "window": 9} | settings
    return sx.data.open_batches(source, **settings)


def rows_of(batches):
    """The number of each row, by its target."""
    places = {y: i for i, y in enumerate(Y.tolist())}
    return [places[y] for _, ys in batches for y in ys.tolist()]


@pytest.mark.parametrize("size", [1, 4, 7, 10, 30])
@pytest.mark.parametrize("window", [1, 9, 100])
def test_each_pass_visits_every_row_once_in_another_order(folder, size, window):
    batches = open_(folder, batch_size=size, window=window)
    orders = [rows_of(batches.epoch(number)) for number in range(3)]
    assert all(sorted(order) == list(range(NUM)) for order in orders)
    assert len({tuple(order) for order in orders}) == 3
    assert {len(y) for _, y in list(batches)[:-1]} <= {size}
    assert len(list(batches)) == len(batches)
    for x, y in batches:
        np.testing.assert_array_equal(x, X[rows_of([(x, y)])])
    # The same key and the same pass give the same rows, from any batch on.
    again = open_(folder, batch_size=size, window=window)
    assert rows_of(again.epoch(2)) == orders[2]
    for first in range(len(batches) + 1):
        assert rows_of(again.epoch(2, first)) == orders[2][first * size :]
    assert rows_of(open_(folder, key=jax.random.key(1))) != orders[0]


def test_windows_bound_how_far_rows_move(folder):
    """The rows of a window come from its row groups, of at most four rows, alone."""
    order = rows_of(open_(folder, window=8).epoch(0))
    groups = [0, 4, 8, 11, 15, 19, 20, 24, 28, 30]
    near = [np.searchsorted(groups, row, side="right") for row in order[:8]]
    assert len(set(near)) <= 4
    assert rows_of(open_(folder, key=None).epoch(5)) == [
        *range(11), *range(20, 30), *range(11, 20)
    ]  # fmt: skip


def test_few_windows_are_in_memory_at_a_time(folder, monkeypatch):
    """They go when they have been read, not when Python looks for what can go."""
    windows = weakref.WeakSet()
    most = 0
    init = _Window.__init__

    def made(self, *arguments):
        nonlocal most
        init(self, *arguments)
        windows.add(self)
        most = max(most, len(windows))

    monkeypatch.setattr(_Window, "__init__", made)
    gc.disable()
    try:
        num = sum(1 for _ in open_(folder, window=5, batch_size=5, threads=1))
    finally:
        gc.enable()
    assert num == 6
    assert 0 < most <= 3
    assert not windows


def test_arrays_on_disk_are_as_good(tmp_path):
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", Y)
    for source in (tmp_path / "x.npy", np.load(tmp_path / "x.npy", mmap_mode="r")):
        batches = open_(source, target=tmp_path / "y.npy", weight=np.arange(1.0, NUM + 1))
        assert sorted(rows_of((x, y) for x, y, _ in batches)) == list(range(NUM))
        for x, y, weight in batches.epoch(1):
            rows = rows_of([(x, y)])
            np.testing.assert_array_equal(x, X[rows].astype(np.float32))
            np.testing.assert_array_equal(weight, 1.0 + np.array(rows))
    several = open_({"u": X, "v": Y}, target=Y)
    assert {name: part.shape for name, part in next(iter(several))[0].items()} == {
        "u": (SIZE, 3), "v": (SIZE,)
    }  # fmt: skip


def test_a_fit_from_disk_is_the_fit_to_the_same_batches(folder, tmp_path):
    """Read ahead in threads, standardised in one pass; and resumed without what is done."""
    batches = open_(folder)
    post = sx.fit_batches(MODEL, batches, EM, key=KEY)
    by_hand = [batch for number in range(3) for batch in batches.epoch(number)]
    expected = sx.fit_batches(MODEL, by_hand[:7], EM, num_rows=70, key=KEY, standardize=False)
    assert expected.history.objective.shape == post.history.objective.shape
    whole = sx.fit(MODEL, X, Y, EM, key=KEY).scaling
    for mine, theirs in zip(post.scaling, whole, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    # Seven steps of ten rows are two passes and a third; all in one list have no other order.
    in_a_list = sx.fit_batches(MODEL, by_hand, EM, num_rows=90, key=KEY, standardize=False)
    raw = sx.fit_batches(MODEL, batches, EM, num_rows=90, key=KEY, standardize=False)
    np.testing.assert_array_equal(raw.predict(X).mean, in_a_list.predict(X).mean)

    def stop(progress):
        if progress.step == 6:
            raise KeyboardInterrupt

    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        sx.fit_batches(MODEL, batches, EM, key=KEY, checkpoint=path, callback=stop)
    resumed = sx.fit_batches(MODEL, batches, EM, key=KEY, checkpoint=path, resume=True)
    np.testing.assert_array_equal(resumed.predict(X).mean, post.predict(X).mean)


def test_double_precision_is_that_of_all_threads(folder):
    """The setting is one of the thread that fits, and others read."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        network, prior = sx.networks.MLP(3, 1, 4, 1, key=KEY), sx.ARD(sx.InverseGamma(3.0, 3.0))
        model = sx.Model(network, prior, sx.likelihoods.Gaussian())
        batches = open_(folder)
        by_hand = [batch for number in range(3) for batch in batches.epoch(number)]
        ours, expected = (
            sx.fit_batches(model, given, EM, num_rows=90, key=KEY, standardize=False)
            for given in (batches, by_hand)
        )
        assert model.dtype == np.float64
        np.testing.assert_array_equal(ours.predict(X).mean, expected.predict(X).mean)


def test_the_first_window_is_let_go(folder):
    stream = BatchStream(open_(folder, window=NUM), None, MODEL, False)
    assert next(iter(open_(folder, window=NUM)))[0].base is not None
    assert all(leaf.base is None for leaf in jax.tree.leaves(stream.first))


def test_rows_are_held_out_once_and_for_all(folder):
    train, held = open_(folder).split(0.3, key=KEY)
    assert (train.num_rows, held.num_rows) == (21, 9)
    left, right = rows_of(train), rows_of(held)
    assert sorted([*left, *right]) == list(range(NUM))
    assert sorted(rows_of(train.epoch(1))) == sorted(left)
    assert rows_of(held.in_order()) == right
    assert sorted(rows_of(train.epoch(1, 1))) != sorted(left)
    with pytest.raises(ValueError, match="leaves a part empty"):
        open_(folder).split(0.001, key=KEY)
    with pytest.raises(ValueError, match="split already"):
        train.split(0.5, key=KEY)


def test_names_of_folders_are_columns(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        parquet.write_table(table(slice(0, 5)), tmp_path / f"year={year}" / "a.parquet")
    with pytest.raises(ValueError, match="column 'year': it holds text"):
        open_(tmp_path)
    assert open_(tmp_path, columns=["a"]).num_rows == 10


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda t: t.drop_columns(["b"]), r"2\.parquet: there is no column 'b', which 1\.parquet"),
        (lambda t: t.append_column("d", t["a"]), r"1\.parquet: there is no column 'd', which 2"),
        (
            lambda t: t.set_column(1, "b", t["b"].cast(pa.string())),
            r"2\.parquet, column 'b': it holds text \(string\), and in 1\.parquet numbers",
        ),
        (lambda t: t.rename_columns(["a", "a", "c", "y"]), "two columns with the name 'a'"),
    ],
)
def test_files_that_differ_are_named(tmp_path, spoil, message):
    parquet.write_table(table(), tmp_path / "1.parquet")
    parquet.write_table(spoil(table()), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=message):
        open_(tmp_path)


@pytest.mark.parametrize(("value", "says"), [(None, "is missing"), (np.nan, "it is nan")])
def test_a_row_with_a_gap_is_named(tmp_path, value, says):
    columns = {name: X[:, i].tolist() for i, name in enumerate(NAMES)} | {"y": Y.tolist()}
    columns["b"][17] = value
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=4)
    with pytest.raises(ValueError, match=rf"a\.parquet, row 18, column 'b': .*{says}"):
        sx.fit_batches(MODEL, open_(tmp_path), EM, key=KEY)
    x = X.copy()
    x[17, 1] = np.nan
    with pytest.raises(ValueError, match="x is not finite at row 17"):
        list(open_(x, target=Y))


def test_files_that_cannot_be_read_are_refused(tmp_path, folder, monkeypatch):
    whole = (folder / "1.parquet").read_bytes()
    path = tmp_path / "growing.parquet"
    path.write_bytes(whole[:-20])
    with pytest.raises(ValueError, match=r"growing\.parquet: it cannot be read .*still be written"):
        open_(path)
    path.write_bytes(whole)
    batches = open_(path)
    os.utime(path, (0, 0))
    with pytest.raises(ValueError, match="written to after it was opened"):
        list(batches)
    empty = tmp_path / "none"
    empty.mkdir()
    for source, settings, message in (
        (tmp_path / "nowhere", {}, "no such file or folder"),
        (empty, {}, "has no files that end in"),
        (folder, {"target": "z"}, "there is no column 'z'. There are: 'a'"),
        (folder, {"batch_size": 0}, "batch_size must be"),
        (folder, {"columns": []}, "nothing to predict 'y' from"),
        (X, {"target": Y[:5]}, r"y has the shape \(5,\), and x has 30 rows"),
        (X, {"target": Y, "columns": ["a"]}, "arrays have no names"),
        (tmp_path / "no.npy", {"target": Y}, "no such file"),
    ):
        with pytest.raises(ValueError, match=message):
            open_(source, **settings)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r'pip install "scalemix\[parquet\]"'):
        open_(folder)


def test_a_bar_counts_rows_and_bytes(folder, capsys):
    sx.fit_batches(MODEL, open_(folder), EM, key=KEY, progress=True)
    said = capsys.readouterr().err
    assert "70.0/70.0" in said
    assert "row/s" in said
    assert "read=" in said
    sx.fit_batches(MODEL, [(X[:SIZE], Y[:SIZE])], EM, num_rows=SIZE, key=KEY, progress=True)
    assert "step/s" in capsys.readouterr().err


def test_large_arrays_are_arrays(monkeypatch):
    monkeypatch.setattr("scalemix.data.pages.LEAST_BYTES", 1)
    from scalemix.data.pages import empty

    array = empty((5, 3), np.float32)
    array[:] = np.arange(15).reshape(5, 3)
    assert (array.dtype, array.shape, array.flags.writeable) == (np.float32, (5, 3), True)
    assert array.sum() == 105
    assert sorted(rows_of(open_(X, target=Y))) == list(range(NUM))


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("is_split", [True, False])
@pytest.mark.parametrize(
    ("likelihood", "bad", "says"),
    [
        (sx.likelihoods.LogNormal(), -2.0, "the targets of LogNormal are above 0"),
        (sx.likelihoods.Poisson(), -1, "which Poisson gives no probability"),
        (sx.likelihoods.Poisson(), 2**40, "Poisson counts no further"),
    ],
)
def test_a_target_that_cannot_be_is_named_with_its_file_and_row(
    tmp_path, likelihood, bad, says, is_split, standardize
):
    y = np.arange(1, NUM + 1, dtype=type(bad))
    y[17] = bad
    for first, last in ((0, 10), (10, NUM)):
        columns = {"a": X[first:last, 0], "y": y[first:last]}
        parquet.write_table(pa.table(columns), tmp_path / f"{first}.parquet", row_group_size=4)
    np.save(tmp_path / "x.npy", X[:, :1])
    np.save(tmp_path / "y.npy", y)
    model = sx.Model(
        sx.networks.MLP(1, "scalar", 4, 1, key=KEY), sx.ARD(sx.HalfCauchy(1.0)), likelihood
    )
    for source, target, place in (
        # Rows of files are counted as people do, those of arrays as arrays do.
        (tmp_path, "y", r"10\.parquet, row 8"),
        (tmp_path / "x.npy", tmp_path / "y.npy", "row 17"),
    ):
        batches = open_(source, target=target)
        if is_split:
            held_out = np.array([2, 12, 16, 20])
            batches = batches.without(held_out)
        with pytest.raises(
            ValueError, match=rf"^y is {int(bad)} at .*{place}[:,] {says}"
        ) as raised:
            sx.fit_batches(model, batches, EM, key=KEY, standardize=standardize)
        assert "Batch" not in str(raised.value)


def test_a_row_of_weight_zero_is_not_the_one_that_is_named(tmp_path):
    y, weight = np.abs(Y) + 1, np.ones(NUM)
    y[[3, 17]], weight[3] = -2.0, 0.0
    model = sx.Model(MODEL.network, MODEL.structures, sx.likelihoods.LogNormal())
    batches = open_(X, target=y, weight=weight)
    with pytest.raises(ValueError, match="y is -2 at row 17"):
        sx.fit_batches(model, batches, EM, key=KEY)
