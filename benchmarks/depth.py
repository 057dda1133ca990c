"""Depth selection against networks of fixed depth, on targets of known depth.

    python benchmarks/depth.py fixed add-20 refit-20                # the comparison
    python benchmarks/depth.py add-4:0-9 add-10:0-9 add-40:0-9      # the picture: other depths
    python benchmarks/depth.py table                                # both from the results

A target is made of k residual tanh blocks of width 4 on 4 inputs. Each argument is one program, of
all thirty targets or of those whose numbers are given. It writes to results/depth.json when it has
ended, and several may run at the same time. `refit-20` reads what `add-20` has chosen. Settings
were chosen on other targets (seeds 100 to 107, 200 and 201). Earlier comparisons were on seeds 0 to
9 and 300 to 309 (`earlier` in the file).
"""

import fcntl
import itertools
import json
import sys
import time
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from common import HERE, RESULTS, machine, write_table
from matplotlib.axes import Axes

import scalemix as sx

FILE = RESULTS / "depth.json"
PICTURE = HERE.parent / "docs" / "images" / "depth.png"
NUM_ROWS, NUM_TEST, NOISE = 700, 2000, 0.1
BLOCKS, SEEDS = (1, 2, 4), range(400, 410)
TARGETS = [(seed, blocks) for seed in SEEDS for blocks in BLOCKS]
WIDTH, MOST_FIXED = 32, 8
METHOD = sx.VariationalEM(
    steps=20_000, batch_size=64, num_draws=1, warm_up=0.5, num_members=10, chunk_steps=2_000
)
# The members one by one, or as the ensemble that they are.
HOW = ("alone", "together")


def planted(blocks: int, seed: int):
    """Inputs and noisy targets to train on; other inputs, and their targets without noise."""
    rng = np.random.default_rng([blocks, seed])
    weights, out = rng.normal(size=(blocks, 4, 4)), rng.normal(size=4)
    x = h = rng.normal(size=(NUM_ROWS + NUM_TEST, 4))
    for weight in weights:
        h = h + np.tanh(h @ weight)
    target = (h @ out - np.mean(h @ out)) / np.std(h @ out)
    y = target[:NUM_ROWS] + NOISE * rng.normal(size=NUM_ROWS)
    return x[:NUM_ROWS], y, x[NUM_ROWS:], target[NUM_ROWS:]


class FixedDepth(eqx.Module):
    """A ResNet of `num` residual layers, with others beside them that are not in use.

    So networks of all depths have the same shapes and are one program.
    """

    whole: sx.networks.ResNet
    in_use: jax.Array

    def __init__(self, num: int, *, key: jax.Array):
        self.whole = resnet(MOST_FIXED, key)
        self.in_use = (jnp.arange(MOST_FIXED) < num).astype(jnp.float32)

    def __call__(self, x: jax.Array) -> jax.Array:
        h = self.whole.activation(self.whole.first(x))
        for use, block in zip(self.in_use, self.whole.blocks, strict=True):
            h = use * self.whole.activation(block(h)) + h
        return self.whole.last(h)


def resnet(num_blocks: int, key: jax.Array) -> sx.networks.ResNet:
    """A residual network: a first layer, residual layers, a last one."""
    return sx.networks.ResNet(4, "scalar", WIDTH, num_blocks + 1, key=key)


def models_of(part: str, keys: dict[tuple[int, int], jax.Array]) -> list[tuple]:
    """The models of one part: target, number of blocks, model, and key of the fit."""
    name, _, offered = part.partition("-")
    mixture, likelihood = sx.HalfCauchy(1.0), sx.likelihoods.Gaussian()
    if name == "add":
        sizes = {target: [int(offered)] for target in keys}
        build, prior, frozen, mark = resnet, sx.ADD(mixture), None, 0
    else:
        every = {target: [*range(MOST_FIXED + 1)] for target in keys}
        # A refit starts from numbers of its own, not from those of the network of that depth.
        sizes, mark = (chosen_depths(f"add-{offered}"), 100) if name == "refit" else (every, 0)
        build, prior, frozen = FixedDepth, sx.ARD(mixture), ["in_use"]
    networks = [
        (
            target,
            num,
            build(num, key=jax.random.fold_in(key, mark)),
            jax.random.fold_in(key, mark + num),
        )
        for target, key in keys.items()
        for num in sizes[target]
    ]
    # What a model finds out about its network is the same for all of them, and takes seconds.
    first = sx.Model(networks[0][2], prior, likelihood, frozen=frozen)
    return [
        (target, num, eqx.tree_at(lambda m: m.network, first, network), key)
        for target, num, network, key in networks
    ]


