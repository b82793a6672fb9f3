"""Loops over 16-bit floats compute in f32 even where the source's precision is kept: recurrences fuse in f32 only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.graph import Atom, Eqn, Graph
from jfuse.ir.types import DType
from jfuse.ir.walk import with_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.passes.context import Context
from jfuse.passes.legalize.float_precision import NARROW, in_f32_types
from jfuse.passes.rewrite import rewrite


def promote_loops(graph: Graph, ctx: Context) -> Graph:
    """Let scans over 16-bit floats compute in f32, in bodies too; what enters and leaves them is cast."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not scan or all(v.type.dtype not in NARROW for v in eqn.bodies[0].inputs):
            return None
        ctx.report.notes.append(f"the loop {str(eqn.source)!r} computes in f32 instead of 16 bits")
        results = scan([_wide(a) for a in eqn.inputs], (in_f32_types(eqn.bodies[0]),), **eqn.params)
        return [_narrow(r, out.type.dtype) for r, out in zip(results, eqn.outputs, strict=True)]

    return rewrite(with_bodies(graph, lambda body: promote_loops(body, ctx)), visit)


def _wide(atom: Atom | None) -> Any:
    if atom is None or atom.type.dtype not in NARROW:
        return atom
    return ops.cast(atom, out_data_type=DType.f32)


def _narrow(value: Any, dtype: DType) -> Any:
    return ops.cast(value, out_data_type=dtype) if dtype in NARROW else value
