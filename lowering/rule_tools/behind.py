"""Walks from a value of the trace back to the values that it is computed from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from jfuse.ir.graph import Eqn, Var
from jfuse.ir.trace import producer
from jfuse.kernels.core.op import Array


def eqns_behind(x: Array, followed: Callable[[Eqn], Sequence[object]]) -> Iterator[Eqn]:
    """The equation that makes a value, and those behind it, each once.   followed: the operands to go on from"""
    seen: set[Var] = set()
    pending: list[object] = [x]
    while pending:
        var = pending.pop()
        eqn = producer(var) if isinstance(var, Var) and var not in seen else None
        if eqn is not None:
            seen.update(eqn.outputs)
            yield eqn
            pending += followed(eqn)
