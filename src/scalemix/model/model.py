"""A network, a prior on its weights and a likelihood, checked against each other."""

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, DTypeLike, PRNGKeyArray

from scalemix._types import PyTree, Shaped
from scalemix.likelihoods import Likelihood
from scalemix.model.assignment import Prior
from scalemix.model.construction import find_parts
from scalemix.model.description import Description, describe
from scalemix.model.inputs import find_refusal
from scalemix.model.outputs import NoiseSharing, noisy_outputs
from scalemix.model.prior import PriorSample, draw_scales, log_prior, sample_prior, weight_penalty
from scalemix.model.site_prior import Parametrization, SitePrior, check_parametrization
from scalemix.networks.freezing import Frozen, learnable_leaves
from scalemix.networks.placing import Scales, check_by_site, get_weights, put_scales, put_weights
from scalemix.networks.readers import input_sites
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
        given `None`, carry no prior, nor do biases and norms.
    likelihood : Likelihood
        The distribution of a target given the network's output.
    example : Array, optional
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
    example : Shaped or None
        The shape and type of one input, where they are known.
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
    example: Shaped | None = eqx.field(static=True)
    frozen: tuple[str, ...] = eqx.field(static=True)

    def __init__(
        self,
        network: PyTree,
        prior: Prior,
        likelihood: Likelihood,
        *,
        example: Array | None = None,
        frozen: Frozen | None = None,
    ):
        self.network = network
        self.likelihood = likelihood
        self.structures, self.sites, self.example, self.frozen = find_parts(
            network, prior, likelihood, example, frozen
        )

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

    def outputs(
        self, x: Array, scales: Scales, *, noise_sharing: NoiseSharing = "example"
    ) -> Array:
        """The network's outputs for a batch under noise drawn beforehand.

        Parameters
        ----------
        x : Array
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
        >>> def loss(learned, key):
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

    def refusal(self, shape: tuple[int, ...], dtype: DTypeLike) -> str | None:
        """Why the network refuses an example of this shape and type; `None` if it takes it."""
        dtype = jax.dtypes.canonicalize_dtype(dtype)
        return find_refusal(self.network, jax.ShapeDtypeStruct(shape, dtype))

    def frozen_readers(self, example: Shaped) -> list[str]:
        """The names of the frozen layers that are called on the network's input as it is."""
        if not self.frozen:
            return []
        like = jax.ShapeDtypeStruct(example.shape, example.dtype)
        readers = input_sites(self.network, find_sites(self.network), like)
        return [site.name for site in readers if path_name(site.weight_path) in self.frozen]

    def __repr__(self) -> str:
        kinds = dict.fromkeys(s.title for s in self.structures.values())
        network, likelihood = type(self.network).__name__, self.likelihood.title
        return f"Model({network}, {'/'.join(kinds)} on {len(self.sites)} sites, {likelihood})"
