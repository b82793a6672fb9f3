"""Computes in a wider dtype where the runtime lacks a kernel. No value loses a digit by it, and the report says so."""

from __future__ import annotations

from collections import Counter
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
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.tflite.runtime.type_encodings import Encoding, keeps_values, wider


def legalize_dtypes(graph: Graph, ctx: Context) -> Graph:
    """Put casts around operators on types without a kernel, in bodies too, where that gives the same results.

    16-bit floats round once, as TensorFlow's do; integers overflow as they would in their own type.
    """
    widened_ops: Counter[str] = Counter()
    widened = _widened(graph, widened_ops)
    for what, count in sorted(widened_ops.items()):
        ctx.report.notes.append(f"{what} ({count}x): the runtime has no kernel of its own")
    return widened


def _widened(graph: Graph, widened_ops: Counter[str]) -> Graph:
    held: dict[tuple[Atom, Encoding], Any] = {}  # what is there in another type already, so that it is cast once

    def encoded(atom: Atom, encoding: Encoding) -> Any:
        if (atom, encoding) not in held:
            held[atom, encoding] = _converted(atom, encoding.wide, encoding)
        return held[atom, encoding]

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        encoding = wider(eqn)
        if encoding is None:
            return None
        widened_ops[f"{eqn.op.name} of {encoding.narrow.value} computes in {encoding.wide.value}"] += 1
        operands = [
            encoded(a, encoding) if a is not None and encoding.applies(eqn, i) else a for i, a in enumerate(eqn.inputs)
        ]
        results = list(eqn.op.run(operands, eqn.params, ()))
        for i, out in enumerate(eqn.outputs):
            if out.type.dtype is encoding.narrow:
                if keeps_values(eqn, encoding):
                    held[out, encoding] = results[i]
                results[i] = _converted(results[i], encoding.narrow, encoding)
        return results

    whole = with_bodies(graph, lambda body: _widened(body, widened_ops))
    widened = rewrite(whole, visit)
    return whole if widened is whole else eliminate_dead_code(widened)


def _converted(value: Any, dtype: DType, encoding: Encoding) -> Any:
    convert = ops.bitcast if encoding.bits else ops.cast
    return convert(value, out_data_type=dtype)


# Loops over 16-bit floats compute in f32 even where the source's precision is kept: recurrences fuse in f32 only.


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
