"""16-bit floats where f32 does better: loops, which fuse and run fast in f32 only, and operators without a kernel.

No value loses a digit by it, and the report says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.export.dtypes import unsupported
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import retype
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.kernels.op import TflOp
from jfuse.passes.context import Context
from jfuse.passes.rewrite import rewrite, with_bodies

_NARROW = (DType.f16, DType.bf16)


def widen_loops(graph: Graph, ctx: Context) -> Graph:
    """Let scans over 16-bit floats compute in f32, in bodies too; what enters and leaves them is cast."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not scan or all(v.type.dtype not in _NARROW for v in eqn.bodies[0].inputs):
            return None
        ctx.report.notes.append(f"the loop {str(eqn.source)!r} computes in f32 instead of 16 bits")
        results = scan([_wide(a) for a in eqn.inputs], (_in_f32(eqn.bodies[0]),), **eqn.params)
        return [_narrow(r, out.type.dtype) for r, out in zip(results, eqn.outputs, strict=True)]

    return rewrite(with_bodies(graph, lambda body: widen_loops(body, ctx)), visit)


def _in_f32(graph: Graph) -> Graph:
    def on_type(t: TensorType) -> TensorType:
        return replace(t, dtype=DType.f32) if t.dtype in _NARROW else t

    def on_value(value: Any) -> Any:
        return DType.f32 if isinstance(value, DType) and value in _NARROW else value

    def on_const(const: Const) -> Const:
        return Const(const.array.astype(np.float32), const.name) if const.type.dtype in _NARROW else const

    return retype(graph, on_type, on_value, on_const)


def widen(graph: Graph, ctx: Context) -> Graph:
    """Put casts around operators that take no 16-bit floats, in bodies too: they round once, as TensorFlow's do."""
    found: Counter[str] = Counter()
    widened = _widened(graph, found)
    for what, count in sorted(found.items()):
        ctx.report.notes.append(f"{what} computes in f32 ({count}x): the runtime has no narrower kernel")
    return widened


def _widened(graph: Graph, found: Counter[str]) -> Graph:
    def visit(eqn: Eqn) -> Sequence[Any] | None:
        dtypes = {a.type.dtype for a in (*eqn.inputs, *eqn.outputs) if a is not None}
        if not isinstance(eqn.op, TflOp) or eqn.op.updates or dtypes.isdisjoint(_NARROW) or not unsupported(eqn):
            return None
        if unsupported(replace(eqn, inputs=tuple(map(_wide_type, eqn.inputs)), outputs=_wide_types(eqn.outputs))):
            return None
        found[f"{eqn.op.name} of {', '.join(sorted(d.value for d in dtypes & set(_NARROW)))}"] += 1
        results = eqn.op.run([_wide(a) for a in eqn.inputs], eqn.params, ())
        return [_narrow(r, out.type.dtype) for r, out in zip(results, eqn.outputs, strict=True)]

    return rewrite(with_bodies(graph, lambda body: _widened(body, found)), visit)


def _wide(atom: Atom | None) -> Any:
    if atom is None or atom.type.dtype not in _NARROW:
        return atom.array if isinstance(atom, Const) else atom
    return ops.cast(atom.array if isinstance(atom, Const) else atom, out_data_type=DType.f32)


def _narrow(value: Any, dtype: DType) -> Any:
    return ops.cast(value, out_data_type=dtype) if dtype in _NARROW else value


def _wide_type(atom: Atom | None) -> Atom | None:
    if atom is None or atom.type.dtype not in _NARROW:
        return atom
    return Var(replace(atom.type, dtype=DType.f32))


def _wide_types(results: Sequence[Var]) -> tuple[Var, ...]:
    return tuple(Var(replace(v.type, dtype=DType.f32)) if v.type.dtype in _NARROW else v for v in results)
