"""The small networks in a file: their arrays, and which units of the whole network they have."""

from collections.abc import Mapping
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix.reproduce.compression.networks import NETWORKS, Network, Rows


def to_arrays(name: str, rows: Rows, network: Network) -> dict[str, np.ndarray]:
    """What a file holds of a network that has been narrowed, with room to spare, to these rows."""
    small = network.narrowed(network.rows_in_use())
    values = {
        f"{name}/{site}/{part}": np.asarray(getattr(getattr(small, site), part))
        for site in small.sites
        for part in ("weight", "bias")
    }
    return values | {f"{name}/on/{site}": on for site, on in rows.items()}


def read_small(file: str | Path) -> dict[str, dict[str, tuple[Network, Rows]]]:
    """The networks of a file by kind and temperature, and the rows of the whole that they have."""
    with np.load(Path(file), allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    networks: dict[str, dict[str, tuple[Network, Rows]]] = {}
    for kind, temperature in sorted({tuple(name.split("/")[:2]) for name in arrays}):
        start = f"{kind}/{temperature}/"
        mine = {
            name[len(start) :]: value for name, value in arrays.items() if name.startswith(start)
        }
        rows = {name[3:]: on for name, on in mine.items() if name.startswith("on/")}
        networks.setdefault(kind, {})[temperature] = _network(kind, rows, mine), rows
    return networks


def _network(kind: str, rows: Rows, arrays: Mapping[str, np.ndarray]) -> Network:
    network = NETWORKS[kind](key=jax.random.key(0)).narrowed(rows)
    for site in network.sites:
        network = eqx.tree_at(
            lambda n, s=site: (getattr(n, s).weight, getattr(n, s).bias),
            network,
            tuple(jnp.asarray(arrays[f"{site}/{part}"]) for part in ("weight", "bias")),
        )
    return network
