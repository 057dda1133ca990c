"""One row for each engine; for noise training, one for each way to share a draw."""

from typing import NamedTuple

import scalemix as sx
from scalemix import UselessFitWarning
from scalemix.inference.method import Method
from scalemix.posterior.diagnostics import ConvergenceWarning

IMPROPER = sx.ARD(sx.LogUniform()), "LogUniform is improper"


def two_layers(mixture: sx.mixtures.ScaleMixture, base: sx.bases.Base) -> dict[str, sx.ARD]:
    """Scales by output on another base in one layer, and what is usual in the other."""
    return {"layers.0": sx.ARD(mixture, by="output", base=base), "layers.1": sx.ARD(mixture)}


class Case(NamedTuple):
    """A method short enough that its fit is worth a warning, and a prior that it cannot use."""

    method: Method
    refused: sx.ARD
    reason: str
    warning: type[Warning]
    num_steps: int = 9
    prior: dict[str, sx.ARD] = two_layers(sx.InverseGamma(3.0, 3.0), sx.bases.Laplace())


def noise(objective: str) -> Case:
    method = sx.NoiseTraining(objective, num_draws=2, steps=9, chunk_steps=3, batch_size=4)
    if method.deterministic:
        infinite = sx.ARD(sx.HalfCauchy(1.0)), "which is infinite"
        # It needs a Gaussian first level.
        prior = two_layers(sx.InverseGamma(3.0, 3.0), sx.bases.Normal())
        return Case(method, *infinite, UselessFitWarning, prior=prior)
    # Noise that is quick to compile.
    prior = two_layers(sx.Uniform(0.5, 1.5), sx.bases.StudentT(4.0))
    return Case(method, *IMPROPER, UselessFitWarning, prior=prior)


def chains(sampler: str) -> Case:
    method = sx.MCMC(
        sampler=sampler, num_chains=2, num_warmup=3, num_samples=4, thin=2, chunk_steps=3,
        max_depth=2, warm_start=False,
    )  # fmt: skip
    return Case(method, *IMPROPER, ConvergenceWarning, num_steps=11)


CASES = {
    "lower_bound": noise("lower_bound"),
    "importance_weighted": noise("importance_weighted"),
    "hierarchical": noise("hierarchical"),
    "em": Case(
        sx.VariationalEM(steps=9, chunk_steps=3, batch_size=4),
        sx.ARD(sx.Bernoulli(0.5)),
        "closed",
        UselessFitWarning,
    ),
    "nuts": chains("nuts"),
    "mclmc": chains("mclmc"),
}
