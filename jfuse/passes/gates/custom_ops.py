"""TensorFlow ops that the user lets into the file as they are: Flex operators, and custom ones under their own name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from jfuse.ir.graph import Eqn, Graph, Program, Var
from jfuse.ir.trace import active_trace
from jfuse.ir.walk import all_eqns, with_bodies
from jfuse.opaque_ops.custom_options import FLEX, flex_options
from jfuse.opaque_ops.tf_op import CustomOp, TfOp
from jfuse.passes.context import Context
from jfuse.passes.custom_options import given_options
from jfuse.passes.rewrite import rewrite
from jfuse.records.conversion import CustomOperators
from jfuse.tf_nodes.single_node import attributes_of, written_attributes

_FLEX_COST = (
    "needs a runtime with the Flex delegate, which the tensorflow and ai-edge-litert wheels lack and which adds "
    "TensorFlow's kernels to an app (megabytes, or hundreds of them with all ops); runs on the CPU, and cuts the graph "
    "that other delegates could take"
)
_OWN_COST = "LiteRT's own resolver has its kernel, which cuts the graph that delegates could take"
_CUSTOM_COST = "needs a kernel of this name registered with the runtime, and cuts the graph that delegates could take"


def custom_operators(program: Program, ctx: Context) -> Program:
    """The program with a custom operator for each opaque op that `select_tf_ops` or `custom_ops` lets into the file."""
    if ctx.pipeline.select_tf_ops or ctx.pipeline.custom_ops:
        program = program.with_graphs(lambda graph: _with_custom(graph, ctx))
    ctx.report.custom = list(_told(program.graphs()))
    return program


def is_let_in(eqn: Eqn, ctx: Context) -> bool:
    """Whether the user lets an opaque op into the file: one that can be taken out of its graph."""
    if eqn.op.tf_name is None or not eqn.op.node:
        return False
    return ctx.pipeline.lets_in(eqn.op.tf_name)


def _with_custom(graph: Graph, ctx: Context) -> Graph:
    def visit(eqn: Eqn) -> Sequence[Any] | None:
        return _as_custom(eqn, eqn.op, ctx) if isinstance(eqn.op, TfOp) and is_let_in(eqn, ctx) else None

    return rewrite(with_bodies(graph, lambda body: _with_custom(body, ctx)), visit)


def _as_custom(eqn: Eqn, op: TfOp, ctx: Context) -> Sequence[Var]:
    if op.tf_name in ctx.pipeline.custom_ops:
        node = partial(attributes_of, op.node), partial(written_attributes, op.node)
        code, options = op.tf_name, given_options(op.tf_name, ctx.pipeline.custom_options(op.tf_name), *node)
    else:
        code, options = FLEX + op.tf_name, flex_options(op.tf_name, op.node)
    types = tuple(out.type for out in eqn.outputs)
    custom = CustomOp(code, types, op.node, op.draws)
    return active_trace().append(custom, eqn.inputs, types, {"options": options, "version": 1})


def _told(graphs: Sequence[Graph]) -> Sequence[CustomOperators]:
    by_code: dict[str, list[Eqn]] = {}
    for graph in graphs:
        for eqn in all_eqns(graph):
            if isinstance(eqn.op, CustomOp):
                by_code.setdefault(eqn.op.code, []).append(eqn)
    return [
        CustomOperators(
            code,
            code.removeprefix(FLEX),
            len(eqns),
            str(eqns[0].source),
            _cost(code, eqns[0]),
        )
        for code, eqns in by_code.items()
    ]


def _cost(code: str, eqn: Eqn) -> str:
    if eqn.op.is_stubbed:
        return _OWN_COST
    return _FLEX_COST if code.startswith(FLEX) else _CUSTOM_COST
