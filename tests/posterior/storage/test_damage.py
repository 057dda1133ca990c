"""A file that is not what was written gives one clear `ValueError`, and never anything else."""

import copy
import json
import re
import struct

import joblib
import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scalemix as sx
from scalemix import likelihoods
from scalemix.posterior import networks, storage
from scalemix.posterior.networks import (
    GaussianNetworks,
    NoisyNetworks,
    OneNetwork,
    SampledNetworks,
)
from scalemix.posterior.storage import classes, container
from tests.mixtures.cases import CASES
from tests.posterior.storage import cases
from tests.posterior.storage.cases import X, assert_same, ensemble, noisy

ATTEMPTS = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def saved(folder):
    """An ensemble, which has something of everything: its posterior, and the file of it."""
    posterior, path = ensemble(2), folder / "good.scalemix"
    posterior.save(path, metadata={"features": ["a", "b", "c"]})
    return posterior, path


def assert_refused(path):
    with pytest.raises(ValueError, match="cannot be loaded: ") as error:
        sx.load(path)
    assert str(error.value).startswith(str(path))
    return str(error.value)


def result_of(read, path):
    """What reading gives: the result, or the words of a `ValueError`; all else goes through."""
    try:
        return read(path)
    except ValueError as error:
        return str(error)


# ----------------------------------------------------------------------------------- bytes changed


@ATTEMPTS
@given(st.data())
def test_changed_bytes_are_noticed_or_mean_nothing(saved, folder, data):
    posterior, good = saved
    content = bytearray(good.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        # Half of the hits go to the header, which is the smaller part.
        start = 8 + struct.unpack("<Q", content[:8])[0] if len(content) > 8 else 0
        end = data.draw(st.sampled_from([min(start, len(content)), len(content)]))
        place = data.draw(st.integers(0, max(end - 1, 0)))
        change = data.draw(st.sampled_from(["flip", "cut", "insert", "delete", "zero"]))
        if change == "flip" and content:
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        elif change == "cut":
            del content[place:]
        elif change == "insert":
            content[place:place] = data.draw(st.binary(min_size=1, max_size=20))
        elif change == "delete":
            del content[place : place + data.draw(st.integers(1, 20))]
        else:
            content[place : place + 8] = bytes(len(content[place : place + 8]))
    path = folder / "changed.scalemix"
    path.write_bytes(content)
    for read in (sx.load, storage.info):
        result = result_of(read, path)
        if isinstance(result, str):
            assert result.startswith(f"{path} cannot be loaded: ")
        elif read is sx.load:
            assert_same(posterior, result)


@ATTEMPTS
@given(st.binary(max_size=300))
def test_any_bytes_are_refused(folder, content):
    path = folder / "any.scalemix"
    path.write_bytes(content)
    assert_refused(path)
    with pytest.raises(ValueError, match="cannot be loaded: it is not a "):
        storage.info(path)


def test_every_cut_is_refused(saved, folder):
    content = saved[1].read_bytes()
    path = folder / "cut.scalemix"
    for end in [*range(40), *range(40, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:end])
        assert_refused(path)


# ---------------------------------------------------------- headers changed, with digests that fit


def parts_of(path):
    header, arrays = container.read(path)
    header = {name: value for name, value in header.items() if name != "arrays"}
    return header, arrays


def places(node, path=()):
    """The paths of all that a JSON tree holds."""
    if path:
        yield path
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in items:
        yield from places(value, (*path, key))


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 5),
    st.sampled_from([2**31, 2**63, 10**25, -(10**400), 10**400]),
    st.sampled_from([0.0, -0.0, 1e-320, 1e308, -1.5, 1e39]),
    st.sampled_from(["", "inf", "nan", "-inf", "scalar", "MLP", "network", "é", "é" * 99]),
    st.sampled_from(["ARD", "ADD", "HalfCauchy", "LogUniform", "Gaussian", "Categorical", "eval"]),
    st.sampled_from([[], {}, [[]], [1, 2], {"class": "ARD"}, {"values": 1.0, "dtype": "float32"}]),
)  # fmt: skip


