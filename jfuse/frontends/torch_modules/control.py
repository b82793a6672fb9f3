"""torch.cond, while_loop and scan: the IR's own branches and loops; constants stay known inside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import if_, scan, while_
from jfuse.lowering.rule_tools.place import sizes_read_from
from jfuse.lowering.rule_tools.query import type_of

Run = Callable[[Any, Sequence[Any]], list[Any]]
"""The results of a graph module for the values of its placeholders."""


def _cond(run: Run, flag: Any, yes: Any, no: Any, operands: Sequence[Any] = ()) -> Any:
    if not isinstance(flag, Var):
        return run(yes if np.asarray(flag).all() else no, operands)
    computed = [i for i, v in enumerate(operands) if isinstance(v, Var)]
    branch_operands = [operands[i] for i in computed]

    def branch(part: Any) -> Graph:
        def body(*variables: Var) -> tuple[Any, ...]:
            values = list(operands)
            for i, variable in zip(computed, variables, strict=True):
                values[i] = variable
            with sizes_read_from(variables):
                return tuple(run(part, values))

        return trace_graph(body, [type_of(v) for v in branch_operands], name="branch")

    scalar = ops.reshape(flag, np.zeros(0, np.int32)) if type_of(flag).rank else flag
    return if_([scalar, *branch_operands], (branch(yes), branch(no)))


def _while_loop(run: Run, cond: Any, body: Any, carried: Sequence[Any], others: Sequence[Any] = ()) -> Any:
    """Lower while_loop; computed invariants become the first carried values."""
    invariant = [i for i, v in enumerate(others) if isinstance(v, Var)]
    inputs = [*(others[i] for i in invariant), *carried]

    def part(module: Any, *, returns: bool) -> Graph:
        def of(*variables: Var) -> tuple[Any, ...]:
            held = list(others)
            for i, variable in zip(invariant, variables, strict=False):
                held[i] = variable
            with sizes_read_from(variables):
                results = run(module, [*variables[len(invariant) :], *held])
            return (*variables[: len(invariant)], *results) if returns else tuple(results)

        return trace_graph(of, [type_of(v) for v in inputs], name="body" if returns else "cond")

    return while_(inputs, (part(cond, returns=False), part(body, returns=True)))[len(invariant) :]


def _scan(run: Run, body: Any, carried: Sequence[Any], steps: Sequence[Any], others: Sequence[Any] = ()) -> Any:
    invariant = [i for i, v in enumerate(others) if isinstance(v, Var)]
    consts = [others[i] for i in invariant]
    rows = [TensorType(type_of(s).shape[1:], type_of(s).dtype) for s in steps]

    def of(*variables: Var) -> tuple[Any, ...]:
        held = list(others)
        for i, variable in zip(invariant, variables, strict=False):
            held[i] = variable
        with sizes_read_from(variables):
            return tuple(run(body, [*variables[len(invariant) :], *held]))

    graph = trace_graph(of, [*map(type_of, [*consts, *carried]), *rows], name="step")
    length = type_of(steps[0]).shape[0]
    operands = [*consts, *carried, *steps]
    return scan(operands, (graph,), consts=len(consts), carries=len(carried), length=length, reverse=False)


CONTROL: Mapping[str, Callable[..., Any]] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan}
"""By the name of PyTorch's operator: a function of `Run` and the operator's arguments."""
