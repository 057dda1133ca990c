"""Small fits for reports, with names that would do harm if they could; each is made once."""

import dataclasses
import functools

import jax
import numpy as np

import scalemix as sx
from scalemix.analysis.evaluation import find_figures
from scalemix.analysis.report import Column, ReportedFit, Story, build_report
from scalemix.analysis.sizes import Sizes
from scalemix.data.scaling import UNSCALED
from scalemix.posterior.history import History
from scalemix.posterior.networks import OneNetwork

HOSTILE = "<script>console.error('ran')</script>"
NAMES = [HOSTILE, "cost in $ and $x^", "\"onload='alert(1)' & more", "名前"]
KEY = jax.random.key(0)
X = np.random.default_rng(0).normal(size=(100, len(NAMES)))
TRAIN, TEST = slice(0, 80), slice(80, 100)
COLUMNS = [
    Column(NAMES[0], (0,), f"a number that says {HOSTILE}"),
    Column(
        NAMES[1], (1, 2), "two inputs", np.array(["low", HOSTILE], object),
        np.array([[0.0, 0.0], [1.0, 1.0]]),
    ),
    Column(NAMES[3], (3,)),
]  # fmt: skip
SIZES = Sizes(
    width={"layers.1": 3.5}, hidden={"layers.1": 6}, units={"layers.1": (3, 4)},
    parameters=(50, 20), change=0.03,
)  # fmt: skip


@functools.cache
def make_story(
    classes: tuple[str, ...] | None = None, num_fits: int = 1, tested: bool = True
) -> Story:
    """A story of small networks; the target is of four inputs the first, or its sign."""
    y = (X[:, 0] > 0).astype(np.int32) if classes else X[:, 0]
    likelihood = sx.likelihoods.Categorical(2) if classes else sx.likelihoods.Gaussian()
    fits = []
    for i in range(num_fits):
        network = sx.networks.MLP(4, likelihood.num_outputs, width=6, depth=1, key=KEY)
        model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), likelihood)
        method = sx.VariationalEM(steps=30) if i else sx.NoiseTraining(steps=30)
        posterior = sx.fit(model, X[TRAIN], y[TRAIN], method, key=KEY)
        name = HOSTILE if num_fits == 1 else f"fit {i}"
        fits.append(_reported(name, posterior, y, classes, tested))
    return _tell(fits, y, classes, tested)


def untrained_story(
    likelihood: sx.likelihoods.Likelihood, y: np.ndarray, targets: tuple[str, ...] = ()
) -> Story:
    """A story of a network that has learned nothing, of some kind of target."""
    network = sx.networks.MLP(4, likelihood.num_outputs, width=6, depth=1, key=KEY)
    model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), likelihood)
    empty = History(*np.zeros((3, 0)))
    posterior = sx.Posterior(OneNetwork(model), UNSCALED, empty, KEY)
    story = _tell([_reported("The fit", posterior, y, None, True)], y, None, True)
    return dataclasses.replace(story, targets=targets)


def _reported(name, posterior, y, classes, tested) -> ReportedFit:
    figures = {}
    if tested:
        predictive = posterior.predict(X[TEST])
        figures = find_figures(
            predictive, y[TEST], classes=bool(classes), key=KEY, trained_on=y[TRAIN]
        )
    return ReportedFit(name, posterior, figures, {HOSTILE: HOSTILE}, SIZES)


def _tell(fits, y, classes, tested) -> Story:
    return Story(
        title=f"A title with {HOSTILE}",
        facts=[("file", HOSTILE), ("rows", "80 & 20")],
        columns=COLUMNS,
        target=HOSTILE,
        fits=fits,
        train=(X[TRAIN], y[TRAIN]) if tested else None,
        test=(X[TEST], y[TEST]) if tested else None,
        classes=classes,
        tested_on="20 rows of <b>data</b>.csv",
        cells={NAMES[0]: [HOSTILE] * 20} if tested else {},
        left_out={"id": f"numbers the rows of {HOSTILE}"},
    )


@functools.cache
def regression_page() -> str:
    """The report of two fits of numbers."""
    return build_report(make_story(num_fits=2))


@functools.cache
def classification_page() -> str:
    """The report of a fit of classes."""
    return build_report(make_story(classes=(HOSTILE, "no")))