@ATTEMPTS
@given(st.data())
def test_headers_that_make_no_sense_are_refused(saved, folder, data):
    """Whatever loads nevertheless is a posterior that takes the inputs of the saved one."""
    header, arrays = copy.deepcopy(parts_of(saved[1]))
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.sampled_from(list(places(header))))
        node = header
        for key in place[:-1]:
            node = node[key]
        action = data.draw(st.sampled_from(["replace", "replace", "delete", "copy"]))
        if action == "delete":
            del node[place[-1]]
        elif action == "replace" or not isinstance(node, dict):
            # A copy, for the next change may be made inside it.
            node[place[-1]] = copy.deepcopy(data.draw(ODD))
        else:
            node[data.draw(st.sampled_from(["class", "extra", "values", "in"]))] = node[place[-1]]
    path = folder / "odd.scalemix"
    container.write(path, header, arrays)
    for read in (sx.load, storage.info):
        result = result_of(read, path)
        if isinstance(result, str):
            assert result.startswith(f"{path} cannot be loaded: ")
        elif read is sx.load:
            assert repr(result)
            result.predict(X)


@ATTEMPTS
@given(st.data())
def test_arrays_that_do_not_fit_are_refused(saved, folder, data):
    header, arrays = parts_of(saved[1])
    arrays = dict(arrays)
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    change = data.draw(st.sampled_from(["drop", "shape", "grow", "empty", "type", "rename"]))
    if change == "drop":
        del arrays[name]
    elif change == "shape":
        arrays[name] = array[None]
    elif change == "grow":
        arrays[name] = np.concatenate([array, array])
    elif change == "empty":
        arrays[name] = np.zeros((0, 2**40), array.dtype)
    elif change == "type":
        arrays[name] = np.zeros(
            array.shape, data.draw(st.sampled_from([np.int8, np.float64, bool]))
        )
    else:
        arrays[f"{name}s"] = arrays.pop(name)
    path = folder / "unfit.scalemix"
    container.write(path, header, arrays)
    # History may be of any length and type, and NumPy keeps it as it is.
    harmless = name.startswith(("history.", "scaling.")) and change in ("type", "grow", "shape")
    if not harmless:
        assert_refused(path)


def structure(header):
    return header["structures"]["layers.0"]


def several(header, num):
    return {"class": "Independent", "likelihood": header["likelihood"], "num_targets": num}


def tampered(saved, folder, change):
    header, arrays = copy.deepcopy(parts_of(saved[1]))
    arrays = dict(arrays)
    change(header, arrays)
    path = folder / "tampered.scalemix"
    container.write(path, header, arrays)
    return assert_refused(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda h, a: structure(h)["mixture"]["scale"].update(values=[1.0, "nan"]),
            "HalfCauchy: scale must be positive",
        ),
        (lambda h, a: h["scaling"].update(y_scale=0.0), "means and scales"),
        (lambda h, a: a.update({"scaling.x_mean": np.full(3, np.nan)}), "means and scales"),
        (lambda h, a: a.update({"scaling.x_mean": np.zeros(2)}), "means and scales"),
        (
            lambda h, a: a.update(
                {f"scaling.x_{n}": np.ones(2) for n in ("mean", "scale")}
                | {"scaling.x_ends": np.zeros((2, 2))}
            ),
            r"does not take an example of shape \(2,\)",
        ),
        (lambda h, a: a.update({"scaling.x_ends": np.zeros((2, 2))}), "the ends of its data"),
        (lambda h, a: a.update({"scaling.x_ends": np.diag([1.0, 1, 1])[:2]}), "the ends of"),
        (lambda h, a: h.update(num_members=10**12), "one entry for each of 1000000000000 members"),
        (lambda h, a: h.update(num_members=0), "0 members"),
        (lambda h, a: h.update(kind="Posterior"), "this version knows GaussianN"),
        (lambda h, a: h["likelihood"].update(floor=-1.0), "floor must not be negative"),
        (
            lambda h, a: h["likelihood"]["raw_scale"].update(values=["nan", 1.0]),
            "raw_scale of Gaussian is no finite number",
        ),
        (
            lambda h, a: h.update(likelihood={"class": "Categorical", "num_classes": 10**9}),
            "Categorical needs 1000000000 outputs",
        ),
        (lambda h, a: h.update(likelihood=several(h, 10**9)), "one number for each member"),
        (lambda h, a: h.update(likelihood=several(h, -1)), "one number for each member"),
        (lambda h, a: h.update(likelihood=several(h, 1)), "entry 'y_mean' is 5.1"),
        (
            lambda h, a: structure(h).update({"class": "os.system"}),
            "names the structure 'os.system', which scalemix has not",
        ),
        (
            lambda h, a: structure(h).update(base={"class": "HalfCauchy", "scale": 1.0}),
            "names the base 'HalfCauchy', which scalemix has not",
        ),
        (lambda h, a: structure(h).update(base=3.0), "base must be one of scalemix.bases"),
        (lambda h, a: structure(h).update(by="os.system"), "by must be one of"),
        (lambda h, a: structure(h).update(by=[1]), "by"),
        (
            lambda h, a: h["structures"].update({"layers.7": structure(h)}),
            "The prior stands on 'layers.7', which is no layer",
        ),
        (
            lambda h, a: h["network"]["build"]["layers"][0].update({"out": 10**15}),
            r"the shape \(5, 3\) in the file and \(1000000000000000, 3\)",
        ),
        (lambda h, a: h["network"]["build"].update(activation="open"), "the activation 'open'"),
        (lambda h, a: h["key"].update(data=[1, 2**40]), "its key is none"),
        (lambda h, a: h["key"].update(generator="mine"), "generator 'mine'"),
        (lambda h, a: h["parts"].pop("deviations"), "arrays are a dict of deviations, variances"),
    ],
)  # fmt: skip
def test_the_reason_is_given(saved, folder, change, reason):
    assert re.search(reason, tampered(saved, folder, change))


