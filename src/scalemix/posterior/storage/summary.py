"""What a file says of itself."""

import dataclasses
import math
from pathlib import Path
from typing import Any

from scalemix.posterior.storage import container, priors
from scalemix.posterior.storage.classes import NETWORKS_CLASSES
from scalemix.posterior.storage.container import take
from scalemix.posterior.storage.unpacking import read_kind, read_lead


@dataclasses.dataclass(frozen=True)
class Info:
    """What a file says of itself, without its arrays.

    Attributes
    ----------
    scalemix : str
        The version of scalemix that wrote the file.
    kind : str
        The class of the distribution over networks.
    num_members : int
        How many fits the posterior is an ensemble of; one if it is of a single fit.
    network : str
        The class of the network.
    needs_network : bool
        Whether `load` has to be given `network=`.
    prior : dict of str to str
        The structure of each site, in words.
    likelihood : str
        The likelihood, in words.
    num_parameters : int
        Numbers in one network that can be learned, those that pruning set to zero included.
    num_steps : int
        How many steps the fit took.
    metadata : dict
        What was saved with the posterior as `metadata`.
    versions : dict of str to str
        The versions of Python and of packages that the file was written with; empty in files of
        early versions.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from scalemix import storage
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.scalemix"
    >>> post.save(path)
    >>> info = storage.info(path)
    >>> info.network, info.num_steps, info.method
    ('MLP', 50, 'variational EM')
    """

    scalemix: str
    kind: str
    num_members: int
    network: str
    needs_network: bool
    prior: dict[str, str]
    likelihood: str
    num_parameters: int
    num_steps: int
    metadata: dict[str, Any]
    versions: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def method(self) -> str:
        """How the posterior was fitted, in a few words."""
        return NETWORKS_CLASSES[self.kind].method


def info(path: str | Path) -> Info:
    """What a file says of itself; its arrays are not read.

    Parameters
    ----------
    path : str or pathlib.Path
        The file that `Posterior.save` wrote.

    Returns
    -------
    Info
        The versions, sizes and settings that the file's header holds.

    Raises
    ------
    ValueError
        If the file is damaged, cut short or not scalemix's.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from scalemix import storage
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.scalemix"
    >>> post.save(path, metadata={"target": "price"})
    >>> storage.info(path).metadata
    {'target': 'price'}
    """
    path = Path(path)
    with container.explaining(path):
        header = container.read_header(path)
        num_members, network = math.prod(read_lead(header)), take(header, "network", dict)
        listed = take(header, "arrays", dict)

        def shape(name: str) -> list[int]:
            return take(take(listed, name, dict), "shape", list)

        # What is counted are the numbers that can be learned, as in a report of pruning, and not
        # which columns a layer reads.
        sizes = [
            math.prod(shape(name))
            for name in take(network, "arrays", dict).values()
            if "float" in take(take(listed, name, dict), "dtype", str)
        ]
        structures = take(header, "structures", dict)
        return Info(
            scalemix=take(header, "scalemix", str),
            kind=read_kind(header).__name__,
            num_members=num_members,
            network=take(network, "class", str),
            needs_network=take(network, "build", (dict, type(None))) is None,
            prior={name: priors.in_words(take(structures, name, dict)) for name in structures},
            likelihood=priors.in_words(take(header, "likelihood", dict)),
            num_parameters=sum(sizes) // num_members,
            num_steps=shape(take(take(header, "history", dict), "objective", str))[-1],
            metadata=take(header, "metadata", dict),
            versions=_read_versions(header),
        )


def _read_versions(header: dict[str, Any]) -> dict[str, str]:
    versions = take({"versions": {}, **header}, "versions", dict)
    return {name: take(versions, name, str) for name in versions}
