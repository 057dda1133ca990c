"""Puts benchmarks/results/scaling.json and streaming.json into the tables of docs/scaling.md."""

import json
from typing import Any

from common import HERE, RESULTS, write_table

PAGE = HERE.parent / "docs" / "scaling.md"
UNKNOWN = "not measured yet"
# What one machine cannot measure, `n`, `a` and `f` of the page: bytes a second that a GPU sends
# over a network of 400 Gbit/s, seconds of the shortest sum there, bytes a second to a file.
NETWORK, LATENCY, FILE = 50e9, 20e-6, 2e9
GPUS, ROWS, COLUMNS, BATCH = 1000, 10**9, 20, 128


def host_devices(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """The members of an ensemble over host devices."""
    (run,) = results["members over host devices"].values()
    return [(devices, *work(figures)) for devices, figures in run["devices"].items()]


def processes(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """The members of an ensemble over processes, with cores of their own and all on all cores."""
    (run,) = results["members over processes"].values()
    cases = [
        (num, "all" if num == "1" else "its own", figures)
        for num, figures in run["processes"].items()
    ] + [
        (num, "all, shared", figures)
        for num, figures in run["processes that share all cores"].items()
    ]
    return [
        (
            num, cores, *work(figures), f"{figures['processor_seconds_to_start']:.0f}",
            f"{figures['processor_seconds_to_start_with_programs_kept']:.0f}",
            f"{figures['times_the_work_of_one_in_all']:.2f}",
        )
        for num, cores, figures in cases
    ]  # fmt: skip


def work(figures: dict[str, float]) -> tuple[str, ...]:
    """What steps took beside those of one device or process."""
    return (
        f"{figures['processor_us_a_model_step']:.0f}", f"{figures['times_the_work_of_one']:.2f}",
        f"{figures['times_as_fast_as_one']:.2f}", f"{figures['sent_along_members']:.0f}",
    )  # fmt: skip


def one_device(run: dict[str, Any]) -> list[tuple[str, ...]]:
    """Each point of each line, both engines side by side."""
    points: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in run["points"]:
        place = entry["line"], entry["members"], entry["rows"], entry["width"]
        points.setdefault(place, {})[entry["engine"]] = entry
    order = sorted(points, key=lambda place: (["members", "rows", "width"].index(place[0]), place))
    return [
        (
            line, f"{members:,}", f"{rows:,}", f"{width:,}",
            *(
                f"{engine[name][what]:{form}}" if name in engine else ""
                for name in ("em", "noise")
                for what, form in (("us_a_model_step", ".1f"), ("share", ".0%"))
            ),
        )
        for line, members, rows, width in order
        for engine in [points[line, members, rows, width]]
    ]  # fmt: skip


def profiled(run: dict[str, Any]) -> list[tuple[str, ...]]:
    """What a step of all members goes to, in microseconds."""
    return [
        (
            point["engine"].replace("em", "EM"), str(point["members"]), str(point["width"]),
            f"{point['us_a_step']:.0f}", *(f"{spent:.0f}" for spent in point["us"].values()),
            f"{max(point['us_a_step'] - sum(point['us'].values()), 0):.0f}",
            f"{point['kernels_a_step']:.0f}",
        )
        for point in run["points"]
    ]  # fmt: skip


def streaming(results: dict[str, Any]) -> list[tuple[str, ...]]:
    """Fits to files, by machine and by rows."""
    return [
        (
            name, f"{run['rows']:,}", f"{run['rows_a_second']:,.0f}",
            f"{run['share_in_program']:.1%}", gauge(run), f"{run['peak_mb']:,.0f} MB",
        )
        for name, entry in results.items()
        for run in entry["runs"]
    ]  # fmt: skip


def gauge(run: dict[str, Any]) -> str:
    """The mean of what the driver of a GPU said, if it was asked."""
    readings = run.get("driver_utilization_percent")
    return f"{sum(readings) / len(readings):.0f}%" if readings else ""


def find(run: dict[str, Any], line: str, **place: int) -> dict[str, float]:
    """What variational EM was measured to take at a point."""
    for entry in run["points"]:
        if (entry["line"], entry["engine"]) == (line, "em") and place.items() <= entry.items():
            return entry
    raise KeyError(place)


def constants(run: dict[str, Any]) -> dict[str, float]:
    """The measured constants of the page's last section."""
    return {
        "t1": find(run, "members", members=1)["us_a_model_step"] * 1e-6,
        "t16": 16 * find(run, "members", members=16)["us_a_model_step"] * 1e-6,
        "R": find(run, "width", width=2048)["gflops"] * 1e9,
        "h": run["gb_a_second_from_host"] * 1e9,
    }


def hours(seconds: float) -> str:
    """So many seconds, in words."""
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.2g} s"


def billion_rows(c: dict[str, float]) -> list[tuple[str, str, str]]:
    """One pass of sixteen members over a billion rows."""
    along = GPUS // 16
    local = BATCH * along
    step = c["t1"] + LATENCY
    return [
        ("one GPU, batches of 128", "`N t16 / 128`", hours(ROWS / BATCH * c["t16"])),
        ("16 GPUs, one member each", "`N t1 / 128`", hours(ROWS / BATCH * c["t1"])),
        (
            f"1,000 GPUs, {along} for each member, the same batches",
            "`N (t1 + a) / 128`",
            hours(ROWS / BATCH * step),
        ),
        (
            f"the same with batches of {local:,}",
            f"`N (t1 + a) / {local}`",
            hours(ROWS / local * step),
        ),
        (
            "the table itself, to the devices",
            f"`80 N / ({along} h)`",
            hours(4 * COLUMNS * ROWS / (along * c["h"])),
        ),
    ]


def billion_weights(c: dict[str, float]) -> list[tuple[str, str, str]]:
    """A hundred members of a billion weights each, ten GPUs for each member."""
    weights, members, along = 1e9, 100, 10
    # Means and variances forward, twice that backward, for each of two draws.
    example = 2 * 3 * 2 * 2 * weights
    sums = 2 * (along - 1) / along * 2 * 4 * weights / NETWORK
    return [
        (
            "memory of a member: means, deviations, their slopes, Adam's moments",
            "`8 x 4 P`",
            f"{32 * weights / 1e9:.0f} GB",
        ),
        (
            "arithmetic, one pass over a billion rows",
            "`100 x 24 P N / (1000 R)`",
            hours(members * example * ROWS / (GPUS * c["R"])),
        ),
        ("sums over ten GPUs, each step", "`14.4 P / n`", hours(sums)),
        (
            "rows of a GPU's batch for which sums take a tenth of a step",
            "`10 x 14.4 R / (24 n)`",
            f"{10 * sums * c['R'] / example:,.0f}",
        ),
        (
            "a checkpoint, of the last state and the best, written by process 0",
            "`100 x 48 P / f`",
            hours(members * 12 * 4 * weights / FILE),
        ),
        (
            "the ensemble on one device, after the fit",
            "`100 x 8 P`",
            f"{members * 8 * weights / 1e9:,.0f} GB",
        ),
    ]


def main() -> None:
    """Fill in the page."""
    results = json.loads((RESULTS / "scaling.json").read_text())
    head = ("processor microseconds a model-step", "times the work of one",
            "times as fast as one", "operations that send anything")  # fmt: skip
    write_table("host devices", host_devices(results), ("devices", *head), PAGE)
    head = ("processes", "cores of each", *head, "processor seconds to start, all together",
            "the same with programs kept", "the whole fit, times the work of one")  # fmt: skip
    write_table("processes", processes(results), head, PAGE)
    streamed = RESULTS / "streaming.json"
    if streamed.exists():
        head = ("machine", "rows", "rows a second", "share in the program", "driver's gauge",
                "peak of host memory")  # fmt: skip
        write_table("streaming", streaming(json.loads(streamed.read_text())), head, PAGE)
    runs = {name: run for name, run in results.get("one device", {}).items() if name != "cpu"}
    device, run = next(iter(runs.items()), (UNKNOWN, {"points": []}))
    head = ("line", "members", "rows", "width", "EM, microseconds a model-step",
            "share of the product's rate", "noise, microseconds", "share")  # fmt: skip
    write_table("one device", one_device(run), head, PAGE)
    if device in results.get("profile", {}):
        head = ("engine", "members", "width", "a step", "products", "transposes", "sums",
                "the rest", "nothing", "kernels")  # fmt: skip
        write_table("profile", profiled(results["profile"][device]), head, PAGE)
    try:
        known = constants(run)
    except KeyError:
        nothing = dict.fromkeys(("t1", "t16", "R", "h"), float("nan"))
        shown = [(name, UNKNOWN) for name in nothing]
        known = nothing
    else:
        shown = [
            ("`t1`, a step of one member", f"{known['t1'] * 1e6:.0f} microseconds"),
            ("`t16`, a step of sixteen", f"{known['t16'] * 1e6:.0f} microseconds"),
            ("`R`, products at width 2,048", f"{known['R'] / 1e12:.0f} TFLOP/s"),
            ("`h`, from the host's memory to a device", f"{known['h'] / 1e9:.0f} GB/s"),
        ]
    write_table("constants", shown, ("measured", device), PAGE)
    for name, rows in (("rows", billion_rows(known)), ("weights", billion_weights(known))):
        told = [(*row[:2], UNKNOWN if "nan" in row[2] else row[2]) for row in rows]
        write_table(f"billion {name}", told, ("", "formula", "comes to"), PAGE)


if __name__ == "__main__":
    main()
