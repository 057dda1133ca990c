"""A model and its fit in plain words."""

from scalemix.posterior.posterior import Posterior
from scalemix.posterior.storage.priors import encode, in_words


def describe_network(posterior: Posterior) -> str:
    """What the networks are."""
    model = posterior.model
    layers = [f"{site.shape[1]} → {site.shape[0]}" for site in model.sites if len(site.shape) == 2]
    network = type(model.network)
    kind = getattr(network, "summary", f"a network of the class {network.__name__}")
    members = len(posterior.members)
    start = "It is"
    if members > 1:
        start = f"An ensemble of {members} networks from different starts; each is"
    shapes = f" (layers {', '.join(layers)})" if len(layers) == len(model.sites) else ""
    return f"{start} {kind}{shapes}. The target is modelled as {model.likelihood.in_words()}."


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
