"""One short rule for each layer type, and the table of them."""

import dataclasses

import equinox as eqx

from scalemix.networks.rules._rule import LayerRule, along_first_axis
from scalemix.networks.rules.conv import CONV
from scalemix.networks.rules.linear import LINEAR

__all__ = ["LayerRule", "along_first_axis", "register", "rules_for"]

# A rule holds for subclasses too: Conv1d, Conv2d and Conv3d are all Conv.
RULES: dict[type, tuple[LayerRule, ...]] = {
    eqx.nn.Linear: (LINEAR,),
    eqx.nn.Conv: (CONV,),
}


def register(layer_type: type, *rules: LayerRule) -> None:
    """Give a layer type of your own the rules by which its weights can carry a prior.

    Parameters
    ----------
    layer_type : type
        The class of the layer. The rules hold for its subclasses too.
    *rules : LayerRule
        One rule for each weight that the layer holds. Where there are several, each needs
        `scale_input=None`, for scaling the input would scale all the weights; and none has
        `scale_output`, for the output comes of all of them.

    Examples
    --------
    >>> class Dense(eqx.Module):
    ...     kernel: jax.Array
    ...
    ...     def __call__(self, x):
    ...         return x @ self.kernel
    >>> rule = sx.networks.LayerRule(
    ...     num_rows=lambda layer: layer.kernel.shape[0],
    ...     expand=lambda layer, scales: scales[:, None],
    ...     weight="kernel",
    ... )
    >>> sx.networks.register(Dense, rule)
    >>> sx.networks.check_rule(Dense(jnp.ones((3, 2))), jnp.ones(3))
    """
    if not rules or not all(isinstance(rule, LayerRule) for rule in rules):
        raise ValueError(f"register({layer_type.__name__}, ...) takes one LayerRule or more.")
    names = [rule.weight for rule in rules]
    if len(set(names)) < len(names):
        raise ValueError(f"{layer_type.__name__}: two rules name one weight, {names}.")
    for name in ("scale_input", "scale_output"):
        if len(rules) > 1 and any(getattr(rule, name) is not None for rule in rules):
            raise ValueError(
                f"{layer_type.__name__} holds several weights, and {name} would scale them all: "
                f"give each rule {name}=None."
            )
    if any((rule.num_outputs is None) != (rule.expand_outputs is None) for rule in rules):
        raise ValueError(
            f"{layer_type.__name__}: num_outputs and expand_outputs go together: give a rule both, "
            f"or neither."
        )
    RULES[layer_type] = rules


def rules_for(layer: object) -> tuple[LayerRule, ...]:
    """The rules of the layer's type, or of the nearest base class that has any."""
    for base in type(layer).__mro__:
        if base in RULES:
            if type(layer).__call__ is base.__call__:
                return RULES[base]
            # A call of its own may do more than add a bias to the product.
            return tuple(dataclasses.replace(rule, scale_output=None) for rule in RULES[base])
    return ()
