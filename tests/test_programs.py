"""Compiled programs that are kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scalemix._programs import keep_programs

PROGRAM = """
import sys, jax, jax.numpy as jnp
before = jnp.ones((3, 3)) + 1
from jax import monitoring
import scalemix as sx
events = []
monitoring.register_event_listener(lambda event, **_: events.append(event))
print(sx.keep_programs(*sys.argv[1:]))
jax.jit(lambda x: jnp.sin(x) @ x)(before)
print(sum(event.endswith("cache_hits") for event in events) > 0)
"""

COMMAND = """
from scalemix._programs import keep_programs_later
keep_programs_later()
import jax
print(jax.config.jax_compilation_cache_dir)
"""


def run(*arguments: str, **settings: str) -> list[str]:
    kept = {key: value for key, value in os.environ.items() if "COMPILATION_CACHE" not in key}
    ran = subprocess.run(
        [sys.executable, *arguments], env=kept | settings, capture_output=True, text=True,
        check=True, timeout=300,
    )  # fmt: skip
    return ran.stdout.splitlines()


def test_a_program_is_compiled_once_for_two_processes(tmp_path):
    folder = tmp_path / "kept"
    assert run("-c", PROGRAM, str(folder)) == [str(folder), "False"]
    assert run("-c", PROGRAM, "~/kept", HOME=str(tmp_path)) == [str(folder), "True"]


def test_a_folder_that_the_user_gave_jax_stays_and_keeps_small_programs_too(tmp_path):
    assert run("-c", PROGRAM, JAX_COMPILATION_CACHE_DIR=str(tmp_path))[0] == str(tmp_path)
    assert list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_an_error_for_who_asked_for_it(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        keep_programs(tmp_path / "file" / "below")


def test_the_command_keeps_its_programs_in_the_users_folder(tmp_path):
    told = [folder] = run("-c", COMMAND, XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert tmp_path in Path(folder).parents
    (tmp_path / "file").write_text("")
    settings = {"XDG_CACHE_HOME": str(tmp_path / "file"), "HOME": str(tmp_path / "file")}
    assert run("-c", COMMAND, **settings) == ["None"] != told
