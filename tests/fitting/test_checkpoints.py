"""What survives a crash: checkpoints and resuming."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import tracemalloc
import zipfile
from pathlib import Path

import jax
import numpy as np
import optax
import pytest

import scalemix as sx
from scalemix.data.batches import stack
from scalemix.data.preparation import hold_out, prepare
from scalemix.inference import checkpoint
from scalemix.inference.checkpoint import ResumeWarning
from scalemix.inference.fingerprints import fingerprint
from scalemix.inference.training import loop
from scalemix.inference.training.chunks import Chunks
from tests.fitting.common import KEY, METHOD, X, Y, build, close, reporting, same

FILES = Path(__file__).parent / "files"


def test_resuming_gives_the_run_that_was_not_interrupted(tmp_path, monkeypatch):
    path = tmp_path / "run.ckpt"
    whole = sx.fit(build(), X, Y, METHOD, key=KEY)

    def crash(progress):
        if progress.step == 30:
            raise RuntimeError("power cut")

    monkeypatch.setattr(sx.fitting.front_door, "watch", lambda *_: reporting(crash))
    with pytest.raises(RuntimeError, match="power cut"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, checkpoint_every=1)
    steps = []
    monkeypatch.setattr(
        sx.fitting.front_door, "watch", lambda *_: reporting(lambda p: steps.append(p.step))
    )
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

    monkeypatch.setattr(sx.fitting.front_door, "watch", lambda *_: reporting(interrupt))
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
    killed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
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
        (build(), Y, other, KEY, "num_draws"),
        (build(jax.random.key(1)), Y, METHOD, KEY, "model"),
    ]:
        with pytest.raises(ValueError, match=f"another run: not the same {what}\\."):
            sx.fit(model, X, y, method, key=key, checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="checkpoint_every must be a positive whole number"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, checkpoint_every=0)
    with pytest.raises(ValueError, match="give checkpoint= its path"):
        sx.fit(build(), X, Y, METHOD, key=KEY, resume=True)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="not a checkpoint that can be read"):
        sx.fit(build(), X, Y, METHOD, key=KEY, checkpoint=path, resume=True)


def started(path, method, model=None, y=Y):
    """A run of which one chunk is done and kept."""

    def crash(progress):
        if progress.step == 8:
            raise RuntimeError("power cut")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sx.fitting.front_door, "watch", lambda *_: reporting(crash))
        with pytest.raises(RuntimeError, match="power cut"):
            sx.fit(model or build(), X, y, method, key=KEY, checkpoint=path, checkpoint_every=1)


def training(**settings):
    return sx.NoiseTraining(**{"steps": 8, "chunk_steps": 4, "num_draws": 2, **settings})


def decayed(rate=1e-2, decay=0.9):
    return optax.adam(optax.exponential_decay(rate, 10, decay))


@pytest.mark.parametrize(
    ("begun", "others"),
    [
        (
            {"optimizer": decayed()},
            [
                ({"optimizer": decayed(decay=0.8)}, "optimizer"),
                ({"optimizer": decayed(rate=2e-2)}, "optimizer"),
                ({"optimizer": optax.adam(optax.exponential_decay(1e-2, 11, 0.9))}, "optimizer"),
                ({}, "optimizer"),
                ({"optimizer": decayed(), "batch_size": 16}, "batch_size"),
                ({"optimizer": decayed(), "steps": 12, "patience": 3}, "steps, patience"),
            ],
        ),
        (
            {"learning_rate": lambda step: 0.1 / (1 + step)},
            [
                ({"learning_rate": lambda step: 0.2 / (1 + step)}, "learning_rate"),
                ({"learning_rate": optax.constant_schedule(0.1)}, "learning_rate"),
                ({"learning_rate": 0.1}, "learning_rate"),
            ],
        ),
    ],
)  # fmt: skip
def test_the_setting_that_differs_is_named(tmp_path, begun, others):
    path = tmp_path / "run.ckpt"
    started(path, training(**begun))
    for other, what in others:
        with pytest.raises(ValueError, match=f"another run: not the same {what}\\."):
            sx.fit(build(), X, Y, training(**other), key=KEY, checkpoint=path, resume=True)


def test_the_same_built_again_goes_on(tmp_path):
    path = tmp_path / "run.ckpt"
    started(path, training(optimizer=decayed()))
    resumed = sx.fit(
        build(), X, Y, training(optimizer=decayed()), key=KEY, checkpoint=path, resume=True
    )
    assert same(sx.fit(build(), X, Y, training(optimizer=decayed()), key=KEY), resumed)


def test_held_out_data_count_as_data(tmp_path):
    """Another target in the rows held out alone leads to another choice of the best state."""
    path = tmp_path / "run.ckpt"
    method = training(validation_fraction=0.5)
    model = build()
    data, _ = prepare(model, X, Y, None, True)
    train, held = (stack([part]) for part in hold_out(data, 0.5, KEY))
    other = held._replace(y=held.y + 1)
    prints = [
        fingerprint((method, model), list(train), part, KEY[None]) for part in (held, other, None)
    ]
    assert prints[0] | {"held-out data": ""} == prints[1] | {"held-out data": ""}
    assert len({one["held-out data"] for one in prints}) == 3
    assert not path.exists()


def test_settings_within_a_warm_start_have_names():
    def prints(**settings):
        method = sx.MCMC(warm_start=sx.VariationalEM(**settings))
        return fingerprint((method, build()), [], None, KEY[None])

    one, other = prints(steps=5), prints(steps=5, optimizer=decayed())
    assert [name for name in one if one[name] != other[name]] == ["warm_start.optimizer"]


def test_what_cannot_be_compared_is_refused_at_the_start(tmp_path):
    lock = threading.Lock()

    def schedule(step):
        with lock:
            return 0.1

    method = training(learning_rate=schedule)
    with pytest.raises(ValueError, match="learning_rate holds a lock, which cannot be compared"):
        sx.fit(build(), X, Y, method, key=KEY, checkpoint=tmp_path / "run.ckpt")


# ------------------------------------------------------------------------- versions, and bad files


def rewritten(path, change=lambda header, arrays: None, save=np.savez):
    """The checkpoint with another header or other arrays."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        save(file, header=text, **arrays)


def resume(path, method=None):
    return sx.fit(build(), X, Y, method or training(), key=KEY, checkpoint=path, resume=True)


def test_a_run_begun_under_other_versions_goes_on_and_says_so(tmp_path):
    path = tmp_path / "run.ckpt"
    whole = sx.fit(build(), X, Y, training(), key=KEY)
    started(path, training())
    with np.load(path) as file:
        versions = json.loads(file["header"].tobytes())["versions"]
    assert versions.keys() >= {
        "python", "scalemix", "jax", "jaxlib", "numpy", "equinox", "optax", "backend",
    }  # fmt: skip
    assert versions["jax"] == jax.__version__
    assert same(whole, resume(path))
    started_again = tmp_path / "again.ckpt"
    started(started_again, training())
    rewritten(started_again, lambda header, _: header["versions"].update(jax="0.1.2"))
    with pytest.warns(ResumeWarning, match=r"written with jax 0\.1\.2, and this is jax .* bit for"):
        assert same(whole, resume(started_again))


def test_a_checkpoint_that_was_kept_goes_on(tmp_path, monkeypatch):
    """`files/` has one of the present form; a form that cannot go on from it is a new version."""
    path, begun_here = tmp_path / "run.ckpt", tmp_path / "here.ckpt"
    shutil.copy(FILES / f"version{checkpoint.VERSION}.checkpoint", path)
    started(begun_here, training())
    with np.load(begun_here) as file:
        here = json.loads(file["header"].tobytes())
    # Digests hold for one version of each package, and data have other last digits on another
    # machine: what is kept are the arrays.
    rewritten(
        path, lambda header, _: header.update({k: here[k] for k in ("fingerprints", "versions")})
    )
    steps = []
    monkeypatch.setattr(
        sx.fitting.front_door, "watch", lambda *_: reporting(lambda p: steps.append(p.step))
    )
    close(sx.fit(build(), X, Y, training(), key=KEY), resume(path))
    # Those of the whole run, and of what was left of the other.
    assert steps == [4, 8, 8]


def test_checkpoints_of_version_1_go_on_with_a_warning(tmp_path):
    """They do not say which optimiser they are of; data and key they do."""
    path = tmp_path / "run.ckpt"
    started(path, training())

    def as_before(header, arrays):
        kept = {name: header["fingerprints"][name] for name in ("data", "key")}
        header.update(version=1, fingerprints={**kept, "method": "m", "model": "m"})
        del header["versions"], arrays[f"leaf{len(arrays) - 1}"]

    rewritten(path, as_before)
    with pytest.raises(ValueError, match=r"not the same data\."):
        sx.fit(build(), X, Y + X[:, 0], training(), key=KEY, checkpoint=path, resume=True)
    with pytest.warns(ResumeWarning, match="does not say with which optimizer"):
        resumed = resume(path)
    assert same(sx.fit(build(), X, Y, training(), key=KEY), resumed)


