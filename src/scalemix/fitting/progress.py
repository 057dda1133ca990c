"""A progress bar for people who wait."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
from tqdm import tqdm

from scalemix.inference.driver import Progress


@contextmanager
def watch(
    progress: bool | None, callback: Callable[[Progress], object] | None
) -> Iterator[Callable[[Progress], None] | None]:
    """A function to report progress to, which shows a bar and tells the callback; or `None`."""
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of one argument, got {callback!r}.")
    with bar(progress) as show:
        told = [each for each in (show, callback) if each is not None]

        def report(progress: Progress) -> None:
            for each in told:
                each(progress)

        yield report if told else None


@contextmanager
def bar(wanted: bool | None) -> Iterator[Callable[[Progress], None] | None]:
    """A function to report progress to, or `None`; shown by default only on a terminal.

    Of several processes the first shows it.
    """
    if not (sys.stderr.isatty() if wanted is None else wanted) or jax.process_index():
        yield None
        return
    with tqdm(unit="step", dynamic_ncols=True, file=sys.stderr) as line:

        def report(progress: Progress) -> None:
            if progress.step < line.n:
                # A second part of the same fit has begun, such as chains after a warm start.
                line.reset()
            line.total = progress.num_steps
            line.set_postfix(objective=f"{progress.objective:.4g}", refresh=False)
            line.update(progress.step - line.n)

        yield report