def chosen_depths(part: str) -> dict[tuple[int, int], list[int]]:
    """How many blocks a refit has for each target: as many as two members under ADD have left.

    One member alone that has more is outvoted.
    """
    fits = json.loads(FILE.read_text())["parts"][part]
    return {(fit["seed"], fit["planted"]): [sorted(fit["left"])[-2]] for fit in fits}


def measure(part: str, targets: list[tuple[int, int]]) -> list[dict]:
    """Errors and blocks left of every fit of a part to these targets, by member."""
    keys = {(seed, blocks): jax.random.key(10 * seed + blocks) for seed, blocks in targets}
    planned = models_of(part, keys)
    data = [planted(blocks, seed) for (seed, blocks), *_ in planned]
    xs, ys, x_tests, truths = zip(*data, strict=True)
    posts = sx.fit_many(
        [model for _, _, model, _ in planned], xs, ys, METHOD,
        keys=jnp.stack([key for *_, key in planned]), progress=False,
    )  # fmt: skip
    fits = []
    for ((seed, blocks), num, *_), post, x, truth in zip(
        planned, posts, x_tests, truths, strict=True
    ):
        fit = {"planted": blocks, "seed": seed, "blocks": num}
        fit["left"] = [num] * METHOD.num_members
        if part.startswith("add"):
            on = post.relevance().layers_on
            fit["left"] = np.sum([on[name] for name in on if "blocks" in name], axis=0).tolist()
        means = np.stack([member.predict(x).mean for member in post.members])
        fit["rmse"] = np.sqrt(np.mean((means - truth) ** 2, axis=1)).tolist()
        # The mean of an ensemble is the mean of its members' means.
        fit["together"] = float(np.sqrt(np.mean((means.mean(0) - truth) ** 2)))
        fits.append(fit)
    return fits


