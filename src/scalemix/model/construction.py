"""Checks a network, a prior and a likelihood against each other, and finds the parts of a model."""

from typing import NamedTuple

from scalemix._types import PyTree
from scalemix.likelihoods import Likelihood
from scalemix.model.assignment import Prior, assign, check_groups, check_parameters, split_ties
from scalemix.model.inputs import ExampleParts, check_outputs, example_parts, find_input
from scalemix.networks.freezing import Frozen, check_types, frozen_arrays, learnable_leaves
from scalemix.networks.nnx import flax_advice
from scalemix.networks.paths import bypassed_sites
from scalemix.networks.sites import Site, find_sites, path_name
from scalemix.networks.ties import with_ties
from scalemix.structures import Structure


class Parts(NamedTuple):
    """What a model is made of beside its network and its likelihood."""

    structures: dict[str, Structure]
    sites: tuple[Site, ...]
    example: ExampleParts
    frozen: tuple[str, ...]


def find_parts(
    network: PyTree,
    prior: Prior,
    likelihood: Likelihood,
    example: PyTree,
    frozen: Frozen | None,
) -> Parts:
    """The structure of each site, the sites under the prior, an input, and what is frozen.

    `ValueError` if something does not fit.
    """
    if not callable(network):
        raise ValueError(
            f"network must be callable on one example, or come with call=; got {type(network)}."
        )
    if advice := flax_advice(network):
        raise ValueError(advice)
    if not isinstance(likelihood, Likelihood):
        raise ValueError(
            f"likelihood must be an instance of one of scalemix.likelihoods, such as "
            f"scalemix.likelihoods.Gaussian(); got {likelihood!r}."
        )
    sites = find_sites(network)
    prior, ties = split_ties(prior)
    if not sites:
        raise ValueError(
            "The network holds no layer that a prior can be put on (Linear, Conv, GRUCell, "
            "LSTMCell, Embedding). A layer type of your own needs a rule: see networks.register. A "
            "function of a tree of parameters becomes a network by networks.from_function."
        )
    input_like = find_input(network, sites, example)
    if input_like is not None:
        check_outputs(network, likelihood, input_like)
    names = frozen_arrays(network, frozen)
    check_types(network, names)
    still = [site for site in sites if path_name(site.weight_path) in names]
    learning = with_ties(tuple(site for site in sites if site not in still), ties)

    def bypassed() -> set[str]:
        if input_like is None:
            raise ValueError(
                "ADD and ARDADD need to know which layers have a path around them, and for "
                "that one input of the network: pass Model(..., example=x[0])."
            )
        return bypassed_sites(network, learning, input_like, learnable_leaves(network, names))

    structures = assign(prior, learning, bypassed, frozen=[site.name for site in still])
    check_parameters(structures)
    check_groups(structures, learning)
    under = tuple(site for site in learning if site.name in structures)
    return Parts(structures, under, example_parts(input_like), names)
