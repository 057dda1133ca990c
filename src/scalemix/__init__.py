"""scalemix: say what you believe about a network's weights once, then choose how to infer them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scalemix._api import *  # noqa: F403

    __version__: str

__all__ = [  # noqa: F405
    "ADD",
    "ARD",
    "ARDADD",
    "MCMC",
    "Bernoulli",
    "Beta",
    "Candidate",
    "ConvergenceWarning",
    "DivergenceError",
    "DropConnect",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HalfCauchy",
    "InputWarning",
    "InverseGamma",
    "InverseNakagami",
    "LogUniform",
    "Model",
    "NoiseTraining",
    "PathRule",
    "Posterior",
    "Predictive",
    "RangeWarning",
    "Rayleigh",
    "ResumeWarning",
    "Stacked",
    "Uniform",
    "UselessFitWarning",
    "VariationalEM",
    "bases",
    "data",
    "default_candidates",
    "fit",
    "fit_batches",
    "fit_many",
    "fit_stacked",
    "fit_stacked_many",
    "keep_programs",
    "likelihoods",
    "load",
    "metrics",
    "mixtures",
    "networks",
    "stochastic_depth",
]

# Documented modules besides those in `__all__`.
MODULES = ("inference", "plots", "pruning", "recipes", "relevance", "sklearn", "storage")


def __getattr__(name: str) -> Any:
    """A public name or a module. JAX is imported only now: `scalemix --help` does without."""
    if name == "__version__":
        return importlib.import_module("scalemix._versions").this_version()
    if name in MODULES:
        return importlib.import_module(f"scalemix.{name}")
    if not name.startswith("_"):
        api = importlib.import_module("scalemix._api")
        globals().update({public: getattr(api, public) for public in __all__})
        if name in globals():
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *MODULES, "__version__"})
