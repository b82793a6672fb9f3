"""Constants that a rule computes (a bias with the forget constant added): exact for the proof, rounded in the file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.text import format_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_graphs, with_float

# A few roundings to f32, 6e-8 each, of sums no larger than the largest element.
_ROUNDING = 1e-6


def widened(eqn: Eqn) -> Eqn:
    """The composite in f64: operands, results and body."""
    bodies = tuple(with_float(body, DType.f64) for body in eqn.bodies)
    arrays = {id(a.array): _wide(a) for a in eqn.inputs if isinstance(a, Const)}  # one array stays one
    inputs = tuple(arrays[id(a.array)] if isinstance(a, Const) else None if a is None else _wide(a) for a in eqn.inputs)
    outputs = tuple(Var(_wide_type(out.type), out.name, out.value) for out in eqn.outputs)
    return replace(eqn, inputs=inputs, outputs=outputs, bodies=bodies)


def rounds_to(exact: Graph, rounded: Graph) -> bool:
    """Whether two graphs are one and the same but for their float width and for the rounding of their constants."""
    graphs = [with_float(graph, DType.f64) for graph in (exact, rounded)]  # both: options name dtypes too
    constants = [_float_constants(graph) for graph in graphs]
    texts = [format_graph(g, sources=False, hoisted=c) for g, c in zip(graphs, constants, strict=True)]
    return texts[0] == texts[1] and all(_close(a, b) for a, b in zip(*constants, strict=True))


def _float_constants(graph: Graph) -> list[np.ndarray]:
    """Each float array once, in order of first use."""
    arrays: dict[int, np.ndarray] = {}
    for inner in all_graphs(graph):
        for atoms in (*(eqn.inputs for eqn in inner.eqns), inner.outputs):
            arrays.update({id(a.array): a.array for a in atoms if isinstance(a, Const) and a.type.dtype.is_float})
    return list(arrays.values())


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=0, atol=_ROUNDING * np.abs(b).max(initial=0.0)))


def _wide(atom: Atom) -> Atom:
    if isinstance(atom, Var):
        return Var(_wide_type(atom.type), atom.name, atom.value)
    return Const(atom.array.astype(np.float64), atom.name) if atom.type.dtype is DType.f32 else atom


def _wide_type(type_: TensorType) -> TensorType:
    return replace(type_, dtype=DType.f64) if type_.dtype is DType.f32 else type_
