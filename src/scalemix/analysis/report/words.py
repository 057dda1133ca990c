"""A model and its fit in plain words."""

from scalemix.analysis.sizes import UNNOTICED, Sizes
from scalemix.networks.sites import Site
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.storage.priors import encode, in_words


def describe_network(posterior: Posterior) -> str:
    """What the networks are."""
    model = posterior.model
    layers = [_layer_in_words(site) for site in model.sites if len(site.shape) == 2]
    network = type(model.network)
    kind = getattr(network, "summary", f"a network of the class {network.__name__}")
    num_members = len(posterior.members)
    start = "It is"
    if num_members > 1:
        start = f"An ensemble of {num_members} networks from different starts; each is"
    shapes = f" (layers {', '.join(layers)})" if len(layers) == len(model.sites) else ""
    return f"{start} {kind}{shapes}. The target is modelled as {model.likelihood.in_words()}."


def _layer_in_words(site: Site) -> str:
    """How many numbers a layer takes and gives; or, of a table, how many levels it knows."""
    if site.rule.token_axis is not None:
        return f"{site.num_rows:,} levels looked up"
    return f"{site.shape[1]} → {site.shape[0]}"


def describe_method(posterior: Posterior) -> str:
    """How the weights were inferred."""
    return posterior.networks.stacked.summary


def describe_prior(posterior: Posterior) -> list[str]:
    """What was believed of the weights before the data."""
    sentences = {s.title: s.summary for s in posterior.model.structures.values()}
    return [f"{name}: {sentence}" for name, sentence in sentences.items() if sentence]


def priors_by_layer(posterior: Posterior) -> dict[str, str]:
    """The prior of each layer, with its numbers."""
    model = posterior.model
    return {site.name: in_words(encode(model.structures[site.name])) for site in model.sites}


def describe_sizes(sizes: Sizes, measured_on: str = "") -> str:
    """What is off, and whether it is worth removing, by the rows that this was measured on."""
    if sizes.units is None:
        return f"What is off cannot be told. {sizes.remark}"
    if sizes.all_on:
        return "Here nothing is off: the data use the whole network, and nothing can be removed."
    if sizes.parameters is None:
        return f"Parts of it are off. They cannot be removed: {sizes.remark}"
    before, after = sizes.parameters
    if after == before:
        return "Parts of it are off, but none of them could be taken out of the network."
    gone, (old, new) = 1 - after / before, sizes.stored or sizes.parameters
    said = f"Removing what is off (scalemix prune) would take away {gone:.0%} of the parameters"
    if sizes.change is not None:
        # The command measures on all rows of the table that it is given.
        on = (
            f" (measured on {measured_on}; with --data, the command measures on all rows of a "
            f"table)"
            if measured_on
            else ""
        )
        change = f"{sizes.change:.1%} of their spread{on}"
        said += (
            f", and change predictions by no more than {change}"
            if sizes.change <= UNNOTICED
            else f". By the prior's measure these parts count for little, and yet predictions "
            f"would change by up to {change}: they are not free to go"
        )
    if new - old == after - before:
        return f"{said}."
    left = f"would keep {new / old:.0%} of its numbers" if new < old else "would stay as large"
    return f"{said}. But a file {left}: zeros stay where they cannot be cut out of all networks."
