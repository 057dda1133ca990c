"""The classes that a file may name: scalemix's own, and no others.

A file names classes, and a name must never lead to code that scalemix did not write. So the tables
are made of what scalemix's own modules define, once, before any file is read.
"""

import inspect
from collections.abc import Iterator
from typing import TypeVar

from scalemix import bases, likelihoods, mixtures, structures
from scalemix.bases import Base as FirstLevel
from scalemix.likelihoods import Likelihood
from scalemix.mixtures import ScaleMixture
from scalemix.posterior import networks
from scalemix.posterior.networks import Networks
from scalemix.structures import Structure

Base = TypeVar("Base")


def classes_in(room: str, base: type[Base]) -> dict[str, type[Base]]:
    """The concrete classes of this base that a module, or the modules of a package, define."""
    return {
        kind.__name__: kind
        for kind in sorted(_descendants(base), key=lambda kind: kind.__name__)
        if not inspect.isabstract(kind)
        and (kind.__module__ == room or kind.__module__.startswith(f"{room}."))
    }


def _descendants(base: type[Base]) -> Iterator[type[Base]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _descendants(kind)


BASE_CLASSES = classes_in(bases.__name__, FirstLevel)
MIXTURE_CLASSES = classes_in(mixtures.__name__, ScaleMixture)
LIKELIHOOD_CLASSES = classes_in(likelihoods.__name__, Likelihood)
STRUCTURE_CLASSES = classes_in(structures.__name__, Structure)
NETWORKS_CLASSES = classes_in(networks.__name__, Networks)
