"""Runs the operations of a traced function one by one, each as someone else says."""

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import Jaxpr, JaxprEqn, Literal

Operate = Callable[[JaxprEqn, list[Any]], Sequence[Any]]
"""(operation, its inputs) -> its outputs."""


def run_operations(
    jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any], operate: Operate
) -> list[Any]:
    """The outputs of a traced function for these arguments."""
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        outputs = operate(equation, [read(atom) for atom in equation.invars])
        known.update(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def bind(equation: JaxprEqn, inputs: Sequence[Any], **changed: Any) -> list[Any]:
    """The outputs of one operation, as it is or with some of its parameters changed."""
    parameters = equation.primitive.get_bind_params({**equation.params, **changed})
    with equation.ctx.manager:
        outputs = equation.primitive.bind(*inputs, **parameters)
    return list(outputs) if equation.primitive.multiple_results else [outputs]


def scan_counts(parameters: dict[str, Any], num_inputs: int) -> tuple[int, int]:
    """How many inputs of a scan are the same in every step, and how many are carried along."""
    if "num_consts" in parameters:
        return parameters["num_consts"], parameters["num_carry"]
    # From JAX 0.11 on there is a tree of three parts in place of the two numbers.
    consts, carried, _ = parameters["ft_in"].update(range(num_inputs)).unpack()
    return len(list(consts)), len(list(carried))
