"""A model and its fit in plain words."""

from scalemix.posterior.networks import Ensemble
from scalemix.posterior.posterior import Posterior
from scalemix.posterior.storage.priors import encode, in_words

METHODS = {
    "GaussianNetworks": (
        "Variational EM: each weight has a mean and a standard deviation, learned together with "
        "the scales of the prior, which are solved for in closed form. Predictions average over "
        "weights drawn from what was learned."
    ),
    "NoisyNetworks": (
        "Noise training: the network was trained with random noise on its units, as in dropout, "
        "which is the same as the prior below. Predictions average over that noise."
    ),
    "OneNetwork": "Trained to one set of weights: predictions know no doubt about the network.",
}
SAMPLED = (
    "Sampled by Markov chains: predictions average over networks drawn from the posterior itself."
)
STRUCTURES = {
    "ARD": (
        "All weights that leave a unit share one scale (automatic relevance determination), so "
        "that an input or a unit which the data do not need can be switched off."
    ),
    "DropConnect": "Each weight has a scale of its own.",
    "ADD": (
        "All weights of a residual layer share one scale (automatic depth determination), so that "
        "a layer which the data do not need can be switched off."
    ),
    "ARDADD": (
        "Weights share a scale by unit and another by layer, so that units and whole layers which "
        "the data do not need can be switched off."
    ),
}


LIKELIHOODS = {
    "Gaussian": "Gaussian noise around the network's output",
    "StudentT": "heavy-tailed (Student-t) noise around the network's output",
    "Categorical": "a probability for each class",
    "Bernoulli": "the probability of one of two classes",
    "Poisson": "a rate of counts",
}


def describe_network(posterior: Posterior) -> str:
    """What the networks are."""
    model = posterior.model
    layers = [f"{site.shape[1]} → {site.shape[0]}" for site in model.sites if len(site.shape) == 2]
    kind = type(model.network).__name__
    kind = {"ResNet": "a residual network", "MLP": "a multilayer perceptron"}.get(kind, kind)
    members = len(posterior.members)
    start = "It is"
    if members > 1:
        start = f"An ensemble of {members} networks from different starts; each is"
    shapes = f" (layers {', '.join(layers)})" if len(layers) == len(model.sites) else ""
    name = type(model.likelihood).__name__
    noise = LIKELIHOODS.get(name, name)
    if getattr(model.likelihood, "per_input", False):
        noise += ", whose level the network says for each row"
    return f"{start} {kind}{shapes}. The target is modelled as {noise}."


def describe_method(posterior: Posterior) -> str:
    """How the weights were inferred."""
    networks = posterior.networks
    networks = networks.stacked if isinstance(networks, Ensemble) else networks
    return METHODS.get(type(networks).__name__, SAMPLED)


def describe_prior(posterior: Posterior) -> list[str]:
    """What was believed of the weights before the data."""
    kinds = dict.fromkeys(type(s).__name__ for s in posterior.model.structures.values())
    return [f"{kind}: {STRUCTURES[kind]}" for kind in kinds if kind in STRUCTURES]


def priors_by_layer(posterior: Posterior) -> dict[str, str]:
    """The prior of each layer, with its numbers."""
    model = posterior.model
    return {site.name: in_words(encode(model.structures[site.name])) for site in model.sites}