def test_checkpoints_of_version_2_go_on_with_a_warning(tmp_path):
    """They know the classes of the package by modules that have moved since; settings they know."""
    path = tmp_path / "run.ckpt"
    started(path, training())

    def as_before(header, arrays):
        header["fingerprints"].update(method="scalemix.noise", model="scalemix.model")
        header.update(version=2)

    rewritten(path, as_before)
    with pytest.raises(ValueError, match=r"not the same num_draws\."):
        resume(path, training(num_draws=3))
    with pytest.warns(ResumeWarning, match="does not say with which model and method it was begun"):
        resumed = resume(path)
    assert same(sx.fit(build(), X, Y, training(), key=KEY), resumed)


def test_checkpoints_of_version_3_go_on_with_a_warning(tmp_path):
    path = tmp_path / "run.ckpt"
    started(path, training())
    rewritten(path, lambda header, _: header.update(version=3))
    with pytest.warns(ResumeWarning, match="met rows in another order"):
        resume(path)


def test_a_checkpoint_whose_data_were_prepared_otherwise_says_so(tmp_path):
    """That of an earlier version, which standardised in single precision."""
    path = tmp_path / "run.ckpt"
    shutil.copy(FILES / "version1.checkpoint", path)
    with pytest.raises(ValueError, match="this version prepares them otherwise"):
        resume(path)


def huge(header, arrays):
    arrays["leaf3"] = np.zeros(2**28, np.uint8)


@pytest.mark.parametrize(
    ("change", "save", "reason"),
    [
        (huge, np.savez_compressed, "compressed"),
        (lambda h, a: h.update(version=99), np.savez, "later version"),
        (lambda h, a: h.update(format="mine"), np.savez, "another program"),
        (lambda h, a: h.update(fingerprints=[1]), np.savez, "header is damaged"),
        (lambda h, a: h.update(versions=7), np.savez, "header is damaged"),
        (lambda h, a: h.update(more="x" * 2**21), np.savez, "header is too long"),
        (lambda h, a: a.update(leaf3=a["leaf3"][None]), np.savez, "leaf3 is .* does not have"),
        (lambda h, a: a.pop("leaf3"), np.savez, "does not hold the arrays"),
    ],
)
def test_bad_checkpoints_are_refused_before_they_are_unpacked(tmp_path, change, save, reason):
    path = tmp_path / "run.ckpt"
    memory = {"done": np.zeros((), np.int64), "rest": [np.zeros(n, np.float32) for n in range(5)]}
    checkpoint.write(path, memory, {"data": "d"})
    assert jax.tree.structure(checkpoint.read(path, memory, {"data": "d"})) == jax.tree.structure(
        memory
    )
    rewritten(path, change, save)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"can be read.*{reason}.*Delete it") as error:
            checkpoint.read(path, memory, {"data": "d"})
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert str(path) in str(error.value)


def test_an_array_that_claims_more_than_it_holds_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    memory = [np.zeros(5, np.float32)]
    checkpoint.write(path, memory, {})
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    for name in parts:
        with zipfile.ZipFile(path, "w") as file:
            for other, content in parts.items():
                claimed = re.sub(rb"\(\d+,\), }", b"(9999999999,), }", content)
                file.writestr(other, claimed if other == name else content)
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="not a checkpoint that can be read"):
                checkpoint.read(path, memory, {})
            assert tracemalloc.get_traced_memory()[1] < 2**24
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("moment", ["chunk", "score", "best"])
def test_an_interrupt_at_any_point_resumes_to_the_same_run(moment, tmp_path, monkeypatch):
    method = sx.NoiseTraining(steps=60, chunk_steps=10, num_draws=2, validation_fraction=0.3)
    path = tmp_path / "run.ckpt"
    whole = sx.fit(build(), X, Y, method, key=KEY)
    place = {"chunk": (Chunks, "run"), "score": (Chunks, "score")}
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


def test_resuming_without_a_file_starts_from_the_beginning_and_says_so(tmp_path):
    path = tmp_path / "run.ckpt"
    with pytest.warns(ResumeWarning, match=r"no checkpoint .*run\.ckpt: the run starts from the"):
        begun = resume(path)
    assert same(begun, sx.fit(build(), X, Y, training(), key=KEY))
    # Now there is one.
    assert same(begun, resume(path))


def test_a_folder_is_not_to_be_deleted(tmp_path):
    for resuming in (False, True):
        with pytest.raises(ValueError, match="is a folder: give checkpoint= the path of a file"):
            sx.fit(build(), X, Y, training(), key=KEY, checkpoint=tmp_path, resume=resuming)
