"""Sizes of tensors, spelled in operators whose kernels LiteRT runs when it allocates (`sizes_at_allocation`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.layout.reshape import reshaped
from jfuse.lowering.peephole.pattern import one_of
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.peephole.view import GraphView
from jfuse.lowering.rule_tools.sizes_at_allocation import known_at_allocation
from jfuse.lowering.rules import need


@peephole(lambda: one_of(ops.pack)(...))
def sizes_joined(match: Match) -> Any:
    """PACK of sizes is a CONCATENATION of parts of shapes."""
    scalars = [a for a in match.eqn.inputs if a is not None]
    need(not any(a.type.rank for a in scalars), "scalars")
    need(all(known_at_allocation(a, match.view.producer) for a in scalars), "known_at_allocation")
    parts = list(_parts(scalars, match.view))
    return parts[0] if len(parts) == 1 else ops.concatenation(*parts, axis=0)


@peephole(lambda x: one_of(ops.expand_dims, ops.squeeze)(x, ...))
def sizes_renamed(match: Match, x: Atom) -> Any:
    """EXPAND_DIMS and SQUEEZE of sizes are RESHAPE."""
    need(known_at_allocation(x, match.view.producer), "known_at_allocation")
    return given(reshaped(x, match.result.type), "constant_shape")


def _parts(scalars: Sequence[Atom], view: GraphView) -> Iterator[Any]:
    """The scalars as vectors, those that follow each other in one vector, or are constants, together."""
    places = [_place(a, view) for a in scalars]
    start = 0
    while start < len(scalars):
        end = start + 1
        if isinstance(scalars[start], Const):
            while end < len(scalars) and isinstance(scalars[end], Const):
                end += 1
            yield np.array(
                [a.array.item() for a in scalars[start:end] if isinstance(a, Const)], scalars[start].type.dtype.numpy
            )
        elif (place := places[start]) is None:
            yield ops.reshape(scalars[start], np.array([1], np.int32))
        else:
            vector, index = place
            while end < len(scalars) and places[end] == (vector, index + end - start):
                end += 1
            yield _taken(vector, index, index + end - start)
        start = end


def _place(scalar: Atom, view: GraphView) -> tuple[Var, int] | None:
    """The vector that a scalar is an element of, and the element's index."""
    made = view.producer(scalar)
    if made is None or made.op is not ops.strided_slice or made.params["shrink_axis_mask"] != 1:
        return None
    vector, begin = made.inputs[0], static_value(made.inputs[1])
    if not isinstance(vector, Var) or vector.type.rank != 1 or begin is None or not is_known(vector.type.shape[0]):
        return None
    first = 0 if made.params["begin_mask"] else begin[0]
    if not is_known(first):
        return None
    return vector, first + (int(vector.type.shape[0]) if first < 0 else 0)


def _taken(vector: Var, start: int, end: int) -> Any:
    if (start, end) == (0, vector.type.shape[0]):
        return vector
    return ops.strided_slice(vector, *(np.array([n], np.int32) for n in (start, end, 1)))
