"""The speed of variational EM, as ratios measured in one run.

Run with `make benchmark-em`. Prints a table and writes benchmarks/results/em_speed.json, which has
the last run on each kind of device. What is compared is timed in alternation, and the median of the
repetitions counts.
"""

import json

import jax
import numpy as np
from common import RESULTS, alternate, chunks, machine, product_rate, write_table, yacht_splits

import scalemix as sx

FILE = RESULTS / "em_speed.json"
NUM_SPLITS, NUM_DRAWS, BATCH, WIDTH = 20, 10, 32, 50
PRIOR = sx.ARD(sx.InverseGamma(3.0, 3.0))


def model(in_size: int, width: int, depth: int, seed: int) -> sx.Model:
    """A residual network under ARD with inverse gamma scales."""
    network = sx.networks.ResNet(in_size, "scalar", width, depth, key=jax.random.key(seed))
    return sx.Model(network, PRIOR, sx.likelihoods.Gaussian())


def wide_benchmark() -> dict[str, float]:
    """How many times a deterministic step of the same network a step of EM takes, at width 512."""
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=(2048, 16)).astype(np.float32)]
    ys = [rng.normal(size=2048).astype(np.float32)]
    settings = {"num_draws": 1, "batch_size": 256, "steps": 20}
    runs = {
        "deterministic": chunks(
            sx.NoiseTraining("hierarchical", **settings), [model(16, 512, 4, 0)], xs, ys, 20
        ),
        "em": chunks(sx.VariationalEM(**settings), [model(16, 512, 4, 0)], xs, ys, 20),
    }
    seconds = alternate(runs, 9)
    return {
        "deterministic_ms": seconds["deterministic"] / 20 * 1e3,
        "em_ms": seconds["em"] / 20 * 1e3,
        "times_deterministic": seconds["em"] / seconds["deterministic"],
    }


def yacht_benchmark(num_draws: int) -> dict[str, float]:
    """Twenty splits at once: arithmetic a second, and model-steps against one at a time."""
    xs, ys = yacht_splits()
    steps = 100
    method = sx.VariationalEM(num_draws=num_draws, batch_size=BATCH, steps=steps)
    models = [model(6, WIDTH, 2, seed) for seed in range(NUM_SPLITS)]
    seconds = alternate(
        {
            "together": chunks(method, models, xs, ys, steps),
            "alone": chunks(method, models[:1], xs[:1], ys[:1], steps),
        },
        9,
    )
    a_model_step = seconds["together"] / (steps * NUM_SPLITS)
    # Each layer is two products forward, means and variances, and twice that backward less the
    # gradients of the inputs.
    rows = num_draws * BATCH
    weights = 6 * WIDTH + WIDTH * WIDTH + WIDTH
    flops = 2 * (3 * 2 * rows * weights - 2 * rows * 6 * WIDTH)
    return {
        "us_a_model_step": a_model_step * 1e6,
        "gflops": flops / a_model_step / 1e9,
        "times_one_at_a_time": seconds["alone"] / steps / a_model_step,
    }


WANTED = {
    "width 512: EM, times a deterministic step": "at most 2.3",
    "yacht: share of the batched product's rate": "at least 40%",
    "yacht: twenty splits at once, times one at a time": "at least 3",
}


def figures(results: dict) -> dict[str, str]:
    """What one run found, in words."""
    wide, yacht, two = results["wide"], results["yacht"], results["yacht_two_draws"]
    rate = results["batched_product_gflops"]
    share = yacht["gflops"] / rate
    # What there would be to gain if twenty splits ran at the product's rate.
    at_most = yacht["times_one_at_a_time"] / share
    return {
        "width 512: EM, times a deterministic step": f"{wide['times_deterministic']:.2f}",
        "yacht: microseconds a model-step": f"{yacht['us_a_model_step']:.0f}",
        "yacht: GFLOP/s": f"{yacht['gflops']:.0f}",
        "batched product 20 x 320 x 50 x 50, GFLOP/s": f"{rate:.0f}",
        "yacht: share of the batched product's rate": f"{share:.0%}",
        "yacht: twenty splits at once, times one at a time": f"{yacht['times_one_at_a_time']:.1f}",
        "the same, if they ran at the product's rate": f"{at_most:.1f}",
        "the same with two draws": f"{two['times_one_at_a_time']:.1f}",
    }


def main() -> None:
    """Measure on this device, print, and write beside what other devices gave."""
    runs = json.loads(FILE.read_text()) if FILE.exists() else {}
    about = machine()
    runs[about["device"]] = {
        **about,
        "wide": wide_benchmark(),
        "yacht": yacht_benchmark(NUM_DRAWS),
        "yacht_two_draws": yacht_benchmark(2),
        "batched_product_gflops": product_rate((20, 320, 50), (20, 50, 50), 200),
    }
    by_device = {device: figures(results) for device, results in runs.items()}
    head = ("", *(f"{device} ({runs[device]['machine']})" for device in runs), "wanted")
    rows = [
        (what, *(by_device[device][what] for device in runs), WANTED.get(what, ""))
        for what in next(iter(by_device.values()))
    ]
    for what, *rest in (head, *rows):
        print(f"{what:52}" + "".join(f"{cell:>32}" for cell in rest))
    write_table("em_speed", rows, head)
    FILE.write_text(json.dumps(runs, indent=2) + "\n")


if __name__ == "__main__":
    main()
