"""Puts a model together again from its parts."""

from scalemix._types import PyTree
from scalemix.likelihoods import Likelihood
from scalemix.model.assignment import check_groups
from scalemix.model.inputs import check_outputs, example_parts, find_input
from scalemix.model.model import Model
from scalemix.networks.sites import find_sites, path_name
from scalemix.networks.ties import JOINT, with_ties
from scalemix.structures import Structure


def assemble(
    network: PyTree,
    structures: dict[str, Structure],
    likelihood: Likelihood,
    *,
    example: PyTree = None,
    frozen: tuple[str, ...] = (),
) -> Model:
    """A model from the parts of one that was checked before, such as those that a file holds.

    It is checked again, but for which layers have a path around them, which takes long.
    """
    sites = find_sites(network)
    names = [site.name for site in sites]
    ties = [tuple(name.split(JOINT)) for name in structures if name not in names and JOINT in name]
    sites = with_ties(sites, ties)
    names = [site.name for site in sites]
    for name in structures:
        if name not in names:
            raise ValueError(
                f"The prior stands on {name!r}, which is no layer of the network that a prior can "
                f"be put on (those are {', '.join(names) or 'none'}). A layer type of your own "
                f"needs its rule here too: see networks.register."
            )
    check_groups(structures, sites)
    input_like = find_input(network, sites, example)
    if input_like is not None:
        check_outputs(network, likelihood, input_like)
    for site in sites:
        if site.name in structures and any(
            path_name(part.weight_path) in frozen for part in site.parts
        ):
            raise ValueError(f"The prior stands on {site.name!r}, which is frozen.")
    model = object.__new__(Model)
    under = tuple(site for site in sites if site.name in structures)
    parts = {
        "network": network, "structures": structures, "likelihood": likelihood, "sites": under,
        "example_parts": example_parts(input_like if example is None else example),
        "frozen": frozen,
    }  # fmt: skip
    for name, part in parts.items():
        object.__setattr__(model, name, part)
    return model
