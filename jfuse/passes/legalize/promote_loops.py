"""Loops over 16-bit floats compute in f32: recurrences fuse and run fast in f32 only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import retype, with_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.passes.context import Context
from jfuse.passes.rewrite import rewrite

_NARROW = (DType.f16, DType.bf16)


def promote_loops(graph: Graph, ctx: Context) -> Graph:
    """Let scans over 16-bit floats compute in f32, in bodies too; what enters and leaves them is cast."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not scan or all(v.type.dtype not in _NARROW for v in eqn.bodies[0].inputs):
            return None
        ctx.report.notes.append(f"the loop {str(eqn.source)!r} computes in f32 instead of 16 bits")
        results = scan([_wide(a) for a in eqn.inputs], (_in_f32(eqn.bodies[0]),), **eqn.params)
        return [_narrow(r, out.type.dtype) for r, out in zip(results, eqn.outputs, strict=True)]

    return rewrite(with_bodies(graph, lambda body: promote_loops(body, ctx)), visit)


def _in_f32(graph: Graph) -> Graph:
    def on_type(t: TensorType) -> TensorType:
        return replace(t, dtype=DType.f32) if t.dtype in _NARROW else t

    def on_value(value: Any) -> Any:
        return DType.f32 if isinstance(value, DType) and value in _NARROW else value

    def on_const(const: Const) -> Const:
        return Const(const.array.astype(np.float32), const.name) if const.type.dtype in _NARROW else const

    return retype(graph, on_type, on_value, on_const)


def _wide(atom: Atom | None) -> Any:
    if atom is None or atom.type.dtype not in _NARROW:
        return atom
    return ops.cast(atom, out_data_type=DType.f32)


def _narrow(value: Any, dtype: DType) -> Any:
    return ops.cast(value, out_data_type=dtype) if dtype in _NARROW else value
