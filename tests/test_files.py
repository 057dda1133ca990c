"""Files that are written whole or not at all, by several writers and by some that die."""

import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from scalemix import _files
from scalemix._files import replacing

WRITER = """
import os, signal, sys
from pathlib import Path
from scalemix._files import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read() if sys.argv[2] == "wait" else os.kill(os.getpid(), signal.SIGKILL)
    file.write(b" and half")
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def start(path, what):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def write(path, content=b"whole"):
    with replacing(path) as file:
        file.write(content)


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path):
    path = tmp_path / "model"
    process = start(path, "die")
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    # A file of that kind beside another name is none of this one's concern.
    others = [".model2.0123456789abcdef.part", ".model.mine.part", "model.part"]
    for name in others:
        (tmp_path / name).touch()
    write(path)
    assert names(tmp_path) == sorted(["model", *others])
    assert path.read_bytes() == b"whole"


def test_a_writer_that_lives_is_left_alone(tmp_path):
    path = tmp_path / "model"
    process = start(path, "wait")
    assert select.select([process.stdout], [], [], 300)[0], "The writer does not begin."
    assert process.stdout.readline() == "writing\n"
    write(path)
    assert path.read_bytes() == b"whole"
    assert len(names(tmp_path)) == 2
    process.communicate("", timeout=60)
    assert process.returncode == 0
    assert path.read_bytes() == b"half and half"
    assert names(tmp_path) == ["model"]


def test_many_writers_of_one_file_all_succeed(tmp_path):
    path, num = tmp_path / "model", 16
    contents = [bytes([i]) * 1000 for i in range(num)]
    together = threading.Barrier(num)

    def many(content):
        together.wait(timeout=60)
        for _ in range(20):
            write(path, content)

    with ThreadPoolExecutor(num) as pool:
        list(pool.map(many, contents))
    assert path.read_bytes() in contents
    assert names(tmp_path) == ["model"]


def test_a_part_removed_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    """The one moment at which a part is there and not locked."""
    path, original, removed = tmp_path / "model", _files.fcntl.flock, []

    def slow(file, how):
        if not removed:
            removed.extend(tmp_path.glob(".model.*.part"))
            removed[0].unlink()
        original(file, how)

    monkeypatch.setattr(_files.fcntl, "flock", slow)
    write(path)
    assert path.read_bytes() == b"whole"
    assert names(tmp_path) == ["model"]


def test_without_locks_files_are_still_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "fcntl", None)
    write(tmp_path / "model")
    assert names(tmp_path) == ["model"]
    with pytest.raises(TypeError), replacing(tmp_path / "model") as file:
        file.write("no bytes")
    assert (tmp_path / "model").read_bytes() == b"whole"
    assert names(tmp_path) == ["model"]
