"""Names of a jaxpr's equations, and their results for arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax.extend import core as jax_core

from jfuse.frontends.jaxprs.parts import body_of, needed

CALLS = frozenset(
    {
        "jit",
        "pjit",
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
        "checkpoint",
        "remat2",
        "custom_lin",
    }
)
"""Primitives that are inlined."""


@dataclass(frozen=True)
class NodeNames:
    """Names in the order of a walk: scope and primitive, numbered from the second of a name on, as TensorFlow does.

    prefix: of all of them, where they stand in a part of an equation.
    """

    prefix: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def of(self, eqn: Any) -> str:
        """The name of the next equation of a walk."""
        scope = str(eqn.source_info.name_stack)
        kind = str(eqn.primitive.name)
        name = str(eqn.params.get("name", kind)) if kind in CALLS else kind
        name = self.prefix + (f"{scope}/{name}" if scope else name)
        number = self.counts[name]
        self.counts[name] += 1
        return f"{name}_{number}" if number else name


def called(eqn: Any, operands: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
    """The closed jaxpr of a call, and its arguments."""
    closed = body_of(eqn)
    return closed, operands[len(operands) - len(closed.jaxpr.invars) :]  # old forms pass residuals first


def values_of_nodes(closed: Any, arguments: Sequence[Any]) -> dict[str, list[Any]]:
    """The results of each equation by its name, of calls those within, in jax."""
    names = NodeNames()
    values_by_node: dict[str, list[Any]] = {}

    def run(closed: Any, arguments: Sequence[Any]) -> list[Any]:
        values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        values |= dict(zip(closed.jaxpr.invars, arguments, strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, jax_core.Literal) else values[atom]

        for eqn in needed(closed.jaxpr):
            name, operands = names.of(eqn), list(map(read, eqn.invars))
            if eqn.primitive.name in CALLS:
                results = run(*called(eqn, operands))
            else:
                result = eqn.primitive.bind(*operands, **eqn.params)
                results = list(result) if eqn.primitive.multiple_results else [result]
                if all(isinstance(r.dtype, np.dtype) for r in results):  # keys of random numbers have no array
                    values_by_node[name] = results
            values |= dict(zip(eqn.outvars, results, strict=True))
        return list(map(read, closed.jaxpr.outvars))

    run(closed, arguments)
    return values_by_node
