"""A network, a prior on its weights and a likelihood, checked against each other."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from scalemix._remembered import remembered
from scalemix._types import PyTree
from scalemix.likelihoods import Likelihood
from scalemix.model.assignment import Prior
from scalemix.model.construction import find_parts
from scalemix.model.description import Description, describe
from scalemix.model.inputs import ExampleParts, example_parts, find_refusal
from scalemix.model.outputs import NoiseSharing, noisy_outputs, training_outputs
from scalemix.model.prior import PriorSample, draw_scales, log_prior, sample_prior, weight_penalty
from scalemix.model.site_prior import Parametrization, SitePrior, check_parametrization
from scalemix.networks.calling import CalledNetwork, with_call, with_state
from scalemix.networks.freezing import Frozen, learnable_leaves
from scalemix.networks.lookups import Lookups, find_lookups
from scalemix.networks.placing import Scales, check_by_site, get_weights, put_scales, put_weights
from scalemix.networks.readers import input_sites
from scalemix.networks.rows import in_training
from scalemix.networks.sites import Site, find_sites, path_name
from scalemix.structures import Structure


class Model(eqx.Module):
    """What is believed about a network's weights and about its targets, before any data.

    Parameters
    ----------
    network : PyTree
        Any Equinox network that takes one example, without a batch axis. It is never changed.
        Networks of Flax and other functions of parameters come by way of `networks.from_nnx` and
        `networks.from_function`.
    prior : Structure or mapping
        One structure for all layers, or a mapping from patterns of layer names to structures, as in
        `{"first": ARD(...), "blocks.*": ARDADD(...)}`. Layers that no pattern names, or that are
        given `None`, carry no prior, nor do biases and norms. A tuple of names ties layers
        together that read the same units: `{("cell.weight_hh", "head"): ARD(...)}` has one scale
        for all that comes out of a unit of the state, recurrent and outgoing weights alike.
    likelihood : Likelihood
        The distribution of a target given the network's output.
    call : callable, optional
        How the network is called on one example, where that is not `network(x)`:
        `call(network, x)` gives the output that the likelihood is of. Whatever of `key`, `state`
        and `training` is among its parameters is given to it by name, as
        `scalemix.networks.with_call` explains:

        - several inputs: `lambda net, x: net(x["image"], x["table"])`;
        - named outputs: `lambda net, x: net(x)["logits"]`;
        - noise of the network's own: `lambda net, x, key=None: net(x, key=key)` has dropout in
          training alone, `lambda net, x, key: net(x, key=key)` in prediction too;
        - running statistics: `lambda net, x, state: net(x, state)`, with `state=`.

        `model.network` is then a network that is called as `network(x)`, and
        `model.network.wrapped_network` the one that was given.
    state : PyTree, optional
        The first state of a network that has one, such as that of `eqx.nn.make_with_state`. It
        changes in training with every step.
    example : Array or PyTree of Array, optional
        One input. Needed only where its shape cannot be inferred from the network; the model keeps
        its shape and type.
    frozen : str, sequence of str, callable or PyTree, optional
        The arrays that stay as they are in every fit, such as those of a body that was trained
        elsewhere, positions, or the statistics of a norm. All other arrays of real numbers learn.
        Frozen layers carry no prior. A `stop_gradient` in the network is not seen: say it here too.
        It is one of

        - patterns of names as `describe` prints them, `["body.*", "norm.weight"]`; the name of a
          layer, or of anything else that holds arrays, stands for all arrays in it;
        - a function from a leaf of the network to whether it is frozen;
        - a tree of truth values like the network, or a prefix of one, as `eqx.partition` takes it.
          True is frozen, the opposite of a filter that says what is trained.

    Attributes
    ----------
    structures : dict of str to Structure
        The structure that stands on each site.
    sites : tuple of Site
        The weight matrices under the prior.
    example : Shaped, PyTree of Shaped or None
        The shape and type of one input, or of each of several, where they are known.
    frozen : tuple of str
        The names of the arrays that no fit changes.

    Raises
    ------
    ValueError
        If network, prior and likelihood do not fit each other; it names the layer and a remedy.

    Examples
    --------
    >>> net = eqx.nn.MLP(3, "scalar", 8, 2, key=key)
    >>> prior = {"layers.0": sx.ARD(sx.HalfCauchy(1.0)), "layers.[12]": sx.ARD(sx.Exponential(1.0))}
    >>> sx.Model(net, prior, sx.likelihoods.Gaussian())
    Model(MLP, ARD on 3 sites, Gaussian)
    """

    network: PyTree
    structures: dict[str, Structure]
    likelihood: Likelihood
    sites: tuple[Site, ...] = eqx.field(static=True)
    example_parts: ExampleParts = eqx.field(static=True)
    frozen: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        network: PyTree,
        prior: Prior,
        likelihood: Likelihood,
        *,
        call: Callable[..., Any] | None = None,
        state: PyTree = None,
        example: PyTree = None,
        frozen: Frozen | None = None,
    ):
        if call is not None or state is not None:
            network = with_call(network, call, state=state)
        self.network = network
        self.likelihood = likelihood
        self.structures, self.sites, self.example_parts, self.frozen = find_parts(
            network, prior, likelihood, example, frozen
        )

    @property
    def example(self) -> PyTree:
        """The shape and type of one input, or of each of several; `None` where not known."""
        return self.example_parts.example()

    @property
    def site_priors(self) -> tuple[SitePrior, ...]:
        """Each site with the structure that stands on it and its layer."""
        return tuple(
            SitePrior(site, self.structures[site.name], site.weight(self.network))
            for site in self.sites
        )

    @property
    def weights(self) -> dict[str, Array]:
        """The weights under the prior, by site."""
        return get_weights(self.network, self.sites)

    @property
    def scale_shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The shape of each site's scales, group by group."""
        return {prior.name: prior.scale_shapes for prior in self.site_priors}

    @property
    def dtype(self) -> np.dtype:
        """The type of the network's weights, in which it computes."""
        return np.dtype(self.sites[0].weight(self.network).dtype)

    def describe(self) -> Description:
        """A table of the sites, to be printed.

        Returns
        -------
        Description
            For each site its shape, structure, mixture and number of scales; which parameters carry
            no prior, and which are frozen.

        Examples
        --------
        >>> table = model.describe()
        >>> [(row.site, row.shape, row.num_scales) for row in table.rows]
        [('layers.0', (8, 3), 3), ('layers.1', (8, 8), 8), ('layers.2', (1, 8), 8)]
        >>> print(str(table).splitlines()[-1])
        no prior: layers.0.bias, layers.1.bias, layers.2.bias
        """
        return describe(self.network, self.site_priors, self.frozen)

    def with_weights(self, weights: dict[str, Array]) -> "Model":
        """The same model with these weights in its network.

        Parameters
        ----------
        weights : dict of str to Array
            A weight matrix for each site, as `model.weights` has them.

        Returns
        -------
        Model
            A new model; this one stays as it is.

        Examples
        --------
        >>> halved = model.with_weights({name: w / 2 for name, w in model.weights.items()})
        """
        check_by_site(weights, {site.name: site.shape for site in self.sites}, "Weights")
        network = put_weights(self.network, self.sites, weights)
        return eqx.tree_at(lambda model: model.network, self, network)

    def draw(self, shape: int | tuple[int, ...] = (), *, key: PRNGKeyArray) -> Scales:
        """Draw the noise of one pass through the network, or of many.

        Parameters
        ----------
        shape : int or tuple of int, default ()
            How many independent draws, along leading axes.
        key : PRNG key
            Where the randomness comes from.

        Returns
        -------
        dict of str to dict of str to Array
            The scales of each site, by group.

        Examples
        --------
        >>> model.draw(40, key=key)["layers.0"]["unit"].shape
        (40, 3)
        """
        shape = (shape,) if isinstance(shape, int) else shape
        return draw_scales(self.site_priors, shape, key)

    def with_scales(self, scales: Scales) -> PyTree:
        """The network under one draw of noise: a deterministic function of its input.

        Parameters
        ----------
        scales : dict of str to dict of str to Array
            One draw, as `draw` gives it without a shape.

        Returns
        -------
        PyTree
            A network in which each weight `z` acts as `xi * z`.

        Examples
        --------
        >>> noisy = model.with_scales(model.draw(key=key))
        >>> noisy(x[0]).shape
        ()
        """
        check_by_site(scales, self.scale_shapes, "Scales")
        return put_scales(self.network, self.sites, scales)

    def with_state(self, state: PyTree) -> "Model":
        """The same model with this state in its network.

        Parameters
        ----------
        state : PyTree
            What `training_outputs` gave; for a network without a state, `None`.

        Returns
        -------
        Model
            A new model; this one stays as it is.

        Examples
        --------
        >>> same = model.with_state(None)
        """
        return eqx.tree_at(lambda model: model.network, self, with_state(self.network, state))

    def training_outputs(
        self,
        x: PyTree,
        scales: Scales | None,
        *,
        key: PRNGKeyArray,
        noise_sharing: NoiseSharing = "example",
    ) -> tuple[Array, PyTree]:
        """As `outputs`, with the network as it is in training: its own noise on, its state changed.

        Parameters
        ----------
        x : Array or PyTree of Array
            A batch of inputs, along the first axis.
        scales : dict of str to dict of str to Array, or None
            Noise, as `draw` gives it; `None` for the network without noise of the prior.
        key : PRNG key
            Where noise of the network's own comes from.
        noise_sharing : {"example", "batch"}, default "example"
            Who shares a draw, as in `outputs`.

        Returns
        -------
        outputs : Array
            One output for each input.
        state : PyTree
            The network's state after the batch, for `with_state`; `None` if it has none.

        Examples
        --------
        >>> outputs, state = model.training_outputs(x, model.draw(40, key=key), key=key)
        >>> outputs.shape, state
        ((40,), None)
        """
        network = in_training(self.network)
        under = None if scales is None else lambda drawn: put_scales(network, self.sites, drawn)
        return training_outputs(network, under, x, scales, key, noise_sharing)

    def outputs(
        self, x: PyTree, scales: Scales, *, noise_sharing: NoiseSharing = "example"
    ) -> Array:
        """The network's outputs for a batch under noise drawn beforehand.

        Parameters
        ----------
        x : Array or PyTree of Array
            A batch of inputs, along the first axis.
        scales : dict of str to dict of str to Array
            Noise, as `draw` gives it.
        noise_sharing : {"example", "batch", "sequence"}, default "example"
            Who shares a draw. With "example" the scales have a leading axis as long as the batch;
            with "batch" they have none; with "sequence" the batch is of sequences, the network
            takes one step, and the scales have a leading axis of one draw for each sequence.

        Returns
        -------
        Array
            One output for each input.

        Examples
        --------
        >>> model.outputs(x, model.draw(40, key=key)).shape
        (40,)
        """
        return noisy_outputs(self.with_scales, x, scales, noise_sharing)

    def prior_sample(
        self, key: PRNGKeyArray, *, parametrization: Parametrization = "hierarchical"
    ) -> PriorSample:
        """Draw weights and scales from the prior.

        Parameters
        ----------
        key : PRNG key
            Where the randomness comes from.
        parametrization : {"hierarchical", "expanded"}, default "hierarchical"
            Hierarchical weights are `w = xi z`, those of the network itself. Expanded ones are `z`,
            which the network needs together with their scales:
            `model.with_weights(sample.weights).with_scales(sample.scales)`.

        Returns
        -------
        PriorSample
            `weights`, by site, and `scales`, by site and group.

        Examples
        --------
        >>> sample = model.prior_sample(key)
        >>> model.with_weights(sample.weights).network(x[0]).shape
        ()
        """
        check_parametrization(parametrization)
        return sample_prior(self.site_priors, parametrization, key)

    def log_prior(
        self,
        weights: dict[str, Array],
        scales: Scales,
        *,
        parametrization: Parametrization = "hierarchical",
    ) -> Array:
        """Log density of the weights and scales of all sites together.

        Parameters
        ----------
        weights : dict of str to Array
            A weight matrix for each site.
        scales : dict of str to dict of str to Array
            The scales of each site, by group.
        parametrization : {"hierarchical", "expanded"}, default "hierarchical"
            Whether the weights are `w = xi z` or `z`.

        Returns
        -------
        Array
            One number.

        Examples
        --------
        >>> model.log_prior(*model.prior_sample(key)).shape
        ()
        """
        check_parametrization(parametrization)
        check_by_site(weights, {site.name: site.shape for site in self.sites}, "Weights")
        check_by_site(scales, self.scale_shapes, "Scales")
        return log_prior(self.site_priors, weights, scales, parametrization)

    def penalty(self, parametrization: Parametrization = "expanded") -> Array:
        """What the prior takes off the log-likelihood of all data, up to a constant.

        Parameters
        ----------
        parametrization : {"expanded", "hierarchical"}, default "expanded"
            Expanded: `sum w^2 / (2 scale^2)`, or another base's energy, for a network under noise.
            Hierarchical: that times `E[xi^-2]`, for one without noise and a Gaussian base.

        Returns
        -------
        Array
            One number, a sum over all weights. Divide it by the number of data, once.

        Examples
        --------
        A training loop of your own, dropout with its prior:

        >>> import optax
        >>> dropout = sx.Model(net, sx.ARD(sx.Bernoulli(0.9)), sx.likelihoods.Gaussian())
        >>> inputs, targets = jnp.asarray(x, dropout.dtype), jnp.asarray(y, dropout.dtype)
        >>> @jax.jit
        ... def loss(learned, key):
        ...     current = dropout.with_learned(learned)
        ...     outputs = current.outputs(inputs, current.draw(len(inputs), key=key))
        ...     log_probs = jax.vmap(current.likelihood.log_prob)(outputs, targets)
        ...     bound = sx.inference.lower_bound(log_probs[None])  # one draw: (draws, rows)
        ...     return current.penalty() / len(inputs) - bound
        >>> learned = eqx.filter(dropout, dropout.learnable())
        >>> optimizer = optax.sgd(1e-2)
        >>> state = optimizer.init(learned)
        >>> @jax.jit
        ... def step(learned, state, key):
        ...     updates, state = optimizer.update(jax.grad(loss)(learned, key), state)
        ...     return optax.apply_updates(learned, updates), state
        >>> before = loss(learned, key)
        >>> for step_key in jax.random.split(key, 100):
        ...     learned, state = step(learned, state, step_key)
        >>> bool(loss(learned, key) < before)
        True
        >>> trained = dropout.with_learned(learned)
        """
        return weight_penalty(self.site_priors, parametrization)

    def learnable(self) -> "Model":
        """Which leaves a fit adjusts, as a tree of truth values with the shape of the model.

        Training, chains, new starts and files all go by it.

        Returns
        -------
        Model
            True at arrays of the network that are not frozen and at what the likelihood learns.

        Examples
        --------
        >>> learned = eqx.filter(model, model.learnable())
        >>> sum(leaf.size for leaf in jax.tree.leaves(learned))
        114
        """
        nothing = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(
            lambda m: (m.network, m.likelihood),
            nothing,
            (learnable_leaves(self.network, self.frozen), self.likelihood.learnable()),
        )

    def with_learned(self, learned: PyTree) -> "Model":
        """The same model with these values of what a fit adjusts.

        Parameters
        ----------
        learned : PyTree
            A tree like `eqx.filter(model, model.learnable())`.

        Returns
        -------
        Model
            A new model; what does not learn is that of this one.

        Examples
        --------
        >>> learned = eqx.filter(model, model.learnable())
        >>> shrunk = model.with_learned(jax.tree.map(lambda leaf: 0.9 * leaf, learned))
        """
        _, fixed = eqx.partition(self, self.learnable())
        return eqx.combine(learned, fixed)

    def refusal(self, example: PyTree) -> str | None:
        """Why the network refuses an example of these shapes and types; `None` if it takes it."""
        # To trace a network takes longer than to run it on a few rows, and every prediction asks.
        parts = example_parts(example)
        return remembered(self, parts, lambda: find_refusal(self.network, example))

    def lookups(self, example: PyTree) -> list[Lookups]:
        """The tables that such an example, or a part of it, is looked up in as it is."""
        named = "lookups", example_parts(example)
        return remembered(
            self, named, lambda: find_lookups(self.network, find_sites(self.network), example)
        )

    def frozen_readers(self, example: PyTree) -> list[str]:
        """The names of the frozen layers that are called on the network's input as it is."""
        if not self.frozen:
            return []
        readers = input_sites(self.network, find_sites(self.network), example)
        return [site.name for site in readers if path_name(site.weight_path) in self.frozen]

    def __repr__(self) -> str:
        kinds = dict.fromkeys(s.title for s in self.structures.values())
        network = self.network
        if isinstance(network, CalledNetwork):
            network = network.wrapped_network
        network, likelihood = type(network).__name__, self.likelihood.title
        return f"Model({network}, {'/'.join(kinds)} on {len(self.sites)} sites, {likelihood})"
