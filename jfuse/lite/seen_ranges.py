"""The float file of `_experimental_calibrate_only`, whose tensors state their ranges: `mlir_quantize` reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jfuse.ir.graph import Graph, Program, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.states import distinct, with_signatures
from jfuse.ir.types import DType
from jfuse.ir.walk import substitute
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.statistics import Observed, Statistics


def with_seen_ranges(program: Program, data: Any) -> Program:
    """The program whose float values have the least and greatest number that calibration saw, as the official file.

    data: as a script's `representative_dataset` yields it. Values of bodies have none.
    """
    values = [Observed(var) for signature in distinct(program) for var in _floats(signature.graph)]
    statistics = calibrate(program, values, data)
    return with_signatures(program, lambda s: replace(s, graph=_with_ranges(s.graph, statistics)))


def _floats(graph: Graph) -> list[Var]:
    values = (*graph.inputs, *(out for eqn in graph.eqns for out in eqn.outputs))
    return [var for var in values if var.type.dtype is DType.f32]


def _with_ranges(graph: Graph, statistics: Statistics) -> Graph:
    ranged = {var: _ranged(var, statistics) for var in _floats(graph) if statistics.seen(Observed(var))}
    eqns = (
        replace(substitute(e, ranged), outputs=tuple(ranged.get(out, out) for out in e.outputs)) for e in graph.eqns
    )
    outputs = tuple(ranged.get(a, a) if isinstance(a, Var) else a for a in graph.outputs)
    return replace(graph, inputs=tuple(ranged.get(v, v) for v in graph.inputs), eqns=tuple(eqns), outputs=outputs)


def _ranged(var: Var, statistics: Statistics) -> Var:
    low, high = statistics.range(Observed(var))
    return replace(var, type=replace(var.type, quantization=Quantization((), (), minimum=(low,), maximum=(high,))))
