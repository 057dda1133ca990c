"""The speed of noise training, as ratios measured in one run.

Run with `make benchmark-noise` (needs the extra `benchmark`, which is PyTorch). Prints a table and
writes benchmarks/results/noise_speed.json. Everything that is compared is timed in alternation, and
the median of the repetitions counts, since other work on the machine slows both alike.
"""

import jax
import numpy as np
import torch
from common import (
    alternate,
    chunks,
    clock,
    machine,
    product_rate,
    publish,
    yacht_splits,
)

import scalemix as sx

NUM_SPLITS, NUM_DRAWS, BATCH, WIDTH, DROP = 20, 10, 32, 50, 0.005


# ---- yacht, twenty splits


def ours_on_yacht(xs, ys, num_steps: int):
    """Twenty splits as one program."""
    keys = jax.random.split(jax.random.key(1), NUM_SPLITS)
    models = [
        sx.Model(
            sx.networks.MLP(6, "scalar", WIDTH, 1, key=key),
            sx.ARD(sx.Bernoulli(1 - DROP)),
            sx.likelihoods.Gaussian(),
        )
        for key in keys
    ]
    method = sx.NoiseTraining(
        "tail_adaptive", num_draws=NUM_DRAWS, steps=num_steps, batch_size=BATCH
    )
    return chunks(method, models, xs, ys, num_steps)


def torch_on_yacht(xs, ys, num_steps: int):
    """The same step in eager PyTorch, as one would write it, on its best number of threads: one."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = torch.from_numpy(xs[0]), torch.from_numpy(ys[0])
    first, second = torch.nn.Linear(6, WIDTH), torch.nn.Linear(WIDTH, 1)
    log_scale = torch.nn.Parameter(torch.zeros(()))
    parameters = [*first.parameters(), *second.parameters(), log_scale]
    optimizer = torch.optim.Adam(parameters, lr=5e-3)

    def step() -> None:
        rows = torch.randint(len(x), (BATCH,))
        inputs = x[rows].expand(NUM_DRAWS, BATCH, 6)
        targets = y[rows]
        hidden = inputs * torch.empty_like(inputs).bernoulli_(1 - DROP)
        hidden = torch.relu(first(hidden))
        hidden = hidden * torch.empty_like(hidden).bernoulli_(1 - DROP)
        output = second(hidden).squeeze(-1)
        scale = torch.nn.functional.softplus(log_scale) + 1e-3
        values = torch.distributions.Normal(output, scale, validate_args=False).log_prob(targets)
        with torch.no_grad():
            ranks = (values[None] >= values[:, None]).sum(1)
            weights = 1.0 / ranks
            weights = weights / weights.sum(0)
        squares = first.weight.square().sum() + second.weight.square().sum()
        loss = squares / (2 * len(x)) - (weights * values).sum(0).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def run() -> None:
        for _ in range(num_steps):
            step()

    run()
    return lambda: clock(run)


def yacht_benchmark() -> dict[str, float]:
    """Microseconds a model-step, ours and PyTorch's, and our rate of arithmetic."""
    xs, ys = yacht_splits()
    steps, torch_steps = 400, 200
    seconds = alternate(
        {"ours": ours_on_yacht(xs, ys, steps), "torch": torch_on_yacht(xs, ys, torch_steps)}, 9
    )
    ours = seconds["ours"] / (steps * NUM_SPLITS)
    theirs = seconds["torch"] / torch_steps
    # Two products forward, and twice that backward less the gradient of the inputs.
    forward = 2 * NUM_DRAWS * BATCH * (6 * WIDTH + WIDTH)
    flops = 3 * forward - 2 * NUM_DRAWS * BATCH * 6 * WIDTH
    return {
        "ours_us": ours * 1e6,
        "torch_us": theirs * 1e6,
        "times_torch": theirs / ours,
        "ours_gflops": flops / ours / 1e9,
    }


# ---- cost of noise


@jax.tree_util.register_pytree_node_class
class WithoutNoise(sx.NoiseTraining):
    """The same step with no noise in the network."""

    def _log_likelihoods(self, model, batch, key):
        outputs = jax.vmap(model.network)(batch.x)
        return jax.vmap(model.likelihood.log_prob)(outputs, batch.y)[None], None


