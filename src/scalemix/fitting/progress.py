"""A bar for people who wait."""

import sys
from contextlib import contextmanager

from tqdm import tqdm

from scalemix.inference.training.loop import Progress


@contextmanager
def bar(wanted: bool | None):
    """A function to report progress to, or `None`; shown by default only on a terminal."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield None
        return
    with tqdm(unit="step", dynamic_ncols=True, file=sys.stderr) as line:

        def report(progress: Progress) -> None:
            line.total = progress.num_steps
            line.set_postfix(objective=f"{progress.objective:.4g}", refresh=False)
            line.update(progress.step - line.n)

        yield report
