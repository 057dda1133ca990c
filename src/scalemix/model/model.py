"""A network, a prior on its weights and a likelihood, checked against each other."""

from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, DTypeLike, PRNGKeyArray, PyTree

from scalemix.likelihoods import Likelihood
from scalemix.model.description import Description, describe
from scalemix.model.prior import (
    Parametrization,
    Prior,
    PriorSample,
    assign,
    check_parameters,
    draw_scales,
    log_prior,
    sample_prior,
    weight_penalty,
)
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
from scalemix.structures import Structure, group_shape

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
            _check_outputs(network, likelihood, input_like)
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
        return draw_scales(self.structures, self.sites, self.network, shape, key)

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
        return sample_prior(self.structures, self.sites, self.network, parametrization, key)

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
        return log_prior(
            self.structures, self.sites, self.network, weights, scales, parametrization
        )

    @property
    def scale_shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The shape of each site's scales, group by group."""
        return {
            site.name: {
                group: group_shape(group, site.shape, site.num_rows)
                for group in self.structures[site.name].groups
            }
            for site in self.sites
        }

    @property
    def dtype(self) -> np.dtype:
        """The type of number that the network's weights are, and that it computes in."""
        return np.dtype(self.sites[0].weight(self.network).dtype)

    def refusal(self, shape: tuple[int, ...], dtype: DTypeLike) -> str | None:
        """Why the network refuses an example of this shape and type; `None` if it takes it."""
        example = jax.ShapeDtypeStruct(shape, jax.dtypes.canonicalize_dtype(dtype))
        try:
            eqx.filter_eval_shape(self.network, example)
        except Exception as error:
            # Whatever a network of someone else's raises at an input that does not fit.
            lines = str(error).strip().splitlines()
            return lines[0] if lines else type(error).__name__
        return None

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
        return weight_penalty(self.structures, self.sites, self.network, parametrization)

    def __repr__(self) -> str:
        kinds = dict.fromkeys(type(s).__name__ for s in self.structures.values())
        network, likelihood = type(self.network).__name__, type(self.likelihood).__name__
        return f"Model({network}, {'/'.join(kinds)} on {len(self.sites)} sites, {likelihood})"

    def describe(self) -> Description:
        """A table of the sites: shape, structure, mixture and number of scales."""
        return describe(self.network, self.structures, self.sites, self.frozen)


def assemble(
    network: PyTree,
    structures: dict[str, Structure],
    likelihood: Likelihood,
    *,
    example: jax.ShapeDtypeStruct | None = None,
    frozen: tuple[str, ...] = (),
) -> Model:
    """A model from the parts of one that was checked before, as a file holds them.

    What is cheap to check is checked again; which layers have a path around them is not.
    """
    sites = find_sites(network)
    names = [site.name for site in sites]
    for name in structures:
        if name not in names:
            raise ValueError(
                f"The prior stands on {name!r}, which is no layer of the network that a prior can "
                f"be put on (those are {', '.join(names) or 'none'}). A layer type of your own "
                f"needs its rule here too: see networks.register."
            )
    input_like = find_input(network, sites, example)
    if input_like is not None:
        _check_outputs(network, likelihood, input_like)
    for site in sites:
        if site.name in structures and path_name(site.weight_path) in frozen:
            raise ValueError(f"The prior stands on {site.name!r}, which is frozen.")
    model = object.__new__(Model)
    under = tuple(site for site in sites if site.name in structures)
    parts = {
        "network": network, "structures": structures, "likelihood": likelihood, "sites": under,
        "example": input_like if example is None else example, "frozen": frozen,
    }  # fmt: skip
    for name, part in parts.items():
        object.__setattr__(model, name, part)
    return model


def _check_parametrization(parametrization: str) -> None:
    if parametrization not in get_args(Parametrization):
        raise ValueError(
            f"parametrization must be one of {get_args(Parametrization)}, got {parametrization!r}."
        )


def find_input(
    network: PyTree, sites: tuple[Site, ...], example: Array | jax.ShapeDtypeStruct | None
) -> jax.ShapeDtypeStruct | None:
    """One input of the network, in the precision of its weights; `None` if none can be found."""
    if example is not None:
        if not isinstance(example, jax.ShapeDtypeStruct):
            example = jnp.asarray(example)
        as_float = jax.ShapeDtypeStruct(example.shape, sites[0].weight(network).dtype)
        # Whole numbers are measurements (pixels), unless the network takes nothing else.
        if _output_shape(network, as_float) is not None:
            return as_float
        return jax.ShapeDtypeStruct(example.shape, example.dtype)
    # A network that takes a vector takes one that some dense layer of it takes.
    guesses = {
        (shape, site.weight(network).dtype): None
        for site in sites
        for shape in ((site.num_rows,), ())
    }
    # Each once: to find that a deep network takes none of them is work enough.
    for shape, dtype in guesses:
        guess = jax.ShapeDtypeStruct(shape, dtype)
        if _output_shape(network, guess) is not None:
            return guess
    return None


def _output_shape(network: PyTree, example: jax.ShapeDtypeStruct) -> tuple[int, ...] | None:
    try:
        return eqx.filter_eval_shape(network, example).shape
    except Exception:
        # Whatever a network of someone else's raises at an input that does not fit.
        return None


def _check_outputs(network: PyTree, likelihood: Likelihood, example: jax.ShapeDtypeStruct) -> None:
    shape = _output_shape(network, example)
    if shape is None:
        raise ValueError(
            f"The network cannot be called on one example of shape {example.shape}. It must take "
            f"one example and nothing else: no batch axis, no key, no state."
        )
    needed = likelihood.num_outputs
    if shape != (needed,) and not (needed == 1 and shape == ()):
        raise ValueError(
            f"{type(likelihood).__name__} needs {needed} output{'s' if needed > 1 else ''} from "
            f"the network, which puts out the shape {shape} for one example of shape "
            f"{example.shape} (without a batch axis). Give the network out_size={needed}."
        )
