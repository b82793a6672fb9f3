"""Files with f16 constants behind DEQUANTIZE: passes see floats, and constants that stay float become f16 again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Source, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, with_bodies
from jfuse.kernels import ops
from jfuse.passes.quantize.arrays import in_halves
from jfuse.passes.quantize.forms import is_float
from jfuse.passes.rewrite import rewrite
from jfuse.quantization.recipe import LEAST_HALVES


def has_halves(program: Program) -> bool:
    """Whether a program keeps constants in f16 that it computes with in f32."""
    return any(map(_is_half, (eqn for graph in program.graphs() for eqn in all_eqns(graph))))


def without_halves(graph: Graph) -> Graph:
    """The graph with these constants in f32, whatever their size, in bodies too."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        return [eqn.inputs[0].array.astype(np.float32)] if _is_half(eqn) else None  # type: ignore[union-attr]

    return rewrite(with_bodies(graph, without_halves), visit)


def with_halves(graph: Graph) -> Graph:
    """The graph with constants of f32 in f16 again where that loses nothing and saves bytes, in bodies too."""
    graph = with_bodies(graph, with_halves)
    eqns: list[Eqn] = []
    floats: dict[int, Var] = {}

    def operand(atom: Atom | None, source: Source) -> Atom | None:
        half = _exact_half(atom) if isinstance(atom, Const) and id(atom) not in floats else None
        if half is not None:
            made = Var(replace(half.type, dtype=DType.f32))
            eqns.append(Eqn(ops.dequantize, (half,), (made,), {}, source))
            floats[id(atom)] = made
        return floats.get(id(atom), atom)

    for eqn in graph.eqns:
        if _computes_in_floats(eqn):
            eqn = replace(eqn, inputs=tuple(operand(a, eqn.source) for a in eqn.inputs))
        eqns.append(eqn)
    return replace(graph, eqns=tuple(eqns)) if floats else graph


def _computes_in_floats(eqn: Eqn) -> bool:
    """Whether DEQUANTIZE may stand before an operator: XNNPACK takes no computed bias beside integer weights."""
    is_operator = eqn.op.is_kernel and not eqn.op.scales and not eqn.bodies
    return is_operator and all(a is None or a.type.quantization is None for a in eqn.inputs)


def _is_half(eqn: Eqn) -> bool:
    return eqn.op is ops.dequantize and isinstance(eqn.inputs[0], Const) and eqn.inputs[0].type.dtype is DType.f16


def _exact_half(const: Const) -> Const | None:
    """The constant in f16; None where that is another number, or saves nothing."""
    if not is_float(const) or const.array.size < LEAST_HALVES:
        return None
    half = in_halves(const)
    return half if half is not None and np.array_equal(half.array.astype(np.float32), const.array) else None
