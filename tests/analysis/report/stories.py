"""Small fits for reports, with names that would do harm if they could."""

import jax
import numpy as np

import scalemix as sx
from scalemix.analysis.evaluation import evaluate
from scalemix.analysis.report import ReportedFit, Story

HOSTILE = "<script>console.error('ran')</script>"
NAMES = [HOSTILE, "cost in $ and $x^", "\"onload='alert(1)' & more", "名前"]
KEY = jax.random.key(0)


def make_story(classes: tuple[str, ...] | None = None, num_fits: int = 1, tested: bool = True):
    """A story of small networks; the target is of four columns the first, or its sign."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, len(NAMES)))
    y = (x[:, 0] > 0).astype(np.int32) if classes else x[:, 0]
    likelihood = sx.likelihoods.Categorical(2) if classes else sx.likelihoods.Gaussian()
    fits = []
    for i in range(num_fits):
        network = sx.networks.MLP(4, likelihood.num_outputs, width=6, depth=1, key=KEY)
        model = sx.Model(network, sx.ARD(sx.InverseGamma(3.0, 3.0)), likelihood)
        method = sx.VariationalEM(steps=30) if i else sx.NoiseTraining(steps=30)
        posterior = sx.fit(model, x[:40], y[:40], method, key=KEY)
        figures = {}
        if tested:
            predictive = posterior.predict(x[40:])
            figures = evaluate(predictive, y[40:], classes=bool(classes), key=KEY)
        name = HOSTILE if num_fits == 1 else f"fit {i}"
        fits.append(ReportedFit(name, posterior, figures, {HOSTILE: HOSTILE}, {"units": "3 of 6"}))
    return Story(
        title=f"A title with {HOSTILE}",
        facts=[("file", HOSTILE), ("rows", "40 & 20")],
        features=NAMES,
        groups={name: [i] for i, name in enumerate(NAMES)},
        target=HOSTILE,
        fits=fits,
        test=(x[40:], y[40:]) if tested else None,
        classes=classes,
        tested_on="20 rows of <b>data</b>.csv",
    )
