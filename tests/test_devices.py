"""Fits, chains and predictions on several devices, which a process of their own has."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import scalemix as sx
from scalemix._mesh import check_mesh, mesh_of, own_places
from scalemix.inference.layout import Layout
from scalemix.recipes import Recipe
from tests.devices_script import METHOD, build, tables

COLLECTIVE = re.compile(r"\b(all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)")
# Programs along members only: of five fits, or three chains, on two and on four devices.
ALONG_MEMBERS = (2, 3)


def run(folder: Path, *arguments: str) -> None:
    """Let a process with four devices leave there what it finds, and the programs that it runs."""
    subprocess.run(
        [sys.executable, "-m", "tests.devices_script", folder, *arguments], check=True,
        env=os.environ | {"JAX_NUM_CPU_DEVICES": "4"}, cwd=Path(__file__).parent.parent,
        timeout=600,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("devices")
    run(folder)
    return folder


@pytest.fixture(scope="module")
def results(folder) -> dict[str, dict[str, np.ndarray]]:
    return read(folder)


def read(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """What the process wrote."""
    parts: dict[str, dict[str, np.ndarray]] = {}
    with np.load(folder / "results.npz") as file:
        for name in file.files:
            part, _, what = name.partition("/")
            parts.setdefault(part, {})[what] = file[name]
    return parts


@pytest.fixture(scope="module")
def programs(folder) -> list[tuple[str, int, str]]:
    """Name, number of devices and text of each program."""
    texts = []
    for name, text in json.loads((folder / "programs.json").read_text()):
        devices = re.search(r"num_partitions=(\d+)", text)
        texts.append((name, int(devices[1]) if devices else 1, text))
    return texts


@pytest.mark.parametrize("devices", ["2", "4", "2x2", "resumed"])
def test_training_draws_the_same_numbers_on_any_number_of_devices(results, devices):
    one, several = results["train 1"], results[f"train {devices}"]
    for name in ("draws", "rows"):
        np.testing.assert_array_equal(several[name], one[name])
    assert len(np.unique(one["draws"])) == one["draws"].size
    for name, values in one.items():
        np.testing.assert_allclose(several[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


def test_chains_take_the_same_steps_on_any_number_of_devices(results):
    np.testing.assert_array_equal(results["sample 4"]["leaps"], results["sample 1"]["leaps"])
    positions = [results[f"sample {devices}"]["positions"] for devices in ("1", "4")]
    np.testing.assert_allclose(*positions, rtol=1e-4, atol=1e-5)


def test_predictions_are_the_same_on_any_number_of_devices(results):
    for name, values in results["predict 1"].items():
        np.testing.assert_allclose(results["predict 2x2"][name], values, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_whatever_can_be_fitted_is_the_same_on_any_number_of_devices(tmp_path):
    run(tmp_path, "other")
    results = read(tmp_path)
    for devices in ("4", "2x2"):
        for name, values in results["other 1"].items():
            several = results[f"other {devices}"][name]
            np.testing.assert_allclose(several, values, rtol=1e-3, atol=1e-4, err_msg=name)
    assert b"Training of model 2 diverged at step" in results["other 4"]["told"].tobytes()


def test_nothing_is_sent_along_members(programs):
    alone = [(name, text) for name, devices, text in programs if devices in ALONG_MEMBERS]
    assert {"jit_run_chunk", "jit__run_chunk", "jit_mean_log_probs"} <= {name for name, _ in alone}
    assert not [name for name, text in alone if COLLECTIVE.search(text)]
    # The rows of a batch have sums in common.
    (shared,) = [t for name, devices, t in programs if (name, devices) == ("jit_run_chunk", 4)]
    assert "all-reduce" in shared


def test_one_device_of_a_mesh_runs_the_program_that_there_is_without_one(programs):
    assert len([1 for name, num, _ in programs if (name, num) == ("jit_run_chunk", 1)]) == 1


def test_each_device_has_the_data_sets_that_its_members_read(results):
    np.testing.assert_array_equal(results["sets"]["read"], results["sets"]["given"])
    # Three devices with two members each: the first reads two of the sets, the others one or two.
    assert results["sets"]["held"].tolist() == [0, 2, 2, 2, 1, 1]


def test_members_keep_as_many_devices_busy_as_there_must_be():
    device = jax.devices()[0]
    four = Mesh(np.array([device] * 4), ("members",))
    layouts = {num: Layout.over(check_mesh(four), num) for num in (1, 2, 4, 5, 7, 8)}
    used = {num: 1 if one.mesh is None else one.mesh.size for num, one in layouts.items()}
    assert used == {1: 1, 2: 2, 4: 4, 5: 3, 7: 4, 8: 4}
    assert {num: one.members.tolist() for num, one in layouts.items() if num > 4} == {
        5: [0, 1, 2, 3, 4, 4], 7: [0, 1, 2, 3, 4, 5, 6, 6], 8: [*range(8)],
    }  # fmt: skip
    assert layouts[1].mesh is None


@pytest.mark.parametrize(
    ("processes", "own"),
    [
        ([[0], [0], [1], [2]], [0, 1]),
        ([[1], [0], [1], [0]], [1, 3]),
        ([[0, 1], [2, 3]], [0]),
        # The first two share rows with process 1, which shares rows with process 2.
        ([[0, 1], [1, 2], [3, 3], [2, 4]], [0, 1, 3]),
    ],
)
def test_a_process_runs_its_own_places_and_those_that_share_rows_with_it(processes, own):
    devices = [[SimpleNamespace(process_index=number) for number in row] for row in processes]
    assert own_places(cast(Mesh, SimpleNamespace(devices=np.array(devices)))).tolist() == own


def test_a_mesh_has_both_axes_in_one_order():
    device = jax.devices()[0]
    mesh = check_mesh(Mesh(np.array([[device] * 3] * 2), ("data", "members")))
    assert mesh is not None
    assert dict(mesh.shape) == {"members": 3, "data": 2}
    rows = check_mesh(Mesh(np.array([device] * 2), ("data",)))
    assert rows is not None
    assert dict(rows.shape) == {"members": 1, "data": 2}


@pytest.mark.parametrize(
    ("mesh", "reason"),
    [
        (2, "mesh must be a jax.sharding.Mesh, such as jax.make_mesh.*got 2"),
        (Mesh(np.array(jax.devices()[:1]), ("batch",)), "'members', 'data' or both, got.*'batch'"),
    ],
)
def test_other_meshes_are_refused(mesh, reason):
    (x, *_), (y, *_) = tables(1)
    with pytest.raises(ValueError, match=reason):
        sx.fit(build(), x, y, METHOD, key=jax.random.key(0), mesh=mesh)


def test_more_devices_than_there_are_are_refused():
    with pytest.raises(ValueError, match="JAX_NUM_CPU_DEVICES=99 in the environment"):
        mesh_of(99)
    (x, *_), (y, *_) = tables(1)
    with pytest.raises(ValueError, match=r"devices=99: there is only 1 here"):
        Recipe(devices=99).fit(x, y, key=jax.random.key(0))
