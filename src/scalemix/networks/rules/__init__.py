"""One short rule for each layer type, and the table of them."""

import equinox as eqx

from scalemix.networks.rules._rule import LayerRule, Ruled
from scalemix.networks.rules.conv import CONV
from scalemix.networks.rules.embedding import EMBEDDING
from scalemix.networks.rules.linear import LINEAR
from scalemix.networks.rules.recurrent import READ, TURN

__all__ = ["LayerRule", "Ruled", "register", "rules_for"]

# A rule holds for subclasses too: Conv1d, Conv2d and Conv3d are all Conv.
RULES: dict[type, tuple[LayerRule, ...]] = {
    eqx.nn.Linear: (LINEAR,),
    eqx.nn.Conv: (CONV,),
    eqx.nn.ConvTranspose: (CONV,),
    eqx.nn.GRUCell: (READ, TURN),
    eqx.nn.LSTMCell: (READ, TURN),
    eqx.nn.Embedding: (EMBEDDING,),
}


def register(layer_type: type, *rules: LayerRule) -> None:
    """Give a layer type of your own the rules by which its weights can carry a prior.

    Parameters
    ----------
    layer_type : type
        The class of the layer. The rules hold for its subclasses too.
    *rules : LayerRule
        One rule for each weight that the layer holds.

    Examples
    --------
    >>> class Dense(eqx.Module):
    ...     kernel: jax.Array
    ...
    ...     def __call__(self, x):
    ...         return x @ self.kernel
    >>> rule = sx.networks.LayerRule(row_axis=0, output_axis=1, weight="kernel")
    >>> sx.networks.register(Dense, rule)
    >>> [site.num_rows for site in sx.networks.find_sites(Dense(jnp.ones((3, 2))))]
    [3]
    """
    if not rules or not all(isinstance(rule, LayerRule) for rule in rules):
        raise ValueError(f"register({layer_type.__name__}, ...) takes one LayerRule or more.")
    names = [rule.weight for rule in rules]
    if len(set(names)) < len(names):
        raise ValueError(f"{layer_type.__name__}: two rules name one weight, {names}.")
    RULES[layer_type] = rules


def rules_for(layer: object) -> tuple[LayerRule, ...]:
    """The layer's own rules; else those of its type, or of the nearest base class that has any."""
    if isinstance(layer, Ruled):
        return layer.layer_rules
    for base in type(layer).__mro__:
        if base in RULES:
            return RULES[base]
    return ()
