"""A file cannot make its reader take more memory than it is long, nor go beyond stated limits."""

import contextlib
import json
import os
import struct
import tracemalloc
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import scalemix as sx
from scalemix.networks import MLP
from scalemix.posterior import storage
from scalemix.posterior.networks import NoisyNetworks
from scalemix.posterior.posterior import History
from scalemix.posterior.storage import container, skeletons
from tests.posterior.storage import cases
from tests.posterior.storage.cases import KEY, X, assert_same, noisy
from tests.posterior.storage.test_damage import parts_of


@contextlib.contextmanager
def bounded(num_bytes):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < num_bytes
    finally:
        tracemalloc.stop()


def refused(path, reason, num_bytes=2**24, readers=(sx.load, storage.info)):
    for read in readers:
        with bounded(num_bytes), pytest.raises(ValueError, match=reason) as error:
            read(path)
        assert str(error.value).startswith(f"{path} cannot be loaded: ")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.scalemix"


# ------------------------------------------------------------------------------------------ length


def test_six_gibibytes_of_zeros_are_not_read(path):
    with path.open("wb") as file:
        file.truncate(6 * 2**30)
    refused(path, "not a file that scalemix wrote")


def test_bytes_behind_the_arrays_are_not_read(path):
    noisy().save(path)
    size = path.stat().st_size
    os.truncate(path, 6 * 2**30)
    refused(path, f"6,442,450,944 bytes, where {size:,} should be")


def outer_changed(path, change):
    """The file with another header of the format around ours, which needs no digest."""
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    outer = json.loads(content[8 : 8 + length])
    change(outer)
    text = json.dumps(outer).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


NAME = "network.layers.0.weight"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda o: o[NAME].update(data_offsets=[0, 2**40]), "the size that its shape says"),
        (lambda o: o[NAME].update(data_offsets=[-60, 0]), "makes no sense"),
        (lambda o: o[NAME].update(data_offsets="all"), "'data_offsets' is 'all'"),
        (lambda o: o[NAME].update(shape=[2**40, 3]), "not the shape"),
        (lambda o: o[NAME].update(dtype="F64"), "not of the type"),
        (lambda o: o.update({NAME: 3}), "makes no sense"),
        (lambda o: o.pop(NAME), "differ at"),
        (lambda o: o[NAME].update(data_offsets=o[NAME]["data_offsets"][::-1]), "the size"),
    ],
)
def test_arrays_are_where_and_what_the_header_says(path, change, reason):
    noisy().save(path)
    outer_changed(path, change)
    refused(path, reason)


def test_arrays_do_not_share_bytes(path):
    model = noisy()
    model.save(path)

    def overlap(outer):
        one, other = "network.layers.1.weight", NAME
        size = outer[one]["data_offsets"][1] - outer[one]["data_offsets"][0]
        start = outer[other]["data_offsets"][0]
        outer[one]["data_offsets"] = [start, start + size]

    outer_changed(path, overlap)
    refused(path, "do not follow one another")


# ------------------------------------------------------------------------------------------ limits


def test_arrays_have_a_limit(path, monkeypatch):
    noisy().save(path)
    header, arrays = parts_of(path)
    many = arrays | {f"a{i}": np.zeros(0, np.float32) for i in range(10_001)}
    with pytest.raises(ValueError, match="up to 10,000 arrays, and these are 10,0"):
        container.write(path, header, many)
    with monkeypatch.context() as patched:
        patched.setattr(container, "MOST_ARRAYS", 10**6)
        container.write(path, header, many)
    with monkeypatch.context() as patched:
        # Of ours and around it, there are more values than arrays.
        patched.setattr(container, "MOST_VALUES", 20_000)
        refused(path, "more than 20,000 values", 2 * path.stat().st_size)
    refused(path, "more than 10,000", 20 * path.stat().st_size)


def test_values_have_a_limit(path, monkeypatch):
    """Two characters of JSON can take sixty bytes of memory."""
    lists = {"deep": [[] for _ in range(300_000)]}
    with pytest.raises(ValueError, match=r"up to 1,000,000 values.*Save less as metadata"):
        noisy().save(path, metadata=lists | {"more": 3 * lists["deep"]})
    noisy().save(path, metadata=lists)
    assert len(storage.info(path).metadata["deep"]) == 300_000
    monkeypatch.setattr(container, "MOST_VALUES", 10**9)
    noisy().save(path, metadata={"deep": [[] for _ in range(1_000_001)]})
    monkeypatch.undo()
    refused(path, "more than 1,000,000 values", 2 * path.stat().st_size)


def test_layers_have_a_limit_beyond_which_the_network_is_asked_for(path, monkeypatch):
    network = MLP(3, "scalar", 5, 2, key=KEY)
    posterior = noisy(network=network)
    posterior.save(path)
    monkeypatch.setattr(skeletons, "MOST_LAYERS", 2)
    with pytest.raises(ValueError, match=r"3 layers, and files describe up to 2\. Pass network="):
        sx.load(path)
    assert_same(posterior, sx.load(path, network=network))
    posterior.save(path)
    assert storage.info(path).needs_network
    assert_same(posterior, sx.load(path, network=network))


# ---------------------------------------------------------------------------------------- contents


def changed(path, change):
    header, arrays = parts_of(path)
    arrays = dict(arrays)
    change(header, arrays)
    container.write(path, header, arrays)