def wide_models(mixture) -> list[sx.Model]:
    """One network of four hidden layers of 512."""
    network = sx.networks.MLP(16, "scalar", 512, 4, key=jax.random.key(0))
    return [sx.Model(network, sx.ARD(mixture), sx.likelihoods.Gaussian())]


def noise_benchmark() -> dict[str, float]:
    """How many times a step without noise, and a step with one draw, a noisy one takes."""
    rng = np.random.default_rng(0)
    xs, ys = [rng.normal(size=(2048, 16)).astype(np.float32)], [rng.normal(size=2048)]
    ys = [y.astype(np.float32) for y in ys]
    settings = {"num_draws": 1, "batch_size": 256, "steps": 20}
    runs = {
        "without": chunks(WithoutNoise(**settings), wide_models(sx.Bernoulli(0.9)), xs, ys, 20),
        "bernoulli": chunks(
            sx.NoiseTraining(**settings), wide_models(sx.Bernoulli(0.9)), xs, ys, 20
        ),
        "half_cauchy": chunks(
            sx.NoiseTraining(**settings), wide_models(sx.HalfCauchy(1.0)), xs, ys, 20
        ),
    }
    seconds = alternate(runs, 9)
    ten = settings | {"num_draws": 10, "steps": 6}
    one = settings | {"steps": 6}
    draws = alternate(
        {
            "one": chunks(sx.NoiseTraining(**one), wide_models(sx.Bernoulli(0.9)), xs, ys, 6),
            "ten": chunks(sx.NoiseTraining(**ten), wide_models(sx.Bernoulli(0.9)), xs, ys, 6),
        },
        5,
    )
    xs_yacht, ys_yacht = yacht_splits()
    small = {
        n: chunks(
            sx.NoiseTraining("tail_adaptive", num_draws=n, steps=400, batch_size=BATCH),
            [
                sx.Model(
                    sx.networks.MLP(6, "scalar", WIDTH, 1, key=k),
                    sx.ARD(sx.Bernoulli(1 - DROP)),
                    sx.likelihoods.Gaussian(),
                )
                for k in jax.random.split(jax.random.key(1), NUM_SPLITS)
            ],
            xs_yacht,
            ys_yacht,
            400,
        )
        for n in (1, 10)
    }
    yacht_draws = alternate({"one": small[1], "ten": small[10]}, 5)
    return {
        "step_ms": seconds["without"] / 20 * 1e3,
        "bernoulli": seconds["bernoulli"] / seconds["without"],
        "half_cauchy": seconds["half_cauchy"] / seconds["without"],
        "ten_draws_wide": draws["ten"] / draws["one"],
        "ten_draws_yacht": yacht_draws["ten"] / yacht_draws["one"],
    }


def main() -> None:
    """Measure, print, write."""
    results = {
        **machine(),
        "torch": torch.__version__,
        "yacht": yacht_benchmark(),
        "noise": noise_benchmark(),
        "batched_product_gflops": product_rate((20, 320, 50), (20, 50, 50), 200),
        "peak_product_gflops": product_rate((2048, 2048), (2048, 2048), 2),
    }
    yacht, noise = results["yacht"], results["noise"]
    rows = [
        ("yacht: model-steps, times PyTorch", f"{yacht['times_torch']:.1f}", "at least 40"),
        ("yacht: microseconds a model-step", f"{yacht['ours_us']:.1f}", ""),
        ("PyTorch: microseconds a step", f"{yacht['torch_us']:.0f}", ""),
        ("Bernoulli noise, times a step without", f"{noise['bernoulli']:.2f}", "at most 1.15"),
        ("half-Cauchy noise, times a step without", f"{noise['half_cauchy']:.2f}", "at most 1.30"),
        ("ten draws, times one, 4 x 512", f"{noise['ten_draws_wide']:.1f}", "at most 8"),
        ("ten draws, times one, yacht", f"{noise['ten_draws_yacht']:.1f}", "at most 8"),
        ("yacht: GFLOP/s", f"{yacht['ours_gflops']:.1f}", ""),
        (
            "batched product 20 x 320 x 50 x 50, GFLOP/s",
            f"{results['batched_product_gflops']:.0f}",
            "",
        ),
        ("product 2048 squared, GFLOP/s", f"{results['peak_product_gflops']:.0f}", ""),
    ]
    publish("noise_speed", rows, results)


if __name__ == "__main__":
    main()
