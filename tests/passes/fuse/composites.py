"""Composites for tests of the fuse pass, and what the pass made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.control import composite
from jfuse.lowering.rules import FuseRule, Rule, RuleSet
from jfuse.passes.context import Context
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.pipeline import SUB_PASSES

Function = Callable[..., Any]


def call(
    function: Function, operands: Sequence[Any], arguments: Sequence[str], name: str = "acme.cell", **attributes: Any
) -> tuple[Any, ...]:
    """A composite over the function's own ops, recorded in the active trace."""
    types = [o.type if hasattr(o, "type") else TensorType(o.shape, DType.of(o.dtype)) for o in operands]
    body = trace_graph(function, types, name)
    params = {"name": name, "arguments": tuple(arguments), "attributes": tuple(attributes.items())}
    return composite(operands, [body], **params)


def fused(graph: Graph, *rules: Rule) -> tuple[Graph, Context]:
    """The graph after the pass with these rules alone, checked; and the context with its report."""
    ctx = Context(rules=RuleSet().extended(rules), sub=SUB_PASSES)
    result = fuse(graph, ctx)
    check_graph(result)
    check_made(ctx, rules)
    return result, ctx


def check_made(ctx: Context, rules: Iterable[Rule]) -> None:
    """Each fusion by a rule that says what it makes holds one of these builtins."""
    makes = {name: r.makes for r in rules if isinstance(r, FuseRule) and r.makes for name in r.names}
    for fusion in ctx.report.fused:
        assert fusion.composite not in makes or set(fusion.becomes) & set(makes[fusion.composite])


def op_names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


def conditions(ctx: Context) -> list[str]:
    return [r.condition for r in ctx.report.refused]
