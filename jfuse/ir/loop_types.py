"""The types of what a loop carries, found by recording its body until they hold in each step."""

from __future__ import annotations

from dataclasses import replace

from jfuse.errors import LowerError
from jfuse.ir.dims import same, symbols_in
from jfuse.ir.graph import Graph
from jfuse.ir.trace import active_trace
from jfuse.ir.types import TensorType


def carried_types(body: Graph, opened: set[str]) -> list[TensorType]:
    """The types of what a loop carries, so that they hold in each step; a size that changes becomes a symbol.

    Sizes that are open from outside of the loop are taken for equal. opened: the symbols for sizes that change.
    """
    trace = active_trace()
    outside = symbols_in(tuple(v.type.shape for v in body.inputs)) - opened
    found = []
    for var, out in zip(body.inputs, body.outputs, strict=True):
        if var.type.dtype is not out.type.dtype or var.type.rank != out.type.rank:
            raise LowerError(
                "a value carried by a loop changes its type",
                expected=str(var.type),
                found=str(out.type),
                remedy="reshape or cast it within the loop, so that its rank and dtype stay",
            )
        for d, e in zip(var.type.shape, out.type.shape, strict=True):
            if symbols_in((d, e)) <= outside:
                trace.equate(d, e)
        pairs = zip(trace.resolve(var.type).shape, trace.resolve(out.type).shape, strict=True)
        dims = [d if same(d, e) or str(d) in opened else trace.names.fresh("N") for d, e in pairs]
        opened |= {str(d) for d, e in zip(dims, trace.resolve(var.type).shape, strict=True) if not same(d, e)}
        found.append(replace(var.type, shape=tuple(dims)))
    return found
