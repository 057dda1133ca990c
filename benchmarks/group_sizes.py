"""What a step takes on one core, by the number of members that one program trains.

`python benchmarks/group_sizes.py` times noise training (one hidden layer of 50, ten draws of 32
rows) and variational EM (two, 64 rows) on twenty splits of yacht, on a single core, with vectors of
512 bits where the processor has them (`scalemix._cpu`) and without. Groups of members are sized by
it (`scalemix.inference.groups`). Writes benchmarks/results/group_sizes.json, and a table into
benchmarks/README.md.
"""

import json
import os
import time

# XLA has as many threads as there are cores when it starts.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax  # noqa: E402
from common import RESULTS, alternate, chunks, machine, write_table, yacht_splits  # noqa: E402

import scalemix as sx  # noqa: E402
from scalemix import _cpu  # noqa: E402
from scalemix.inference import groups  # noqa: E402
from scalemix.inference.training import programs  # noqa: E402

FILE = RESULTS / "group_sizes.json"
SIZES, STEPS, REPETITIONS = (1, 2, 4, 5, 8), 400, 7
# Vectors as XLA has them, and as wide as the processor has them.
WIDTHS = {"256 bits": False, "512 bits": True}


def build(engine: str, num: int):
    """Steps of so many members, as one program."""
    xs, ys = (part[:num] for part in yacht_splits())
    keys = jax.random.split(jax.random.key(1), num)
    if engine == "noise":
        method = sx.NoiseTraining("tail_adaptive", num_draws=10, steps=STEPS, batch_size=32)
        prior, likelihood = sx.ARD(sx.Bernoulli(0.995)), sx.likelihoods.Gaussian()
        networks = [sx.networks.MLP(6, "scalar", 50, 1, key=key) for key in keys]
    else:
        method = sx.VariationalEM(steps=STEPS, batch_size=64)
        prior = sx.ARDADD(sx.InverseGamma(3.0, 3.0))
        likelihood = sx.likelihoods.StudentT(per_input=True)
        networks = [sx.networks.ResNet(6, 2, 50, 2, key=key) for key in keys]
    models = [sx.Model(network, prior, likelihood) for network in networks]
    run = chunks(method, models, xs, ys, STEPS)

    def worked() -> float:
        start = time.process_time()
        run()
        return time.process_time() - start

    return worked


def main() -> None:
    """Measure, print, write."""
    groups.group_size = lambda work, cores: work
    is_wide, runs = _cpu.is_wide, {}
    for width, wide in WIDTHS.items():
        _cpu.is_wide = is_wide if wide else (lambda text: False)
        programs.chunk_program.cache_clear()
        for engine in ("noise", "em"):
            for size in SIZES:
                runs[f"{engine}, {width}, {size}"] = build(engine, size)
                # Compiled here, with these vectors.
                runs[f"{engine}, {width}, {size}"]()
    seconds = alternate(runs, REPETITIONS)
    us = {name: each / STEPS / int(name.split(", ")[-1]) * 1e6 for name, each in seconds.items()}
    FILE.write_text(json.dumps({**machine(), "us_a_model_step": us}, indent=1) + "\n")
    rows = [
        (engine, width, *(f"{us[f'{engine}, {width}, {size}']:.1f}" for size in SIZES))
        for engine in ("noise", "em")
        for width in WIDTHS
    ]
    write_table("group_sizes", rows, ("engine", "vectors", *(f"{size}" for size in SIZES)))
    for row in rows:
        print(*row)


if __name__ == "__main__":
    main()
