"""The members of an ensemble over processes of one device each, on this machine's cores.

`python benchmarks/scaling.py processes` starts them. Each calls `sx.fit` as a user would, and takes
down its own processor time after every chunk of steps. So what a process takes to start (imports,
the table, tracing, compiling and the first chunk) is counted apart from the steps, and both from
what comes after the last of them. The work of several processes is added up.

Processes have cores of their own, as a scheduler of jobs gives them, or one in turn where there are
too few; and, for comparison, all cores together. The first run of each kind compiles. The others,
whose steps count, find its programs kept (`sx.keep_programs`).
"""

import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from scaling import ROWS_SPREAD, SPREAD_MEMBERS, build, sends, table, write

import scalemix as sx

NUMBERS = (1, 2, 4)
STEPS, ROUNDS = 2000, 3


class Taken(NamedTuple):
    """What one process took, or several together: seconds of processors, and on the clock."""

    start: float
    """To start, the first chunk included."""
    steps: float
    """For a chunk of steps, the median."""
    end: float
    """After the last chunk."""
    waited: float
    """On the clock, for a chunk of steps."""
    sent: int
    """Operations that send anything, in the program of the steps."""


def over_processes() -> None:
    """So many processes in turn, several times over."""
    cases = {(num, "own"): cores_of(num) for num in NUMBERS}
    cases |= {(num, "shared"): [all_cores()] * num for num in NUMBERS if num > 1}
    with tempfile.TemporaryDirectory() as folder:
        # Programs are compiled for the cores that there are.
        folders = {case: f"{folder}/{i}" for i, case in enumerate(cases)}
        first = {case: run(cores, folders[case]) for case, cores in cases.items()}
        later: dict[Any, list[Taken]] = {case: [] for case in cases}
        for _ in range(ROUNDS):
            for case, cores in cases.items():
                later[case].append(run(cores, folders[case]))
    medians = {case: middle(seen) for case, seen in later.items()}
    told = {
        case: beside(first[case].start, taken, first[1, "own"].start, medians[1, "own"])
        for case, taken in medians.items()
    }
    content = {
        "members": SPREAD_MEMBERS,
        "steps": STEPS,
        "processes": {num: told[num, "own"] for num in NUMBERS},
        "processes that share all cores": {
            num: figures for (num, which), figures in told.items() if which == "shared"
        },
    }
    write("members over processes", content)
    print(json.dumps(content, indent=1))


def middle(seen: Sequence[Taken]) -> Taken:
    """The median of several runs."""
    return Taken(*(statistics.median(each) for each in zip(*seen, strict=True)))


def beside(start: float, taken: Taken, start_of_one: float, one: Taken) -> dict[str, float]:
    """What these processes took beside a single one, with the first start of each."""
    chunk = sx.VariationalEM.chunk_steps
    model_steps, later_chunks = SPREAD_MEMBERS * chunk, STEPS // chunk - 1
    in_all = start + later_chunks * taken.steps + taken.end
    in_all_of_one = start_of_one + later_chunks * one.steps + one.end
    return {
        "processor_us_a_model_step": taken.steps / model_steps * 1e6,
        "us_a_model_step": taken.waited / model_steps * 1e6,
        "times_the_work_of_one": taken.steps / one.steps,
        "times_as_fast_as_one": one.waited / taken.waited,
        "sent_along_members": taken.sent,
        "processor_seconds_to_start": start,
        "processor_seconds_to_start_with_programs_kept": taken.start,
        "processor_seconds_to_end": taken.end,
        "processor_seconds_in_all": in_all,
        "times_the_work_of_one_in_all": in_all / in_all_of_one,
    }


def all_cores() -> set[int]:
    """Those that this process may use."""
    return os.sched_getaffinity(0)


def cores_of(num: int) -> list[set[int]]:
    """The cores of each of so many processes; where there are too few, one in turn."""
    cores = sorted(all_cores())
    if num >= len(cores):
        return [{cores[i % len(cores)]} for i in range(num)]
    return [set(cores[i::num]) for i in range(num)]


def run(cores: Sequence[set[int]], folder: str) -> Taken:
    """A process for each of these sets of cores: their work added up, the time of the slowest.

    They train together. Programs are kept in the folder.
    """
    num = len(cores)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        place = f"localhost:{free.getsockname()[1]}"
    before, started = all_cores(), []
    for i in range(num):
        # XLA has as many threads as there are cores for the process when it starts.
        os.sched_setaffinity(0, cores[i])
        command = [sys.executable, __file__, place, str(num), str(i), folder]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    os.sched_setaffinity(0, before)
    told = [process.communicate(timeout=1200)[0].splitlines() for process in started]
    if any(process.returncode for process in started):
        sys.exit(f"One of {num} processes failed.")
    each = [Taken(**json.loads(lines[-1])) for lines in told]
    start, steps, end = (sum(getattr(one, name) for one in each) for name in Taken._fields[:3])
    taken = Taken(start, steps, end, max(one.waited for one in each), each[0].sent)
    print(num, *cores, taken, flush=True)
    return taken


def one_process(place: str, num: str, index: str, folder: str) -> Taken:
    """One of several processes, and what it took."""
    sx.keep_programs(folder)
    jax.distributed.initialize(place, int(num), int(index))
    mesh = jax.make_mesh((jax.device_count(), 1), ("members", "data"))
    method, model = build(50, "em", steps=STEPS, num_members=SPREAD_MEMBERS)
    x, noise = (part[0] for part in table(ROWS_SPREAD))
    y = x[:, 0] + 0.1 * noise
    worked, clock = [], []

    def note(_: Any) -> None:
        worked.append(time.process_time())
        clock.append(time.perf_counter())

    sx.fit(model, x, y, method, key=jax.random.key(0), mesh=mesh, callback=note)
    end = time.process_time() - worked[-1]
    programs = [one.hlo_modules()[0] for one in jax.devices()[0].client.live_executables()]
    (steps,) = {one.to_string() for one in programs if one.name == "jit_run_chunk"}
    return Taken(
        worked[0], statistics.median(differences(worked)), end,
        statistics.median(differences(clock)), sends(steps),
    )  # fmt: skip


def differences(times: Sequence[float]) -> list[float]:
    """From each of them to the next."""
    return [later - earlier for earlier, later in itertools.pairwise(times)]


if __name__ == "__main__":
    print(json.dumps(one_process(*sys.argv[1:])._asdict()), flush=True)
