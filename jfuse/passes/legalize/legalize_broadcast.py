"""Broadcasting that kernels lack: before them the operands get one shape, or fewer axes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from jfuse.ir.dims import Shape, product, same
from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.ir.walk import with_bodies
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.passes.rewrite import rewrite
from jfuse.tflite.runtime.broadcasting import is_same_shape, lacks_broadcasting
from jfuse.tflite.runtime.row import MOST_AXES


def legalize_broadcast(graph: Graph) -> Graph:
    """Spell out, in bodies too, the broadcasting that kernels do not do themselves."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if lacks_broadcasting(eqn) is None:
            return None
        if eqn.outputs[0].type.rank > MOST_AXES:
            return _on_fewer_axes(eqn)
        return eqn.op.run(_of_one_shape(eqn), eqn.params, ())

    return rewrite(with_bodies(graph, legalize_broadcast), visit)


def _of_one_shape(eqn: Eqn) -> list[Array]:
    """The operands, each broadcast to the shape of the result."""
    shape, operands = eqn.outputs[0].type.shape, _operands(eqn)
    first = sorted(operands, key=lambda x: not is_same_shape(tuple(x.shape), shape))  # those that decide alone
    return [_filling(x, shape, [o for o in first if o is not x]) for x in operands]


def _filling(x: Array, shape: Shape, others: Sequence[Array]) -> Array:
    for other in others:
        if is_same_shape(tuple(x.shape), shape):
            break
        # A choice that always falls on x, and has the shape of both: no sizes need to be known for that.
        x = ops.select_v2(np.asarray(True), x, other)
    return x


def _on_fewer_axes(eqn: Eqn) -> Sequence[Any] | None:
    """The equation on operands whose neighbouring axes are one where they broadcast alike."""
    operands, rank = _operands(eqn), eqn.outputs[0].type.rank
    shapes = [(1,) * (rank - len(x.shape)) + tuple(x.shape) for x in operands]
    groups = [list(axes) for _, axes in groupby(range(rank), lambda axis: [same(s[axis], 1) is True for s in shapes])]
    if len(groups) > MOST_AXES:
        return None
    merged = [
        shaped(x, tuple(product(tuple(shape[a] for a in axes)) for axes in groups))
        for x, shape in zip(operands, shapes, strict=True)
    ]
    (result,) = eqn.op.run(merged, eqn.params, ())
    return (shaped(result, eqn.outputs[0].type.shape, *(x for x in operands if isinstance(x, Var))),)


def _operands(eqn: Eqn) -> list[Array]:
    return [a for a in eqn.inputs if a is not None]
