"""Training on files that are larger than memory: rows a second, host memory, how long devices wait.

On an NVIDIA GPU, the driver's own gauge is read as well: the share of time in which kernels ran.

`python benchmarks/streaming.py` writes tables of 0.5 and 2 million rows of 20 columns as Parquet,
trains on each for one pass in a process of its own, and writes results/streaming.json.
`--rows 100000000 --key h200` measures another table, and adds it to the results under that name.
`--folder` says where the table goes (it takes about 84 bytes a row); it is removed afterwards.
"""

import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

# JAX would reserve most of a GPU's memory, for which its driver may keep gigabytes of the host's.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

HERE = Path(__file__).parent
FILE = HERE / "results" / "streaming.json"
NUM_COLUMNS, ROWS_A_FILE, ROWS_A_GROUP = 20, 1_000_000, 2**16
ROWS = (500_000, 2_000_000)


def generate(folder: Path, rows: int, threads: int) -> float:
    """Write a table in parts, a few of which are in memory at a time; the seconds it took."""
    import pyarrow as pa
    from pyarrow import parquet

    def write(part: int) -> None:
        rng = np.random.default_rng(part)
        num = min(ROWS_A_FILE, rows - part * ROWS_A_FILE)
        x = rng.standard_normal((NUM_COLUMNS, num), np.float32)
        noise = rng.standard_normal(num, np.float32)
        y = np.sin(2 * x[0]) + x[1] * x[2] + 0.3 * noise
        columns = {f"x{i}": column for i, column in enumerate(x)} | {"y": y}
        parquet.write_table(
            pa.table(columns), folder / f"{part:05d}.parquet", row_group_size=ROWS_A_GROUP,
            compression="none", use_dictionary=False,
        )  # fmt: skip

    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write, range(-(-rows // ROWS_A_FILE))))
    return time.perf_counter() - start


def train(
    folder: str, batch: int, members: int, width: int, threads: int, window: int
) -> dict[str, float]:
    """One pass over a table by variational EM, and what it took."""
    import jax

    import scalemix as sx
    from scalemix.inference.training.chunks import Chunks
    from scalemix.inference.training.sources import Streamed

    network = sx.networks.ResNet(NUM_COLUMNS, "scalar", width, 2, key=jax.random.key(0))
    model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), sx.likelihoods.Gaussian())
    batches = sx.data.open_batches(
        folder, target="y", batch_size=batch, key=jax.random.key(1), window=window,
        threads=threads,
    )  # fmt: skip
    before = _peak()
    # Seconds in which the loop waits for its next chunk, and in which a chunk runs.
    times: dict[str, list[tuple[float, float]]] = {"batches": [], "run": []}

    def timed(of, name):
        original = getattr(of, name)

        def call(self, *args):
            start = time.perf_counter()
            result = original(self, *args)
            times[name].append((start, time.perf_counter()))
            return result

        setattr(of, name, call)

    timed(Streamed, "batches")
    timed(Chunks, "run")
    method = sx.VariationalEM(epochs=1, num_members=members, learning_rate=3e-3)
    start = time.perf_counter()
    with gauge() as readings, own_memory() as held:
        post = sx.fit_batches(model, batches, method, key=jax.random.key(2))
    seconds = time.perf_counter() - start
    # The first chunk compiles, and the last may be short.
    runs = times["run"][1:-1] or times["run"]
    begin, end = runs[0][0], runs[-1][1]
    waiting = sum(b - a for a, b in times["batches"] if begin <= a and b <= end)
    running = sum(b - a for a, b in runs) - waiting
    steps = len(runs) * min(method.chunk_steps, post.history.objective.shape[-1])
    read = [percent for at, percent in readings if begin <= at <= end]
    rng = np.random.default_rng(10**6)
    x = rng.standard_normal((10_000, NUM_COLUMNS))
    mean = post.predict(x).mean
    return {
        "rows": batches.num_rows,
        "bytes": batches.num_bytes,
        "steps": post.history.objective.shape[-1],
        "seconds": seconds,
        "seconds_before_training": times["run"][0][0] - start,
        "rows_a_second": steps * batch / (end - begin),
        "share_in_program": running / (end - begin),
        "driver_utilization_percent": read,
        "peak_mb": _peak(),
        "peak_before_mb": before,
        "peak_own_mb": max(held, default=None),
        "rmse": float(np.sqrt(np.mean((mean - np.sin(2 * x[:, 0]) - x[:, 1] * x[:, 2]) ** 2))),
    }


@contextlib.contextmanager
def gauge() -> Iterator[list[tuple[float, int]]]:
    """What the driver of an NVIDIA GPU says twice a second, with the time; nothing elsewhere."""
    readings: list[tuple[float, int]] = []
    if shutil.which("nvidia-smi") is None:
        yield readings
        return
    asked = [
        "nvidia-smi",
        "--query-gpu=utilization.gpu",
        "--format=csv,noheader,nounits",
        "-lms=500",
    ]
    process = subprocess.Popen(asked, stdout=subprocess.PIPE, text=True)

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            readings.append((time.perf_counter(), int(line)))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield readings
    finally:
        process.terminate()
        thread.join()


@contextlib.contextmanager
def own_memory() -> Iterator[list[float]]:
    """How much memory of its own this process has, in MB, ten times a second; nothing elsewhere.

    Programs and libraries that the system reads from files, some gigabytes for a GPU, are not
    counted: it can drop their pages at any time.
    """
    held: list[float] = []
    over = threading.Event()

    def read() -> None:
        while not over.wait(0.1):
            held.append(_status("RssAnon") + _status("RssShmem"))

    thread = threading.Thread(target=read)
    if STATUS.exists():
        thread.start()
    try:
        yield held
    finally:
        over.set()
        if STATUS.exists():
            thread.join()


STATUS = Path("/proc/self/status")


def _status(name: str) -> float:
    """What the system says of this process under a name, in MB."""
    lines = STATUS.read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(name)), 0.0)


def _peak() -> float:
    """The most memory that this process has had, in MB, libraries included."""
    if STATUS.exists():
        # What `getrusage` says begins with the memory of the process that started this one.
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--key", default="two cores")
    parser.add_argument("--folder")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--width", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--window", type=int, default=2**17)
    parser.add_argument("--trained", help=argparse.SUPPRESS)
    said = parser.parse_args()
    settings = [said.batch, said.members, said.width, said.threads, said.window]
    if said.trained:
        print(json.dumps(train(said.trained, *settings)))
        return
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    asked = ("batch", "members", "width", "threads", "window")
    entry = {name: getattr(said, name) for name in asked} | {"runs": []}
    for rows in said.rows:
        with tempfile.TemporaryDirectory(dir=said.folder) as folder:
            generating = generate(Path(folder), rows, said.threads)
            print(f"{rows:,} rows written in {generating:.0f} s", flush=True)
            # A process of its own, whose memory is that of training and nothing else.
            again = [sys.executable, __file__, *sys.argv[1:], "--trained", folder]
            done = subprocess.run(again, check=True, stdout=subprocess.PIPE, text=True)
        run = json.loads(done.stdout.splitlines()[-1])
        entry["runs"].append(run)
        print(json.dumps(run, indent=1), flush=True)
        from common import machine

        results[said.key] = machine() | entry
        FILE.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
