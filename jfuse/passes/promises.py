"""The promises of passes about their results. Each is a function that finds the first equation that breaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from jfuse.ir.graph import Eqn, Graph, Op
from jfuse.ir.walk import all_eqns, all_graphs
from jfuse.kernels.array.lists import reserve
from jfuse.kernels.control import composite, scan
from jfuse.opaque_ops.tf_op import TfOp
from jfuse.passes.context import Context
from jfuse.passes.gates.custom_ops import is_let_in
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.tflite.schema import BUILTIN_CODES
from jfuse.tflite.write.distinct_outputs import unprepared


@dataclass(frozen=True)
class Promise:
    """A property that holds after a pass, in words, and what finds the first thing in a graph that breaks it.

    broken_by: is given the graph, the context, and how many of the last results are states.
    """

    text: str
    broken_by: Callable[[Graph, Context, int], object | None]


def _no(text: str, *ops: Op) -> Promise:
    return Promise(text, lambda graph, ctx, states: _first(graph, lambda eqn: eqn.op in ops))


def _first(graph: Graph, breaks: Callable[[Eqn], bool]) -> Eqn | None:
    return next(filter(breaks, all_eqns(graph)), None)


def _dead(graph: Graph, ctx: Context, states: int) -> Eqn | None:
    live = {id(eqn) for eqn in eliminate_dead_code(graph).eqns}
    return next((eqn for eqn in graph.eqns if id(eqn) not in live), None)


def _debugged(graph: Graph, ctx: Context, states: int) -> object | None:
    parts: Iterator[Graph | Eqn] = chain.from_iterable((inner, *inner.eqns) for inner in all_graphs(graph))
    return next((part for part in parts if part.debug is not None), None)


def _shared_result(graph: Graph, ctx: Context, states: int) -> object | None:
    places = unprepared(graph, states=states)
    return graph.outputs[places[0]] if places else None


NO_DEBUG_METADATA = Promise("no debug metadata is left", _debugged)
NO_COMPOSITES = _no("no composites are left", composite)
NO_SCANS = _no("no scans and reserved lists are left", scan, reserve)
NOTHING_DEAD = Promise("every equation is read or has effects", _dead)
NO_OPAQUE_OPS_LET_IN = Promise(
    "every op that may be a custom operator is one",
    lambda graph, ctx, states: _first(graph, lambda eqn: isinstance(eqn.op, TfOp) and is_let_in(eqn, ctx)),
)
ONLY_BUILTINS = Promise(
    "every equation is an operator of a file",
    lambda graph, ctx, states: _first(graph, lambda eqn: eqn.op.builtin not in BUILTIN_CODES),
)
RESULTS_APART = Promise("every result is a tensor of its own", _shared_result)
