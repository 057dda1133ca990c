"""A network, a prior on its weights and a likelihood, checked against each other."""

from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, PRNGKeyArray, PyTree

from scalemix.likelihoods import Likelihood
from scalemix.model.assignment import Prior, assign, check_parameters
from scalemix.model.description import Description, describe
from scalemix.model.inputs import check_outputs, find_input, find_refusal
from scalemix.model.prior import (
    PriorSample,
    draw_scales,
    log_prior,
    sample_prior,
    weight_penalty,
)
from scalemix.model.site_prior import Parametrization, SitePrior
from scalemix.networks.freezing import Frozen, frozen_arrays, learnable_leaves
from scalemix.networks.paths import bypassed_sites
from scalemix.networks.placing import (
    Scales,
    check_by_site,
    get_weights,
    put_scales,
    put_weights,
)
from scalemix.networks.readers import input_sites
from scalemix.networks.sites import Site, find_sites, path_name
from scalemix.structures import Structure

NoiseSharing = Literal["example", "batch", "sequence"]


class Model(eqx.Module):
    """What is believed about a network's weights and about its targets, before any data.

    `prior` is one structure for all layers, or a mapping from layer-name patterns to structures
    (`{"first": ARD(...), "blocks.*": ARDADD(...)}`); layers that no pattern names carry no prior,
    nor do biases and norms. `example` is one input, needed only where its shape cannot be found
    out from the network; the model keeps its shape and type. The network given is never changed.

    All arrays of real numbers learn but those that are `frozen`: a body that was trained elsewhere,
    positions, statistics of a norm. Frozen arrays stay as they are in every fit, member and chain,
    and frozen layers carry no prior. `frozen` is one of

    - patterns of names as `describe` prints them: `["body.*", "norm.weight"]`; the name of a layer,
      or of anything else that holds arrays, stands for all arrays in it;
    - a function from a leaf of the network to whether it is frozen;
    - a tree of truth values like the network, or a prefix of one, as `eqx.partition` takes it. True
      is frozen, which is the opposite of a filter that says what is trained.

    A `stop_gradient` in the network is not seen: say it here too.
    """

    network: PyTree
    structures: dict[str, Structure]
    likelihood: Likelihood
    sites: tuple[Site, ...] = eqx.field(static=True)
    example: jax.ShapeDtypeStruct | None = eqx.field(static=True)
    """The shape and type of one input, where they are known."""
    frozen: tuple[str, ...] = eqx.field(static=True)
    """The names of the arrays that no fit changes."""

    def __init__(
        self,
        network: PyTree,
        prior: Prior,
        likelihood: Likelihood,
        *,
        example: Array | None = None,
        frozen: Frozen | None = None,
    ):
        if not callable(network):
            raise ValueError(f"network must be callable on one example; got {type(network)}.")
        if not isinstance(likelihood, Likelihood):
            raise ValueError(
                f"likelihood must be an instance of one of scalemix.likelihoods, such as "
                f"scalemix.likelihoods.Gaussian(); got {likelihood!r}."
            )
        sites = find_sites(network)
        if not sites:
            raise ValueError(
                "The network holds no layer that a prior can be put on (Linear, Conv). "
                "A layer type of your own needs a rule: see networks.register."
            )
        input_like = find_input(network, sites, example)
        if input_like is not None:
            check_outputs(network, likelihood, input_like)
        names = frozen_arrays(network, frozen)
        learning = tuple(site for site in sites if path_name(site.weight_path) not in names)

        def bypassed() -> set[str]:
            if input_like is None:
                raise ValueError(
                    "ADD and ARDADD need to know which layers have a path around them, and for "
                    "that one input of the network: pass Model(..., example=x[0])."
                )
            return bypassed_sites(network, learning, input_like, learnable_leaves(network, names))

        self.network = network
        self.structures = assign(
            prior, learning, bypassed, frozen=[s.name for s in sites if s not in learning]
        )
        check_parameters(self.structures)
        self.likelihood = likelihood
        self.sites = tuple(site for site in sites if site.name in self.structures)
        self.example = input_like
        self.frozen = names

    @property
    def site_priors(self) -> tuple[SitePrior, ...]:
        """Each site with the structure that stands on it and its layer."""
        return tuple(
            SitePrior(site, self.structures[site.name], site.layer(self.network))
            for site in self.sites
        )

    @property
    def weights(self) -> dict[str, Array]:
        """The weights under the prior, by site."""
        return get_weights(self.network, self.sites)

    def with_weights(self, weights: dict[str, Array]) -> "Model":
        """The same model with these weights in its network."""
        check_by_site(weights, {site.name: site.shape for site in self.sites}, "Weights")
        network = put_weights(self.network, self.sites, weights)
        return eqx.tree_at(lambda model: model.network, self, network)

    def draw(self, shape: int | tuple[int, ...] = (), *, key: PRNGKeyArray) -> Scales:
        """Noise for one pass through the network; with a shape, that many independent draws.

        A dict by site of dicts by group: `{"layers.0": {"unit": ...}, ...}`.
        """
        shape = (shape,) if isinstance(shape, int) else shape
        return draw_scales(self.site_priors, shape, key)

    def with_scales(self, scales: Scales) -> PyTree:
        """The network under one draw of noise: a deterministic function of its input."""
        check_by_site(scales, self.scale_shapes, "Scales")
        return put_scales(self.network, self.sites, scales)

    def outputs(
        self, x: Array, scales: Scales, *, noise_sharing: NoiseSharing = "example"
    ) -> Array:
        """The network's outputs for a batch under noise drawn beforehand.

        With `noise_sharing="example"` the scales have a leading axis as long as the batch; with
        `"batch"` they have none; with `"sequence"` the batch is of sequences, the network takes one
        step of one, and the scales have a leading axis of one draw for each sequence.
        """
        if noise_sharing not in get_args(NoiseSharing):
            raise ValueError(
                f"noise_sharing must be one of {get_args(NoiseSharing)}, got {noise_sharing!r}."
            )
        shared = noise_sharing == "batch"
        x = jnp.asarray(x)
        if x.ndim == 0:
            raise ValueError("outputs takes a batch of inputs, got a single number.")
        if not shared and any(leaf.shape[:1] != x.shape[:1] for leaf in jax.tree.leaves(scales)):
            raise ValueError(
                f"noise_sharing={noise_sharing!r} takes one draw for each of the {x.shape[0]} "
                f"{noise_sharing}s: scales from model.draw({x.shape[0]}, key=key)."
            )

        def one(scales: Scales, x: Array) -> Array:
            network = self.with_scales(scales)
            return jax.vmap(network)(x) if noise_sharing == "sequence" else network(x)

        return jax.vmap(one, in_axes=(None if shared else 0, 0))(scales, x)

    def prior_sample(
        self, key: PRNGKeyArray, *, parametrization: Parametrization = "hierarchical"
    ) -> PriorSample:
        """Weights and scales drawn from the prior.

        Hierarchical weights are those of the network itself: `model.with_weights(sample.weights)`.
        Expanded ones want their scales beside them:
        `model.with_weights(sample.weights).with_scales(sample.scales)`.
        """
        _check_parametrization(parametrization)
        return sample_prior(self.site_priors, parametrization, key)

    def log_prior(
        self,
        weights: dict[str, Array],
        scales: Scales,
        *,
        parametrization: Parametrization = "hierarchical",
    ) -> Array:
        """Log density of the weights and scales of all sites together."""
        _check_parametrization(parametrization)
        check_by_site(weights, {site.name: site.shape for site in self.sites}, "Weights")
        check_by_site(scales, self.scale_shapes, "Scales")
        return log_prior(self.site_priors, weights, scales, parametrization)

    @property
    def scale_shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The shape of each site's scales, group by group."""
        return {prior.name: prior.scale_shapes for prior in self.site_priors}

    @property
    def dtype(self) -> np.dtype:
        """The type of number that the network's weights are, and that it computes in."""
        return np.dtype(self.sites[0].weight(self.network).dtype)

    def refusal(self, shape: tuple[int, ...], dtype: DTypeLike) -> str | None:
        """Why the network refuses an example of this shape and type; `None` if it takes it."""
        dtype = jax.dtypes.canonicalize_dtype(dtype)
        return find_refusal(self.network, jax.ShapeDtypeStruct(shape, dtype))

    def frozen_readers(self, example: Array | jax.ShapeDtypeStruct) -> list[str]:
        """The names of the frozen layers that are called on the network's input as it is."""
        if not self.frozen:
            return []
        like = jax.ShapeDtypeStruct(example.shape, example.dtype)
        readers = input_sites(self.network, find_sites(self.network), like)
        return [site.name for site in readers if path_name(site.weight_path) in self.frozen]

    def learnable(self) -> "Model":
        """A model-shaped tree of truth values: which leaves a fit adjusts.

        The one place that says so: training, chains, new starts and files go by it.
        """
        nothing = jax.tree.map(lambda _: False, self)
        learned = self.likelihood.learned
        return eqx.tree_at(
            lambda m: [m.network, *(getattr(m.likelihood, name) for name in learned)],
            nothing,
            [learnable_leaves(self.network, self.frozen), *[True] * len(learned)],
        )

    def with_learned(self, learned: PyTree) -> "Model":
        """The same model with these values of what training adjusts."""
        _, fixed = eqx.partition(self, self.learnable())
        return eqx.combine(learned, fixed)

    def penalty(self, parametrization: Parametrization = "expanded") -> Array:
        """What the prior takes off the log-likelihood of all data, up to a constant."""
        _check_parametrization(parametrization)
        return weight_penalty(self.site_priors, parametrization)

    def __repr__(self) -> str:
        kinds = dict.fromkeys(type(s).__name__ for s in self.structures.values())
        network, likelihood = type(self.network).__name__, type(self.likelihood).__name__
        return f"Model({network}, {'/'.join(kinds)} on {len(self.sites)} sites, {likelihood})"

    def describe(self) -> Description:
        """A table of the sites: shape, structure, mixture and number of scales."""
        return describe(self.network, self.site_priors, self.frozen)


def _check_parametrization(parametrization: str) -> None:
    if parametrization not in get_args(Parametrization):
        raise ValueError(
            f"parametrization must be one of {get_args(Parametrization)}, got {parametrization!r}."
        )
