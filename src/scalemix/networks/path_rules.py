"""Rules for weights in a tree of parameters, which are known by their paths."""

import dataclasses
import fnmatch
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax

from scalemix._types import PyTree
from scalemix.networks.rules import LayerRule
from scalemix.networks.sites import at_path, path_name

PARAMS = jax.tree_util.GetAttrKey("params")
"""Where a network keeps its tree of parameters."""


@dataclasses.dataclass(frozen=True)
class PathRule:
    """Along which axes of some parameters the rows and the outputs lie.

    Parameters
    ----------
    pattern : str
        Which parameters, written as in a shell: `"*/kernel"`, `"params/Dense_[01]/kernel"`. It must
        match the whole name that `describe` prints, such as `params.Dense_0.kernel`. `*` matches
        any number of levels. `/` and `.` are the same.
    row_axis : int
        The axis along which the rows lie: units of what the parameter is multiplied with. Negative
        axes count from the end.
    output_axis : int, optional
        The axis along which the outputs lie. Without it, there are no scales by output.
    token_axis : int, optional
        The axis along which the tokens of an embedding lie.
    ndim : int, optional
        How many axes the weight of one layer has. A parameter with more of them holds several
        layers, stacked on its first axes, each with scales of its own. By default, all axes are
        those of one layer.

    Examples
    --------
    The kernels of dense layers that compute `x @ kernel`:

    >>> rule = sx.PathRule("*/kernel", row_axis=0, output_axis=1)
    """

    pattern: str
    row_axis: int
    output_axis: int | None = None
    token_axis: int | None = None
    ndim: int | None = None

    def matches(self, name: str) -> bool:
        """Whether this is the name of a parameter that the rule is for."""
        return fnmatch.fnmatchcase(_with_slashes(name), _with_slashes(self.pattern))

    def layer_rule(self, path: tuple[Any, ...], shape: tuple[int, ...]) -> LayerRule:
        """The rule of the parameter at this path in a network; `ValueError` if it does not fit."""
        ndim = len(shape) if self.ndim is None else self.ndim
        axes = {
            name: axis
            for name in ("row_axis", "output_axis", "token_axis")
            if (axis := getattr(self, name)) is not None
        }
        what = f"PathRule({self.pattern!r}) does not fit {path_name(path)!r} of the shape {shape}"
        if len(shape) < ndim or ndim < 1:
            raise ValueError(
                f"{what}: a weight must have axes{f', here {ndim} of them' if ndim else ''}. Give "
                f"a pattern that leaves this parameter out, or another ndim."
            )
        for name, axis in axes.items():
            if not -ndim <= axis < ndim:
                raise ValueError(
                    f"{what}: {name}={axis} is none of its {ndim} axes. Give a pattern that leaves "
                    f"this parameter out, or another axis."
                )
        if len({axis % ndim for axis in axes.values()}) < len(axes):
            raise ValueError(
                f"{what}: {' and '.join(f'{name}={axis}' for name, axis in axes.items())} are one "
                f"and the same axis."
            )
        return LayerRule(
            weight=path,
            ndim=ndim,
            name=self.pattern,
            row_axis=self.row_axis,
            output_axis=self.output_axis,
            token_axis=self.token_axis,
        )


def _with_slashes(name: str) -> str:
    return name.replace(".", "/")


def find_rules(params: PyTree, rules: Any) -> tuple[LayerRule, ...]:
    """A rule for each parameter that a pattern matches, in the order of the tree."""
    rules = [rules] if isinstance(rules, PathRule) else list(rules)
    if not rules or not all(isinstance(rule, PathRule) for rule in rules):
        raise ValueError(f"rules must be one PathRule or more, got {rules!r}.")
    parameters = {path_name(path): (path, leaf) for path, leaf in arrays_of(params)}
    owner: dict[str, PathRule] = {}
    for rule in rules:
        hits = [name for name in parameters if rule.matches(name)]
        if not hits:
            raise ValueError(
                f"PathRule({rule.pattern!r}) matches none of the parameters: "
                f"{', '.join(parameters) or 'there are none'}."
            )
        for name in hits:
            owner.setdefault(name, rule)
    return tuple(
        owner[name].layer_rule(path, leaf.shape)
        for name, (path, leaf) in parameters.items()
        if name in owner
    )


def arrays_of(params: PyTree) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The arrays of real numbers in a tree of parameters, with their paths in the network."""
    names: set[str] = set()
    for path, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        if eqx.is_inexact_array(leaf):
            name = path_name(tuple(path))
            if name in names:
                raise ValueError(f"Two parameters are called {name!r}. Rename one of them.")
            names.add(name)
            try:
                reached = at_path(params, tuple(path))
            except Exception:
                # Whatever a container of someone else's raises at a key that it does not know.
                reached = None
            if reached is not leaf:
                raise ValueError(
                    f"The parameters at {jax.tree_util.keystr(path)!r} are kept in a container "
                    f"that is no dict, list, tuple or module. Turn them into dicts first: "
                    f"flax.nnx.to_pure_dict(state) does it for a State of Flax."
                )
            yield (PARAMS, *path), leaf
