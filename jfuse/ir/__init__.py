"""The program as a value: types, graphs, their text, queries and rewrites."""

from jfuse.ir.check import check_eqn, check_graph
from jfuse.ir.dims import Dim, Shape, is_known, same, symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Params, Program, Signature, Source, State, Var
from jfuse.ir.parser import parse, parse_program
from jfuse.ir.quantization import Quantization
from jfuse.ir.text import constants_of, format_eqn, format_graph, format_program
from jfuse.ir.trace import active_trace, at_source, is_tracing, recording, trace_graph
from jfuse.ir.types import DType, TensorType

__all__ = [
    "Atom",
    "Const",
    "DType",
    "Dim",
    "Eqn",
    "Graph",
    "Op",
    "Params",
    "Program",
    "Quantization",
    "Shape",
    "Signature",
    "Source",
    "State",
    "TensorType",
    "Var",
    "active_trace",
    "at_source",
    "check_eqn",
    "check_graph",
    "constants_of",
    "evaluate",
    "format_eqn",
    "format_graph",
    "format_program",
    "is_known",
    "is_tracing",
    "parse",
    "parse_program",
    "recording",
    "same",
    "symbol",
    "trace_graph",
]
