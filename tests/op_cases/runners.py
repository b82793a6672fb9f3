"""Ways to run rows: the rule on arrays, the rule traced into a graph, many graphs in one XLA program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import depends_on_data
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import LowerRule
from jfuse.passes.context import Context
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.gates.builtins_only import check_operators
from jfuse.passes.legalize.complex_parts import complex_parts
from jfuse.passes.legalize.legalize_broadcast import legalize_broadcast
from jfuse.passes.legalize.legalize_dtypes import legalize_dtypes
from jfuse.passes.options import Forms
from jfuse.passes.pipeline import SUB_PASSES, alone
from jfuse.passes.quantize.quantize import without_narrow_ranges
from jfuse.passes.scans.to_loops.scan_to_loops import scan_to_loops
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from tests.op_cases.case import Case

BATCH = "B"
_CONTEXT = Context(forms=Forms(recover=False), sub=SUB_PASSES)


def on_arrays(case: Case) -> tuple[Any, ...]:
    """The rule's results for NumPy operands."""
    return _as_tuple(_rule(case)(*case.arrays, **case.attributes))[: case.results]


@cache
def graph_of(case: Case, *, dynamic: bool = False) -> Graph:
    """The graph that the rule records, with a Const for each constant operand and a Var for each other one."""

    def call(*inputs: Any) -> Any:
        variables = iter(inputs)
        pairs = zip(case.arrays, case.operands, strict=True)
        operands = [as_atom(a) if o.constant else next(variables) for a, o in pairs]
        return _as_tuple(_rule(case)(*operands, **case.attributes))[: case.results]

    return trace_graph(call, _input_types(case, dynamic), name="row")


def _rule(case: Case) -> LowerRule:
    return default_rules().lowers[case.op]


def _input_types(case: Case, dynamic: bool) -> list[TensorType]:
    types = [TensorType(a.shape, DType.of(a.dtype)) for a in case.inputs]
    if not dynamic:
        return types
    batch = symbol(BATCH)
    return [TensorType((batch, *t.shape[1:]), t.dtype) if t.rank == types[0].rank else t for t in types]


def xla_results(cases: Sequence[tuple[Case, bool]]) -> dict[tuple[Case, bool], tuple[Any, ...]]:
    """The results of rows (and whether each is dynamic) on XLA: one program for all that jax can trace.

    A row whose graph cannot be made is left out.
    """
    graphs = {key: graph for key in cases if (graph := _graph_or_none(*key)) is not None}
    traced = [key for key, graph in graphs.items() if _is_traceable(key[0], graph)]
    with jax.enable_x64(True):
        run = quick_jit(partial(_run_all, [graphs[key] for key in traced]))
        results = run([key[0].inputs for key in traced])
        found = dict(zip(traced, results, strict=True))
        for key in graphs.keys() - found.keys():
            found[key] = evaluate(graphs[key], key[0].inputs)
    return found


def _graph_or_none(case: Case, dynamic: bool) -> Graph | None:
    try:
        return graph_of(case, dynamic=dynamic)
    except Exception:  # whatever it is, the row's own test meets it again and shows it
        return None


def _run_all(graphs: Sequence[Graph], inputs: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return [evaluate(graph, args) for graph, args in zip(graphs, inputs, strict=True)]


def _is_traceable(case: Case, graph: Graph) -> bool:
    texts = any(o.dtype is DType.string for o in case.operands)
    return not texts and not any(map(depends_on_data, all_eqns(graph)))


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, tuple | list) else (results,)


def as_arrays(results: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Results as NumPy arrays."""
    return tuple(np.asarray(r) for r in results)


def litert_results(case: Case, *, delegates: bool, dynamic: bool = False) -> list[tuple[np.ndarray, ...]]:
    """The results of two invokes in a row of the row's file in LiteRT."""
    interpreter = Interpreter(
        model_content=file_of(case, dynamic=dynamic),
        experimental_op_resolver_type=OpResolverType.AUTO
        if delegates
        else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        num_threads=1,
    )
    places = [d["index"] for d in interpreter.get_input_details()]
    for place, array in zip(places, case.inputs, strict=True):
        interpreter.resize_tensor_input(place, array.shape)
    interpreter.allocate_tensors()
    return [_invoke(interpreter, places, case) for _ in range(2)]


def opened(graph: Graph) -> Graph:
    """The graph with composites and scans in TFLite ops, plainly."""
    return scan_to_loops(fuse(graph, _CONTEXT), _CONTEXT)


@cache
def file_of(case: Case, *, dynamic: bool) -> bytes:
    """The row's file."""
    graph = opened(alone(complex_parts)(graph_of(case, dynamic=dynamic), _CONTEXT))
    for step in (alone(legalize_broadcast), alone(without_narrow_ranges), legalize_dtypes):
        graph = step(graph, _CONTEXT)
    check_operators([graph])
    graph = prepare_outputs(graph)
    names = tuple(f"in{i}" for i in range(len(graph.inputs))), tuple(f"out{i}" for i in range(len(graph.outputs)))
    return to_bytes(Program((Signature("row", graph, *names),)))


def _invoke(interpreter: Any, places: Sequence[int], case: Case) -> tuple[np.ndarray, ...]:
    for place, array in zip(places, case.inputs, strict=True):
        interpreter.set_tensor(place, array)
    interpreter.invoke()
    return tuple(interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details())
