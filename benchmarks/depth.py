"""Depth selection against networks of fixed depth, on targets of known depth.

    python benchmarks/depth.py fixed add-20 ard-add-20      # the comparison
    python benchmarks/depth.py add-4:0-9 add-10:0-9         # the picture: other depths offered
    python benchmarks/depth.py table                        # table and picture from the results

A target is made of k residual tanh blocks of width 4 on 4 inputs. Each argument is one program, of
all thirty targets or of those whose numbers are given. It writes to results/depth.json when it has
ended, and several may run at the same time. Settings were chosen on other targets (seeds 100 to
103, 200 and 201).
"""

import fcntl
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
METHOD = sx.VariationalEM(steps=20_000, batch_size=64, num_draws=1, warm_up=0.5, chunk_steps=2_000)
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


def models_of(part: str, key: jax.Array) -> dict[int, sx.Model]:
    """The models of one part, by the number of blocks that each has."""
    mixture, likelihood = sx.HalfCauchy(1.0), sx.likelihoods.Gaussian()
    if part == "fixed":
        prior = sx.ARD(mixture)
        return {
            num: sx.Model(FixedDepth(num, key=key), prior, likelihood, frozen=["in_use"])
            for num in range(MOST_FIXED + 1)
        }
    name, offered = part.rsplit("-", 1)
    prior = STRUCTURES[name](mixture)
    return {int(offered): sx.Model(resnet(int(offered), key), prior, likelihood)}


def measure(part: str, targets: list[tuple[int, int]]) -> list[dict]:
    """Error and blocks left of every fit of a part to these targets."""
    marks, models, data, keys = [], [], [], []
    for seed, blocks in targets:
        key = jax.random.key(10 * seed + blocks)
        for num, model in models_of(part, key).items():
            marks.append({"planted": blocks, "seed": seed, "blocks": num})
            models.append(model)
            data.append(planted(blocks, seed))
            keys.append(jax.random.fold_in(key, num))
    xs, ys, x_tests, truths = zip(*data, strict=True)
    posts = sx.fit_many(models, xs, ys, METHOD, keys=jnp.stack(keys), progress=False)
    for mark, post, x, truth in zip(marks, posts, x_tests, truths, strict=True):
        on = post.relevance().layers_on
        mark["left"] = sum(bool(value[0]) for name, value in on.items() if "blocks" in name)
        mark["rmse"] = float(np.sqrt(np.mean((post.predict(x).mean - truth) ** 2)))
        mark["bound"] = float(np.mean(post.history.objective[-500:]))
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


def compare(fits: list[dict], fixed: list[dict], blocks: int) -> dict[str, np.ndarray]:
    """Each fit to a target of so many blocks, beside the networks of fixed depth."""
    scores: dict[str, list] = {"rmse": [], "left": [], "best": [], "ratio": [], "typical": []}
    for fit in fits:
        if fit["planted"] != blocks:
            continue
        same = [f for f in fixed if (f["planted"], f["seed"]) == (blocks, fit["seed"])]
        best = min(same, key=lambda f: f["rmse"])
        scores["rmse"].append(fit["rmse"])
        scores["left"].append(fit["left"])
        scores["best"].append(best["blocks"])
        scores["ratio"].append(fit["rmse"] / best["rmse"])
        scores["typical"].append(fit["rmse"] / np.median([f["rmse"] for f in same]))
    return {name: np.array(values) for name, values in scores.items()}


def tabulate(parts: dict) -> None:
    """The comparison, into benchmarks/README.md."""
    rows, fixed = [], parts["fixed"]
    # For comparison: networks that have exactly as many blocks as the target.
    right = [f | {"left": f["blocks"]} for f in fixed if f["blocks"] == f["planted"]]
    compared: dict[str, list[dict]] = {name: parts[f"{name}-20"] for name in STRUCTURES}
    for name, fits in (compared | {"k blocks": right}).items():
        for blocks in BLOCKS:
            scores = compare(fits, fixed, blocks)
            left = scores["left"]
            close, small = scores["ratio"] <= 1.1, left <= scores["best"] + 1
            rows.append(
                (
                    f"{name}, k = {blocks}",
                    f"{np.median(scores['rmse']):.3f}",
                    f"{np.median(scores['typical']):.2f}",
                    f"{np.median(scores['ratio']):.2f}",
                    f"{left.mean():.1f} ({left.min()} to {left.max()})",
                    f"{scores['best'].mean():.1f}",
                    f"{close.sum()}",
                    f"{small.sum()}",
                    f"{(close & small).sum()} of {len(close)}",
                )
            )
    head = (
        "", "RMSE", "times the median", "times the best", "blocks left", "the best has",
        "within 1.1", "at most one more", "both",
    )  # fmt: skip
    write_table("depth", rows, head)


def draw(parts: dict) -> None:
    """Error and blocks left against the depth offered, for the docs."""
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.6), sharex=True, sharey="row", squeeze=False)
    figure.set_layout_engine("constrained")
    for column, (name, structure) in zip(axes.T, STRUCTURES.items(), strict=True):
        above, below = column
        offered = sorted(int(p.rsplit("-", 1)[1]) for p in parts if p.rsplit("-", 1)[0] == name)
        for place, blocks in enumerate(BLOCKS):
            comparisons = [compare(parts[f"{name}-{n}"], parts["fixed"], blocks) for n in offered]
            _points(above, offered, [f["typical"] for f in comparisons], place, f"k = {blocks}")
            _points(below, offered, [f["left"] for f in comparisons], place, f"k = {blocks}")
        above.axhline(1.0, color="0.6", lw=0.8)
        above.set_title(structure.__name__, loc="left")
        below.set_xlabel("residual layers offered")
        below.set_xticks(offered)
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
            write(part, measure(part, targets))
        print(argument, f"{time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
