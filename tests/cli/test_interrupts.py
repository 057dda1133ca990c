"""Ctrl-C in the middle of a fit, and going on from there."""

import signal
import subprocess
import sys
import time

from tests.cli.conftest import run, write_table

# Where the tests run in the background interrupts may be ignored, and children inherit that.
CODE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from scalemix.cli import main
main()
"""
START = [sys.executable, "-c", CODE]


# Seconds; generous, for machines may be busy.
DEADLINE = 300


def wait_for(file, process):
    end = time.monotonic() + DEADLINE
    while not file.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end, f"no {file.name} after {DEADLINE} seconds"
        time.sleep(0.01)


def test_an_interrupted_fit_keeps_a_checkpoint_and_goes_on(tmp_path):
    data, model = write_table(tmp_path / "data.csv"), tmp_path / "model.scalemix"
    checkpoint = tmp_path / "model.scalemix.checkpoint"
    fit = [
        "fit", str(data), "-t", "price", "-o", str(model), "--inference", "noise", "--hidden", "4",
        "--members", "1", "--steps", "40000", "--batch-size", "4",
    ]  # fmt: skip
    process = subprocess.Popen([*START, *fit], stderr=subprocess.PIPE, text=True)
    try:
        wait_for(checkpoint, process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert process.returncode == 130
    *_, kept, how = said.splitlines()
    assert str(checkpoint) in kept
    assert how.strip() == f"scalemix {' '.join(fit)} --resume"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", checkpoint.name]

    # Without a word on what to do with it, it is neither used nor lost.
    ran = run(*fit)
    assert ran.code == 2
    assert "--resume" in ran.err
    other = run(*fit, "--resume", "--hidden", "5")
    assert other.code == 2
    assert "checkpoint of another run" in other.err
    assert checkpoint.exists()

    ran = run(*fit, "--resume")
    assert ran.code == 0, ran.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", model.name]
    assert run("info", model, "--json").json["num_steps"] == 40000
