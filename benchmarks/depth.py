"""Depth selection against networks of fixed depth, on targets of known depth.

    python benchmarks/depth.py fixed add-20 ard-add-20      # the comparison
    python benchmarks/depth.py add-4:0-9 add-10:0-9         # the picture: other depths offered
    python benchmarks/depth.py table                        # table and picture from the results

A target is made of k residual tanh blocks of width 4 on 4 inputs. Each argument is one program, of
all thirty targets or of those whose numbers are given. It writes to results/depth.json when it has
ended, and several may run at the same time. Settings were chosen on other targets (seeds 100 to
107, 200 and 201).
"""

import dataclasses
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
BLOCKS, SEEDS = (1, 2, 4), range(10)
TARGETS = [(seed, blocks) for seed in SEEDS for blocks in BLOCKS]
WIDTH, MOST_FIXED = 32, 8
METHOD = sx.VariationalEM(
    steps=20_000, batch_size=64, num_draws=1, warm_up=0.5, temperature=0.7, chunk_steps=2_000
)
STARTS, LAST = 5, 2_000
COMPARED = ("fixed", "add-20", "ard-add-20")
# Each start for itself; all starts on average; the one with the highest bound; all as an ensemble.
HOW = ("alone", "on average", "best bound", "together")
STRUCTURES: dict[str, type[sx.ADD] | type[sx.ARDADD]] = {"add": sx.ADD, "ard-add": sx.ARDADD}


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


def models_of(part: str, keys: list[jax.Array]) -> list[dict[int, sx.Model]]:
    """The models of one part for each key, by the number of blocks that each has."""
    mixture, likelihood = sx.HalfCauchy(1.0), sx.likelihoods.Gaussian()
    if part == "fixed":
        networks = [{n: FixedDepth(n, key=key) for n in range(MOST_FIXED + 1)} for key in keys]
        prior, frozen = sx.ARD(mixture), ["in_use"]
    else:
        name, offered = part.rsplit("-", 1)
        networks = [{int(offered): resnet(int(offered), key)} for key in keys]
        prior, frozen = STRUCTURES[name](mixture), None
    # What a model finds out about its network is the same for all of them, and takes seconds.
    first = sx.Model(next(iter(networks[0].values())), prior, likelihood, frozen=frozen)
    return [
        {num: eqx.tree_at(lambda m: m.network, first, network) for num, network in of_key.items()}
        for of_key in networks
    ]


def measure(part: str, targets: list[tuple[int, int]], num_starts: int) -> list[dict]:
    """Errors, bounds and blocks left of every fit of a part to these targets, by start."""
    marks, models, data, keys = [], [], [], []
    of_targets = [jax.random.key(10 * seed + blocks) for seed, blocks in targets]
    for (seed, blocks), key, of_key in zip(
        targets, of_targets, models_of(part, of_targets), strict=True
    ):
        for num, model in of_key.items():
            marks.append({"planted": blocks, "seed": seed, "blocks": num})
            models.append(model)
            data.append(planted(blocks, seed))
            keys.append(jax.random.fold_in(key, num))
    xs, ys, x_tests, truths = zip(*data, strict=True)
    method = dataclasses.replace(METHOD, num_members=num_starts)
    posts = sx.fit_many(models, xs, ys, method, keys=jnp.stack(keys), progress=False)
    for mark, post, x, truth in zip(marks, posts, x_tests, truths, strict=True):
        mark["left"] = [mark["blocks"]] * num_starts
        if part != "fixed":
            on = post.relevance().layers_on
            mark["left"] = np.sum([on[name] for name in on if "blocks" in name], axis=0).tolist()
        means = np.stack([member.predict(x).mean for member in post.members])
        mark["rmse"] = np.sqrt(np.mean((means - truth) ** 2, axis=1)).tolist()
        # The mean of an ensemble is the mean of its members' means.
        mark["together"] = float(np.sqrt(np.mean((means.mean(0) - truth) ** 2)))
        last = np.atleast_2d(post.history.objective)[:, -LAST:]
        mark["bound"] = last.mean(axis=1).tolist()
    return marks


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
        FILE.write_text(json.dumps(results, indent=1) + "\n")


def outcomes(fit: dict, how: str) -> list[tuple[float, float]]:
    """Error and blocks left: of each start for itself, of one of them, or of all together."""
    if how == "alone":
        return list(zip(fit["rmse"], fit["left"], strict=True))
    if how == "on average":
        return [(float(np.exp(np.mean(np.log(fit["rmse"])))), float(np.mean(fit["left"])))]
    if how == "best bound":
        start = int(np.argmax(fit["bound"]))
        return [(fit["rmse"][start], fit["left"][start])]
    return [(fit["together"], max(fit["left"]))]


def compare(fits: list[dict], fixed: list[dict], blocks: int, how: str) -> dict[str, np.ndarray]:
    """Each fit to a target of so many blocks, beside the networks of fixed depth.

    Starts for themselves are compared number by number: the first of the one with the first of each
    of the others.
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
    compared: dict[str, list[dict]] = {name: parts[f"{name}-20"] for name in STRUCTURES}
    # Beside them, networks that have exactly as many blocks as the target.
    compared["k blocks"] = [f for f in fixed if f["blocks"] == f["planted"]]
    rows = []
    for how, (name, fits) in itertools.product(HOW, compared.items()):
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
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.6), sharex=True, sharey="row", squeeze=False)
    figure.set_layout_engine("constrained")
    for column, (name, structure) in zip(axes.T, STRUCTURES.items(), strict=True):
        above, below = column
        offered = sorted(int(p.rsplit("-", 1)[1]) for p in parts if p.rsplit("-", 1)[0] == name)
        for place, blocks in enumerate(BLOCKS):
            comparisons = [
                compare(parts[f"{name}-{n}"], parts["fixed"], blocks, "alone") for n in offered
            ]
            _points(above, offered, [f["typical"] for f in comparisons], place, f"k = {blocks}")
            _points(below, offered, [f["left"] for f in comparisons], place, f"k = {blocks}")
        above.axhline(1.0, color="0.6", lw=0.8)
        above.set_title(structure.__name__, loc="left")
        below.set_xlabel("residual layers offered")
    axes[1, 0].set_xticks(sorted({int(p.rsplit("-", 1)[1]) for p in parts if p != "fixed"}))
    axes[0, 0].set_ylabel("RMSE, times the median\nof fixed depths 0 to 8")
    axes[1, 0].set_ylabel("residual layers left")
    axes[0, 1].legend(frameon=False)
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
            write(part, measure(part, targets, STARTS if part in COMPARED else 1))
        print(argument, f"{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