KINDS = {
    "NoisyNetworks": noisy,
    "GaussianNetworks": lambda: cases.posterior(
        cases.gaussian_networks(cases.build(sx.HalfCauchy(1.0)))
    ),
    "SampledNetworks": lambda: cases.posterior(
        cases.sampled_networks(cases.build(sx.HalfCauchy(1.0))), history=cases.CHAIN_HISTORY
    ),
    "Ensemble": lambda: cases.ensemble(2),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_by_name(kind, bad, path):
    KINDS[kind]().save(path)
    header, arrays = parts_of(path)
    learned = [n for n, a in arrays.items() if a.dtype.kind == "f" and n.split(".")[0] != "history"]
    assert len(learned) >= 6
    for name in learned:
        spoiled = arrays[name].copy()
        spoiled.flat[-1] = bad
        container.write(path, header, arrays | {name: spoiled})
        said = name.removeprefix("network.")
        of_scaling = "(means and scales|ends) of its data are none"
        reason = of_scaling if "scaling" in name else f"{said}' holds {bad}.*no finite"
        with pytest.raises(ValueError, match=reason):
            sx.load(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_not_saved(path, bad):
    where = lambda p: p.networks.model.network.layers[0].weight  # noqa: E731
    posterior = eqx.tree_at(where, noisy(), replace_fn=lambda w: w.at[1, 2].set(bad))
    with pytest.raises(ValueError, match=rf"saved: .*'layers.0.weight' holds {bad} at \[1, 2\]"):
        posterior.save(path)
    assert not path.exists()


class Masked(eqx.Module):
    layer: eqx.nn.Linear
    mask: jax.Array

    def __init__(self, mask):
        self.layer, self.mask = eqx.nn.Linear(3, 1, key=KEY), mask

    def __call__(self, x):
        return self.layer(jnp.maximum(x, self.mask))


def test_a_mask_of_ones_own_may_be_infinite(path):
    mask = jnp.array([-jnp.inf, 0.0, -jnp.inf])
    posterior = cases.posterior(NoisyNetworks(cases.build(network=Masked(mask))))
    posterior.save(path)
    assert_same(posterior, sx.load(path, network=Masked(mask)))
    with pytest.raises(ValueError, match=r"'mask' holds -inf at \[0\]"):
        sx.load(path, network=Masked(jnp.zeros(3)))
    with pytest.raises(ValueError, match="'mask' holds nan"):
        cases.posterior(NoisyNetworks(cases.build(network=Masked(mask * 0)))).save(path)


@pytest.mark.parametrize(
    ("kind", "name", "shape", "reason"),
    [
        ("NoisyNetworks", "objective", (), "'objective' is no series"),
        ("NoisyNetworks", "objective", (7, 2), "one objective for each step"),
        ("NoisyNetworks", "score", (2, 2), "one score for each chunk"),
        ("NoisyNetworks", "recorded.importance_weights", (), "is no series"),
        ("Ensemble", "objective", (2,), "'objective' is no series"),
        ("Ensemble", "score", (3, 1), "one entry for each of 2 members"),
        ("SampledNetworks", "objective", (7,), "one objective for each step"),
        ("SampledNetworks", "objective", (3, 7), "that of 2 chains"),
        ("SampledNetworks", "recorded.acceptance", (2,), "that of 2 chains"),
        ("SampledNetworks", "recorded.acceptance", (3, 3), "that of 2 chains"),
    ],
)
def test_histories_of_odd_shapes_are_refused(kind, name, shape, reason, path):
    KINDS[kind]().save(path)
    changed(path, lambda h, a: a.update({f"history.{name}": np.zeros(shape, np.float32)}))
    with pytest.raises(ValueError, match=reason):
        sx.load(path)


def test_an_empty_history_is_one(path):
    empty = History(np.zeros(0, np.float32), np.zeros(0, np.float32), {})
    posterior = cases.posterior(NoisyNetworks(cases.build()), history=empty)
    posterior.save(path)
    assert_same(posterior, sx.load(path))


def test_probes_of_chains_are_inputs(path):
    KINDS["SampledNetworks"]().save(path)
    changed(path, lambda h, a: a.update(probes=np.zeros((2, 4), np.float32)))
    with pytest.raises(ValueError, match=r"does not take an example of shape \(4,\)"):
        sx.load(path)


# ---------------------------------------------------------------------------------------- versions


def test_files_say_with_which_versions_they_were_written_and_load_under_others(path):
    posterior = noisy()
    posterior.save(path)
    told = storage.info(path).versions
    assert told.keys() >= {"python", "scalemix", "jax", "jaxlib", "numpy", "equinox", "optax"}
    assert told["jax"] == jax.__version__
    changed(path, lambda h, a: h["versions"].update(jax="0.0.1", python="2.7"))
    assert storage.info(path).versions["jax"] == "0.0.1"
    assert_same(posterior, sx.load(path))
    np.testing.assert_array_equal(posterior.predict(X).mean, sx.load(path).predict(X).mean)
    changed(path, lambda h, a: h["versions"].update(jax=3))
    with pytest.raises(ValueError, match="'jax' is 3"):
        storage.info(path)


def test_the_documentation_states_the_limits():
    said = (Path(__file__).parents[3] / "docs" / "limits.md").read_text()
    for row in (
        f"| arrays in a model file | {container.MOST_ARRAYS:,} |",
        f"| values of JSON in it, metadata included | {container.MOST_VALUES:,} |",
        f"| its header | {container.LARGEST_HEADER:,} bytes |",
        f"| layers of a network that `load` builds by itself | {skeletons.MOST_LAYERS:,} |",
    ):
        assert row in said
