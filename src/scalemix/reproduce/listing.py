"""Every published number with its state: reached, not reached, or not run."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from scalemix.reproduce.scores import (
    BY_BATCH,
    MEASURES,
    TABLES,
    WAYS,
    as_published,
    markdown,
    published,
    reaches,
    sets_of,
    summary,
)


class Compared(NamedTuple):
    """A published number, and the cell that is compared with it, if there is one."""

    method: str
    name: str
    measure: str
    number: tuple[float, float]
    cell: dict[str, Any] | None
    reached: bool

    @property
    def words(self) -> str:
        """What is published and what we have, in a line."""
        assert self.cell is not None
        mean, error = summary(self.cell, self.measure)
        return (
            f"- {self.method}, {self.name}: {MEASURES[self.measure]} {mean:.3f} ({error:.3f}), "
            f"published {self.number[0]:g}"
        )


def compared(content: dict[str, Any], way: str) -> Iterator[Compared]:
    """The published numbers of the sets that were run, if importance weights go this way."""
    cells, printed = content["cells"], as_published(content)
    for table, (_, methods) in TABLES.items():
        for method in methods:
            if method in WAYS and method != way:
                continue
            for name in sets_of(cells, table):
                cell = cells.get(f"{table}/{name}/{method}")
                for measure in MEASURES:
                    number = published(method, measure, name, printed=printed)
                    if number is None:
                        continue
                    is_reached = cell is not None and reaches(
                        cell, method, measure, name, printed=printed
                    )
                    yield Compared(method, name, measure, number, cell, bool(is_reached))


def shortfalls(content: dict[str, Any]) -> str:
    """How often the published numbers are reached, every one that is not, and what is not run."""
    lines = []
    for way, words in WAYS.items():
        numbers = list(compared(content, way))
        run = [one for one in numbers if one.cell is not None]
        missed = [one for one in run if not one.reached]
        counts = f"{len(run) - len(missed)} of {len(run)}"
        if way == BY_BATCH:
            lines.append(f"{counts} published numbers are reached.")
            lines += ["Not reached:", "", *(one.words for one in missed)] if missed else []
            absent: dict[str, list[str]] = {}
            for one in numbers:
                if one.cell is None and one.name not in absent.setdefault(one.method, []):
                    absent[one.method].append(one.name)
            lines += [""] * bool(absent)
            lines += [f"Not run yet: {method} on {', '.join(on)}." for method, on in absent.items()]
        elif len(run) == len(numbers) and any(one.method == way for one in run):
            mine = [one.words for one in missed if one.method == way]
            lines += ["", f"With {words} in their column, {counts} are reached."]
            lines += ["Not reached in this column:", "", *mine] if mine else []
    return "\n".join(lines)


def listing(content: dict[str, Any]) -> str:
    """All published numbers, importance weighting by batch, each with what we have."""
    rows = []
    for place, one in enumerate(compared(content, BY_BATCH), start=1):
        ours, state = "", "not run"
        if one.cell is not None:
            mean, error = summary(one.cell, one.measure)
            ours, state = f"{mean:.3f} ({error:.3f})", "reached" if one.reached else "not reached"
        number = f"{one.number[0]:g}" + (f" ± {one.number[1]:g}" if one.number[1] else "")
        rows.append([str(place), one.method, one.name, MEASURES[one.measure], number, ours, state])
    heads = ["", "method", "set", "measure", "published", "ours", "state"]
    return "\n".join(markdown(heads, rows)).rstrip()
