"""Ctrl-C in the middle of a fit, and going on from there."""

import functools
import gc
import os
import signal
import subprocess
import sys
import time

import pytest

from scalemix.cli.checkpoints import claimed
from scalemix.cli.interrupts import interrupt_again, run_interruptible
from tests.cli.conftest import run, write_table

# Where the tests run in the background interrupts may be ignored, and children inherit that. The
# process watches for the checkpoint itself: another might come too late where a machine is busy.
CODE = """
import os, pathlib, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
checkpoint = pathlib.Path(sys.argv.pop(1))
def interrupt():
    while not checkpoint.exists():
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
from scalemix.cli import main
main()
"""
START = [sys.executable, "-c", CODE]


# Seconds; generous, for machines may be busy.
DEADLINE = 300


def test_an_interrupted_fit_keeps_a_checkpoint_and_goes_on(tmp_path):
    data, model = write_table(tmp_path / "data.csv"), tmp_path / "model.scalemix"
    checkpoint = tmp_path / "model.scalemix.checkpoint"
    fit = [
        "fit", str(data), "-t", "price", "-o", str(model), "--inference", "noise", "--hidden", "4",
        "--members", "1", "--steps", "10000", "--batch-size", "4",
    ]  # fmt: skip
    process = subprocess.run(
        [*START, checkpoint, *fit], stderr=subprocess.PIPE, text=True, timeout=DEADLINE, check=False
    )
    assert process.returncode == 130
    *_, kept, how = process.stderr.splitlines()
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
    assert run("info", model, "--json").json["num_steps"] == 10000


def test_a_run_that_is_still_going_on_is_no_interrupted_one(tmp_path):
    data, model = write_table(tmp_path / "data.csv"), tmp_path / "model.scalemix"
    checkpoint = tmp_path / "model.scalemix.checkpoint"
    checkpoint.write_bytes(b"")
    fit = ["fit", data, "-t", "price", "-o", model]
    with claimed(checkpoint):
        for more in ([], ["--resume"]):
            ran = run(*fit, *more)
            assert ran.code == 2
            assert "another run is writing it now" in ran.err
    assert "left from a run that was interrupted" in run(*fit).err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", checkpoint.name]


def test_after_an_interrupt_nothing_is_taken_down(monkeypatch):
    """Threads of XLA may still be at work, and have crashed when the interpreter ended."""
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    for code in (130, 2):
        with pytest.raises(SystemExit, match=str(code)):
            run_interruptible(functools.partial(sys.exit, code))
    assert codes == [130]


@pytest.mark.parametrize("error", [BrokenPipeError, ValueError])
def test_a_reader_that_is_gone_does_not_keep_an_interrupt_from_its_end(monkeypatch, error):
    class Gone:
        def flush(self):
            raise error

    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    for name in ("stdout", "stderr"):
        with monkeypatch.context() as patched:
            patched.setattr(sys, name, Gone())
            with pytest.raises(SystemExit):
                run_interruptible(functools.partial(sys.exit, 130))
    assert codes == [130, 130]


def test_an_interrupt_in_the_garbage_collector_is_not_lost(monkeypatch):
    def interrupted(*_):
        gc.callbacks.remove(interrupted)
        raise KeyboardInterrupt

    def wait():
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            time.sleep(0.01)

    monkeypatch.setattr(sys, "unraisablehook", interrupt_again)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.callbacks.append(interrupted)
    try:
        gc.collect()
        with pytest.raises(KeyboardInterrupt):
            wait()
    finally:
        signal.signal(signal.SIGINT, before)
