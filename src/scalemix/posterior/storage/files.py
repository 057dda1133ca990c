"""Posteriors to files and back."""

from pathlib import Path
from typing import Any

from scalemix._types import PyTree
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.storage import container
from scalemix.posterior.storage.packing import pack
from scalemix.posterior.storage.unpacking import Saved, unpack


def write(path: str | Path, posterior: Posterior, metadata: dict[str, Any] | None = None) -> None:
    """Write a posterior to one file, replacing any earlier one at once.

    `Posterior.save` does the same.

    Parameters
    ----------
    path : str or pathlib.Path
        Where to write. A crash or a full disk leaves an earlier file as it was.
    posterior : Posterior
        What to write.
    metadata : dict, optional
        Anything that JSON holds, for `read` and `info` to give back.

    Raises
    ------
    ValueError
        If the model has a mixture, structure or likelihood that is not scalemix's own, if a number
        is not finite, or if `metadata` is not what JSON holds.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from scalemix import storage
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.scalemix"
    >>> storage.write(path, post)
    >>> path.exists()
    True
    """
    container.write(Path(path), *pack(posterior, metadata))


def to_bytes(posterior: Posterior) -> bytes:
    """What `write` would write to a file, without metadata.

    Parameters
    ----------
    posterior : Posterior
        What to write.

    Returns
    -------
    bytes
        The content of the file.

    Examples
    --------
    >>> from scalemix import storage
    >>> isinstance(storage.to_bytes(post), bytes)
    True
    """
    return container.to_bytes(*pack(posterior))


def from_bytes(content: bytes, *, network: PyTree | None = None) -> Posterior:
    """The posterior that `to_bytes` gave, as `load` would read it from a file.

    Parameters
    ----------
    content : bytes
        What `to_bytes` returned, or the content of a file.
    network : PyTree, optional
        As in `load`.

    Returns
    -------
    Posterior
        The posterior as it was.

    Examples
    --------
    >>> from scalemix import storage
    >>> same = storage.from_bytes(storage.to_bytes(post), network=net)
    >>> np.array_equal(same.predict(x).mean, post.predict(x).mean)
    True
    """
    with container.explaining("The posterior"):
        return unpack(*container.from_bytes(content), network).posterior


def read(path: str | Path, *, network: PyTree | None = None) -> Saved:
    """The posterior of a file, as `load` gives it, and the metadata that were saved with it.

    Parameters
    ----------
    path : str or pathlib.Path
        The file that `Posterior.save` or `write` wrote.
    network : PyTree, optional
        As in `load`.

    Returns
    -------
    Saved
        A pair of `posterior` and `metadata`.

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
    >>> posterior, metadata = storage.read(path, network=net)
    >>> metadata
    {'target': 'price'}
    """
    path = Path(path)
    with container.explaining(path):
        return unpack(*container.read(path), network)


def load(path: str | Path, *, network: PyTree | None = None) -> Posterior:
    """The posterior that `Posterior.save` wrote; it predicts the same to the last bit.

    Nothing in a file is executed.

    Parameters
    ----------
    path : str or pathlib.Path
        The file.
    network : PyTree, optional
        Any network of the class and sizes that were saved; its arrays give way to those of the
        file. Needed where the file does not hold the network's form: for classes other than
        `scalemix.networks.MLP` and `ResNet`, and for activations that are not in `jax.nn`.

    Returns
    -------
    Posterior
        The posterior as it was when it was saved.

    Raises
    ------
    ValueError
        If the file is damaged, cut short or not scalemix's, or if it needs `network`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.scalemix"
    >>> post.save(path)
    >>> same = sx.load(path, network=net)
    >>> np.array_equal(same.predict(x).mean, post.predict(x).mean)
    True
    """
    return read(path, network=network).posterior
