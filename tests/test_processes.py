"""Several processes with devices of their own train one ensemble: examples/cluster.py."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import scalemix as sx

SCRIPT = Path(__file__).parent.parent / "examples" / "cluster.py"
# What the script says of how long the others wait for a process that is dead.
TIMEOUT = int(re.findall(r"^TIMEOUT = (\d+)$", SCRIPT.read_text(), re.MULTILINE)[0])


def start(folder: Path, num: int, steps: int) -> list[subprocess.Popen[str]]:
    """So many processes with two devices each."""
    place = free_place()
    return [
        python(
            SCRIPT, "--coordinator", place, "--num-processes", num, "--process-id", i,
            "--output", folder / "model.scalemix", "--steps", steps,
        )
        for i in range(num)
    ]  # fmt: skip


def free_place() -> str:
    """Where processes can find one another."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


def python(*arguments: object) -> subprocess.Popen[str]:
    """A process with two devices."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)], env=os.environ | {"JAX_NUM_CPU_DEVICES": "2"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=SCRIPT.parent.parent,
    )  # fmt: skip


def finish(processes: list[subprocess.Popen[str]]) -> list[str]:
    """What each of them printed, all of them having come to a good end."""
    told = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes), told
    # The processes' connections are announced too.
    return [out.strip().splitlines()[-1] for out, _ in told]


def test_two_processes_train_one_ensemble_and_the_first_writes_it(tmp_path):
    first, second = finish(start(tmp_path, 2, 20))
    assert re.fullmatch(r"4 devices, 2 processes: -\d\.\d+ nats a row", first)
    assert "nats" not in second
    assert len(sx.load(tmp_path / "model.scalemix").members) == 8


def test_members_of_two_processes_draw_and_come_back_as_those_of_one():
    place = free_place()
    processes = [python("-m", "tests.processes_script", place, i) for i in range(2)]
    told = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], told


@pytest.mark.slow
def test_a_run_whose_process_was_killed_goes_on_in_one(tmp_path):
    steps, whole, cut = 1000, tmp_path / "whole", tmp_path / "cut"
    processes = start(cut, 2, steps)
    end = time.monotonic() + 300
    while not (cut / "model.checkpoint").exists():
        assert processes[1].poll() is None
        assert time.monotonic() < end, "There is no checkpoint yet."
        time.sleep(0.02)
    processes[1].kill()
    processes[1].communicate(timeout=300)
    # The machine may be slow, but the other must not wait for ever.
    _, errors = processes[0].communicate(timeout=4 * TIMEOUT)
    assert processes[0].returncode != 0
    assert "most likely because another has ended or cannot be reached" in errors
    assert "with the same arguments and resume=True" in errors
    assert not (cut / "model.scalemix").exists()
    finish(start(cut, 1, steps))
    finish(start(whole, 1, steps))
    x = sx.data.load("yacht").x
    means = [sx.load(folder / "model.scalemix").predict(x).mean for folder in (cut, whole)]
    np.testing.assert_allclose(*means, rtol=0.02, atol=0.02 * np.ptp(means[1]))
