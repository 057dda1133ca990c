"""Runs the operations of a traced function one by one, each as someone else says."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
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


# What JAX calls them depends on its version.
WRAPPERS = {
    "jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "custom_jvp_call",
    "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_jvp_call_jaxpr",
}  # fmt: skip


def wrapped(equation: JaxprEqn) -> tuple[Jaxpr, Sequence[Any]] | None:
    """What an operation only wraps, and its constants; `None` if it is one of its own."""
    if equation.primitive.name not in WRAPPERS:
        return None
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(name)
        if inner is not None:
            closed = hasattr(inner, "consts")
            return (inner.jaxpr, inner.consts) if closed else (inner, ())
    return None


def unwrapped(closed: Any) -> Any:
    """The same traced function, in which no operation only wraps others."""

    def operate(equation: JaxprEqn, inputs: list[Any]) -> Sequence[Any]:
        inner = wrapped(equation)
        if inner is None:
            return bind(equation, inputs)
        return run_operations(*inner, inputs, operate)

    def run(*arguments: Any) -> list[Any]:
        return run_operations(closed.jaxpr, closed.consts, arguments, operate)

    return jax.make_jaxpr(run)(*closed.in_avals)