def write(part: str, fits: list[dict]) -> None:
    """Add fits to the file, which other processes may write to as well."""
    with Path(f"{FILE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        blank = {"machines": {}, "parts": {}}
        results = json.loads(FILE.read_text()) if FILE.exists() else blank
        results["machines"][part] = machine()

        def name(fit: dict) -> tuple[int, ...]:
            return fit["seed"], fit["planted"], fit["blocks"]

        known = {name(fit): fit for fit in results["parts"].get(part, [])}
        known |= {name(fit): fit for fit in fits}
        results["parts"][part] = [known[key] for key in sorted(known)]
        FILE.write_text(lines(results) + "\n")


def lines(results: object, depth: int = 4) -> str:
    """JSON with a fit on each line."""
    if depth == 0 or not isinstance(results, dict | list) or not results:
        return json.dumps(results)
    if isinstance(results, list):
        return "[\n" + ",\n".join(lines(item, 0) for item in results) + "\n]"
    parts = (f"{json.dumps(name)}: {lines(item, depth - 1)}" for name, item in results.items())
    return "{\n" + ",\n".join(parts) + "\n}"


def outcomes(fit: dict, how: str) -> list[tuple[float, int]]:
    """Error and blocks left, of each member or of all together."""
    if how == "alone":
        return list(zip(fit["rmse"], fit["left"], strict=True))
    return [(fit["together"], max(fit["left"]))]


def compare(fits: list[dict], fixed: list[dict], blocks: int, how: str) -> dict[str, np.ndarray]:
    """Each fit to a target of so many blocks, beside the networks of fixed depth.

    Members alone are compared number by number: the first of the one with the first of each of the
    others.
    """
    scores: dict[str, list] = {"rmse": [], "left": [], "best": [], "ratio": [], "typical": []}
    for fit in fits:
        if fit["planted"] != blocks:
            continue
        same = [f for f in fixed if (f["planted"], f["seed"]) == (blocks, fit["seed"])]
        errors = np.array([[rmse for rmse, _ in outcomes(f, how)] for f in same])
        for start, (rmse, left) in enumerate(outcomes(fit, how)):
            best = int(np.argmin(errors[:, start]))
            scores["rmse"].append(rmse)
            scores["left"].append(left)
            scores["best"].append(same[best]["blocks"])
            scores["ratio"].append(rmse / errors[best, start])
            scores["typical"].append(rmse / np.median(errors[:, start]))
    return {name: np.array(values) for name, values in scores.items()}


def tabulate(parts: dict) -> None:
    """The comparison, into benchmarks/README.md."""
    fixed = parts["fixed"]
    compared: dict[str, list[dict]] = {
        "ADD": parts["add-20"],
        "ADD, then refitted": parts["refit-20"],
        # Beside them, networks that have exactly as many blocks as the target.
        "k blocks": [f for f in fixed if f["blocks"] == f["planted"]],
    }
    rows = []
    for how, (name, fits) in itertools.product(HOW, compared.items()):
        if how == "alone" and fits is parts["refit-20"]:
            # Their depth was chosen by an ensemble.
            continue
        row = [f"{how}: {name}"]
        for blocks in BLOCKS:
            scores = compare(fits, fixed, blocks, how)
            close, small = scores["ratio"] <= 1.1, scores["left"] <= scores["best"] + 1
            left, best = scores["left"], scores["best"].mean()
            row += [
                f"{np.median(scores['rmse']):.3f} ({np.median(scores['ratio']):.2f})",
                f"{left.mean():.1f} ({left.min():g} to {left.max():g}); {best:.1f}",
                f"{close.sum()}, {small.sum()}, **{(close & small).sum()}** of {len(close)}",
            ]
        rows.append(tuple(row))
    columns = ("RMSE (times the best)", "blocks left; the best has", "error, blocks, both reached")
    head = [f"k = {blocks}: {column}" for blocks in BLOCKS for column in columns]
    write_table("depth", rows, ("", *head))


def draw(parts: dict) -> None:
    """Error and blocks left against the depth offered, for the docs."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(6, 5.6), sharex=True)
    figure.set_layout_engine("constrained")
    offered = sorted(int(part.removeprefix("add-")) for part in parts if part.startswith("add-"))
    for place, blocks in enumerate(BLOCKS):
        comparisons = [
            compare(parts[f"add-{n}"], parts["fixed"], blocks, "together") for n in offered
        ]
        _points(above, offered, [f["typical"] for f in comparisons], place, f"k = {blocks}")
        _points(below, offered, [f["left"] for f in comparisons], place, f"k = {blocks}")
    above.axhline(1.0, color="0.6", lw=0.8)
    below.set_xlabel("residual layers offered")
    below.set_xticks(offered)
    above.set_ylabel("RMSE, times the median\nof fixed depths 0 to 8")
    below.set_ylabel("residual layers left")
    above.legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def _points(ax: Axes, x: list[int], values: list[np.ndarray], place: int, label: str) -> None:
    """Every fit as a point, and the medians as a line."""
    shift = 0.5 * (place - 1)
    for at, of in zip(x, values, strict=True):
        ax.plot(np.full(len(of), at + shift), of, ".", color=f"C{place}", alpha=0.35)
    medians = [np.median(of) if len(of) else np.nan for of in values]
    ax.plot(np.array(x) + shift, medians, "-", color=f"C{place}", label=label)


def main() -> None:
    """Measure the parts named, and draw."""
    for argument in sys.argv[1:]:
        if argument == "table":
            parts = json.loads(FILE.read_text())["parts"]
            tabulate(parts)
            draw(parts)
            continue
        part, _, numbers = argument.partition(":")
        first, _, last = numbers.partition("-")
        targets = TARGETS[int(first) : int(last)] if numbers else TARGETS
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sx.UselessFitWarning)
            write(part, measure(part, targets))
        print(argument, f"{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