# ------------------------------------------------------------------------------------ other files


def test_newer_files_say_so(saved, folder):
    content = saved[1].read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    outer = json.loads(content[8 : 8 + length])
    sealed = json.loads(outer["__metadata__"]["scalemix"])
    outer["__metadata__"]["scalemix"] = json.dumps(sealed | {"version": "2"})
    text = json.dumps(outer).encode()
    path = folder / "newer.scalemix"
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
    assert "of version 2 of the format" in assert_refused(path)
    with pytest.raises(ValueError, match="Upgrade scalemix"):
        storage.info(path)


def test_files_of_others_are_refused(folder):
    path = folder / "foreign.scalemix"
    with path.open("wb") as file:
        np.savez(file, a=np.zeros(3))
    assert "not a file that scalemix wrote" in assert_refused(path)
    joblib.dump({"a": np.zeros(3)}, path)
    assert "a pickle, such as joblib.dump makes" in assert_refused(path)
    safetensors.numpy.save_file({"a": np.zeros(3)}, path, {"format": "pt"})
    assert "not a file that scalemix wrote" in assert_refused(path)
    deep = b'{"__metadata__":' + b"[" * 100_000
    path.write_bytes(struct.pack("<Q", len(deep)) + deep)
    assert_refused(path)
    # A length that no memory holds is never asked for.
    path.write_bytes(struct.pack("<Q", 2**63) + b"{}")
    assert_refused(path)


def test_what_is_no_file(folder):
    assert "it is not a file" in assert_refused(folder)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sx.load(folder / "nowhere.scalemix")


def test_nothing_is_imported_by_name():
    """The tables are all there is: a name that is not in them goes nowhere."""
    assert classes.STRUCTURE_CLASSES.keys() == {"ADD", "ARD", "ARDADD", "DropConnect"}
    assert {
        type(c.mixture).__name__: type(c.mixture) for c in CASES.values()
    } == classes.MIXTURE_CLASSES
    named = {name: getattr(likelihoods, name) for name in likelihoods.__all__}
    kinds = {n: kind for n, kind in named.items() if isinstance(kind, type) and n != "Likelihood"}
    assert kinds == classes.LIKELIHOOD_CLASSES
    assert {
        kind.__name__: kind
        for kind in (GaussianNetworks, NoisyNetworks, OneNetwork, SampledNetworks)
    } == classes.NETWORKS_CLASSES


def test_a_class_from_elsewhere_is_in_no_table_whatever_its_name():
    class NoisyNetworks(networks.NoisyNetworks):
        pass

    class Gaussian(likelihoods.Gaussian):
        pass

    room = "scalemix.posterior.networks"
    assert classes.classes_in(room, networks.Networks) == classes.NETWORKS_CLASSES
    assert NoisyNetworks not in classes.NETWORKS_CLASSES.values()
    room = "scalemix.likelihoods"
    assert classes.classes_in(room, likelihoods.Likelihood) == classes.LIKELIHOOD_CLASSES
    assert Gaussian not in classes.LIKELIHOOD_CLASSES.values()


def test_saved_files_load(saved, folder):
    """The other side of every refusal above: rewritten as it was, the file is accepted."""
    header, arrays = parts_of(saved[1])
    path = folder / "again.scalemix"
    container.write(path, header, arrays)
    assert_same(saved[0], sx.load(path))
    assert path.read_bytes() == saved[1].read_bytes()
    noisy().save(path)
    assert_same(cases.noisy(), sx.load(path))
