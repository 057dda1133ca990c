"""Networks that are functions of a tree of parameters, as in Flax, Haiku or plain JAX."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from scalemix._types import PyTree
from scalemix.networks.flax_rules import flax_rules
from scalemix.networks.path_rules import PathRule, find_rules
from scalemix.networks.rules import LayerRule, Ruled


class FunctionNetwork(Ruled):
    """A network that calls a function on its parameters. `from_function` makes it.

    Attributes
    ----------
    params : PyTree
        The tree of parameters.
    function : callable
        `(params, x) -> output`.
    layer_rules : tuple of LayerRule
        One for each parameter that can carry a prior.

    Examples
    --------
    >>> params = {"kernel": jnp.ones((3, 2))}
    >>> network = sx.networks.from_function(lambda params, x: x @ params["kernel"], params)
    >>> network(jnp.ones(3)), network.params["kernel"].shape
    (Array([3., 3.], dtype=float32), (3, 2))
    """

    params: PyTree
    function: Callable[..., Any] = eqx.field(static=True)
    layer_rules: tuple[LayerRule, ...] = eqx.field(static=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self.params, *args, **kwargs)


def from_function(
    function: Callable[..., Any], params: PyTree, *, rules: Sequence[PathRule] | None = None
) -> FunctionNetwork:
    """A network from a function of a tree of parameters.

    Everything that holds for a network of Equinox modules then holds for it: priors, all methods
    of inference, relevance, masks, files. A file holds no code: `scalemix.load` needs
    `network=from_function(...)` with the same function and a tree of the same shapes.

    Parameters
    ----------
    function : callable
        `(params, x) -> output` for one example `x`, without a batch axis. For a Flax Linen module:
        `lambda params, x: module.apply({"params": params}, x)`.
    params : PyTree
        Dicts, lists, tuples or modules of arrays. All arrays of real numbers in it learn, unless
        `Model(..., frozen=...)` says otherwise: keep running averages and the like out of it.
    rules : sequence of PathRule, optional
        Which parameters can carry a prior, and what lies along their axes. The first rule that
        matches a parameter holds for it. By default the conventions of Flax:

        - `kernel` is `(inputs, outputs)`, with the axes of a convolution before them. If its
          `bias` has more than one axis, the first axes of both stack layers. In a grouped
          convolution the inputs are those of a group: the groups share their scales.
        - `embedding` is `(tokens, features)`.
        - In attention, which holds `query`, `key`, `value` and `out`, the rows of the first three
          are their inputs, and those of `out`, `(heads, features, outputs)`, are the heads: one
          scale a head.

    Returns
    -------
    FunctionNetwork
        A network that is called as `network(x)`.

    Raises
    ------
    ValueError
        If a rule matches nothing, or does not fit what it matches.

    Examples
    --------
    >>> params = {"Dense_0": {"kernel": jnp.ones((3, 8)), "bias": jnp.zeros(8)},
    ...           "Dense_1": {"kernel": jnp.ones((8, 1)), "bias": jnp.zeros(1)}}
    >>> def apply(params, x):
    ...     first, last = params["Dense_0"], params["Dense_1"]
    ...     h = jnp.tanh(x @ first["kernel"] + first["bias"])
    ...     return h @ last["kernel"] + last["bias"]
    >>> network = sx.networks.from_function(apply, params)
    >>> [(site.name, site.num_rows) for site in sx.networks.find_sites(network)]
    [('params.Dense_0.kernel', 3), ('params.Dense_1.kernel', 8)]

    With rules of one's own, here for the first layer alone:

    >>> rule = sx.PathRule("params/Dense_0/kernel", row_axis=0, output_axis=1)
    >>> network = sx.networks.from_function(apply, params, rules=[rule])
    >>> model = sx.Model(network, sx.ARD(sx.HalfCauchy(1.0)), sx.likelihoods.Gaussian())
    >>> print(str(model.describe()).splitlines()[-1])
    no prior: params.Dense_0.bias, params.Dense_1.bias, params.Dense_1.kernel
    """
    _check_function(function)
    params = jax.tree.map(_as_array, params)
    layer_rules = flax_rules(params) if rules is None else find_rules(params, rules)
    return FunctionNetwork(params=params, function=function, layer_rules=layer_rules)


def _check_function(function: Any) -> None:
    if not callable(function):
        raise ValueError(
            f"from_function takes a function (params, x) -> output and then its parameters; got "
            f"{type(function).__name__} in place of the function."
        )
    try:
        hash(function)
    except TypeError:
        raise ValueError(
            f"The function, a {type(function).__name__}, cannot be hashed, as JAX needs it to be "
            f"to compile it once. Wrap it: from_function(lambda params, x: f(params, x), params)."
        ) from None


def _as_array(leaf: Any) -> Any:
    # A NumPy array would count as a constant, and not learn.
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf
