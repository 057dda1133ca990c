"""What survives a crash: checkpoints and resuming."""

import os
import signal
import subprocess
import sys
import textwrap

import jax
import numpy as np
import pytest

import scalemix as sx
from scalemix.inference import loop
from tests.fitting.common import KEY, METHOD, X, Y, build, reporting, same


def test_resuming_gives_the_run_that_was_not_interrupted(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    whole = sx.fit(build(), X, Y, METHOD, key=KEY)

    def crash(progress):
        if progress.step == 30:
            raise RuntimeError("power cut")

    monkeypatch.setattr(sx.fitting, "bar", lambda _: reporting(crash))
    with pytest.raises(RuntimeError, match="power cut"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, checkpoint_every=1)
    steps = []
    monkeypatch.setattr(sx.fitting, "bar", lambda _: reporting(lambda p: steps.append(p.step)))
    resumed = sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, resume=True)
    # The chunk that crashed had not been saved.
    assert steps == [30, 40, 50]
    assert same(whole, resumed)
    # A finished run is not run again.
    assert same(whole, sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, resume=True))
    assert steps == [30, 40, 50]


def interrupt_and_resume(method, path, monkeypatch):
    """The fit whose interruption has been patched in, taken up again without it."""
    with pytest.raises(KeyboardInterrupt):
        sx.fit(build(), X, Y, method, key=KEY, checkpoint=path, checkpoint_every=1000)
    monkeypatch.undo()
    return sx.fit(build(), X, Y, method, key=KEY, checkpoint=path, resume=True)


def test_resuming_keeps_the_best_state_and_the_records(tmp_path, monkeypatch):
    method = sx.NoiseTraining(
        steps=60, chunk_steps=10, num_draws=2, validation_fraction=0.3, record_weights=True
    )
    path = tmp_path / "run.ckpt"
    whole = sx.fit(build(), X, Y, method, key=KEY)

    def interrupt(progress):
        if progress.step == 40:
            raise KeyboardInterrupt

    monkeypatch.setattr(sx.fitting, "bar", lambda _: reporting(interrupt))
    resumed = interrupt_and_resume(method, path, monkeypatch)
    assert same(whole, resumed)
    np.testing.assert_array_equal(whole.history.score, resumed.history.score)
    for name, value in whole.history.recorded.items():
        np.testing.assert_array_equal(value, resumed.history.recorded[name])


def test_a_failed_write_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"

    calls = []

    def third_fails(source, target):
        calls.append(target)
        if len(calls) == 3:
            raise OSError("No space left on device")
        os.rename(source, target)

    monkeypatch.setattr(os, "replace", third_fails)
    with pytest.raises(OSError, match="No space left"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, checkpoint_every=1)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == ["run.ckpt"]
    resumed = sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, resume=True)
    assert same(sx.fit(build(), X, Y, METHOD, key=KEY), resumed)


def test_a_killed_process_loses_at_most_one_interval(tmp_path):
    script = textwrap.dedent(
        """
        import os, signal, sys
        import jax, numpy as np
        import scalemix as sx
        from scalemix.inference import checkpoint

        write = checkpoint.write
        def write_then_die(path, tree, facts):
            write(path, tree, facts)
            if tree.done == 20:
                os.kill(os.getpid(), signal.SIGKILL)
        checkpoint.write = write_then_die
        rng = np.random.default_rng(0)
        x = rng.normal(size=(60, 3))
        model = sx.Model(sx.networks.MLP(3, "scalar", 8, 1, key=jax.random.key(0)),
                         sx.ARD(sx.Bernoulli(0.95)), sx.likelihoods.Gaussian())
        method = sx.NoiseTraining(steps=50, chunk_steps=10, num_draws=2)
        done = sx.fit(model, x, x[:, 0], method, key=jax.random.key(0), checkpoint=sys.argv[1],
                      checkpoint_every=1, resume=True)
        print(repr(float(done.history.objective[-1])))
        """
    )
    command = [sys.executable, "-c", script, str(tmp_path / "run.ckpt")]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert resumed.returncode == 0, resumed.stderr
    x = np.random.default_rng(0).normal(size=(60, 3))
    whole = sx.fit(build(), x, x[:, 0], METHOD, key=KEY)
    assert float(resumed.stdout) == float(whole.history.objective[-1])


def test_foreign_checkpoints_are_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path)
    with pytest.raises(ValueError, match=r"exists\. Pass resume=True"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path)
    other = sx.NoiseTraining(steps=50, chunk_steps=10, num_draws=3)
    for model, y, method, key, what in [
        (build(), Y, METHOD, jax.random.key(1), "key"),
        (build(), Y + 1e-3 * X[:, 0], METHOD, KEY, "data"),
        (build(), Y, other, KEY, "method"),
        (build(jax.random.key(1)), Y, METHOD, KEY, "model"),
    ]:
        with pytest.raises(ValueError, match=f"another run: not the same {what}\\."):
            sx.fit(model, X, y, method, key=key, checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="give checkpoint= its path"):
        sx.fit(build(), X, Y, METHOD, key=KEY, resume=True)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="not a checkpoint that can be read"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, resume=True)


@pytest.mark.parametrize("moment", ["chunk", "score", "best"])
def test_an_interrupt_at_any_point_resumes_to_the_same_run(moment, tmp_path, monkeypatch):
    method = sx.NoiseTraining(steps=60, chunk_steps=10, num_draws=2, validation_fraction=0.3)
    path = tmp_path / "run.ckpt"
    whole = sx.fit(build(), X, Y, method, key=KEY)
    place = {"chunk": (loop._Chunks, "run"), "score": (loop._Chunks, "score")}
    owner, name = place.get(moment, (loop, "_keep_best"))
    original, calls = getattr(owner, name), []

    def interrupted(*arguments):
        calls.append(name)
        result = original(*arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, interrupted)
    resumed = interrupt_and_resume(method, path, monkeypatch)
    assert same(whole, resumed)
    np.testing.assert_array_equal(whole.history.score, resumed.history.score)
