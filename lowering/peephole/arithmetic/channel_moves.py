"""Moves a scale, shift or activation of channels in front of layout ops, where the product before them can absorb it.

Transposed convolutions end with DEPTH_TO_SPACE and a crop, convolutions over sequences with SQUEEZE.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom, Eqn
from jfuse.kernels import ops
from jfuse.kernels.core.op import TflOp, static_value
from jfuse.lowering.peephole.arithmetic.affine import Affine
from jfuse.lowering.peephole.arithmetic.weighted import WeightedEqn
from jfuse.lowering.peephole.layout.transpose import known_permutation
from jfuse.lowering.peephole.registry import peephole_walk
from jfuse.lowering.peephole.view import GraphView, sole_producer
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rules import need

_RENAMES = (ops.reshape, ops.expand_dims, ops.squeeze)


# Any number of moves in a row is no pattern.
@peephole_walk(ops.add, ops.sub, ops.mul, ops.div, ops.neg, ops.depthwise_conv_2d)
def affine_before_moves(eqn: Eqn, view: GraphView) -> Any:
    """ADD(DEPTH_TO_SPACE(CONV_2D(x, w)), b) = DEPTH_TO_SPACE(ADD(CONV_2D(x, w), b, b, …))."""
    affine = Affine.of(eqn)
    moves, product = _moved(None if affine is None else affine.x, view)
    if affine is None or not moves or product is None:
        return None
    need(product.function == "NONE", "no_activation_between")
    need(product.may_shift(), "constant_bias")
    need(affine.scale is None or product.may_scale(view), "own_weights")
    times = int(np.prod([_repeats(m) for m in moves]))
    scale, shift = (v if v is None or not v.ndim else np.tile(v, times) for v in (affine.scale, affine.shift))
    y: Any = product.eqn.outputs[0]
    if scale is not None:
        y = ops.mul(y, scale, fused_activation_function=affine.function if shift is None else "NONE")
    if shift is not None:
        y = ops.add(y, shift, fused_activation_function=affine.function)
    return _again(moves, y)


# Any number of branches is no pattern.
@peephole_walk(ops.mul, ops.div, ops.depthwise_conv_2d)
def scale_before_join(eqn: Eqn, view: GraphView) -> Any:
    """MUL(CONCATENATION(RELU(CONV_2D(x, w)), MUL(y, t)), s) = CONCATENATION(RELU(CONV_2D(x, w * s)), MUL(y, t * s)).

    For few bits: each row of weights has a scale, and one scale of integers holds branches whose sizes are alike. What
    is shifted or clipped behind the scale still is.
    """
    affine = Affine.of(eqn)
    join = None if affine is None else sole_producer(view, affine.x)
    if affine is None or join is None or join.op is not ops.concatenation:
        return None
    need(join.params["axis"] in (-1, eqn.outputs[0].type.rank - 1), "joined_channels")
    need(affine.scale is not None and bool((affine.scale > 0).all()), "positive_scale")
    need(affine.shift is not None or affine.function == "NONE", "no_activation_of_scale")
    need(join.params.get("fused_activation_function", "NONE") == "NONE", "no_activation_between")
    makers = [sole_producer(view, x) for x in join.inputs]
    need(any(WeightedEqn.of(e) is not None and view.rounds_weights(e) for e in makers if e), "product_in_few_bits")
    channels = [x.type.shape[-1] for x in join.inputs if x is not None]
    need(all(map(is_known, channels)), "known_channels")
    ends = np.cumsum([int(n) for n in channels])
    assert affine.scale is not None
    parts = np.split(np.broadcast_to(affine.scale, ends[-1]), ends[:-1])
    scaled = [_scaled(e, part, view) for e, part in zip(makers, parts, strict=True)]
    need(all(y is not None for y in scaled), "branches_that_scale")
    joined = again(join, inputs=tuple(scaled))
    if affine.shift is None:
        return joined
    return ops.add(joined, affine.shift, fused_activation_function=affine.function)


def _scaled(eqn: Eqn | None, scale: np.ndarray, view: GraphView) -> Any:
    """The result of a product, or of a scale, with its channels scaled once more; None of others."""
    product, own = WeightedEqn.of(eqn), Affine.of(eqn)
    if own is not None and own.scale is not None and own.is_scale():
        return ops.mul(own.x, own.scale * scale)
    if product is None or not product.may_scale(view) or product.function not in ("NONE", "RELU"):
        return None
    return product.with_result(scale, None, product.function)


@peephole_walk(ops.relu, ops.relu6, ops.relu_n1_to_1)
def activation_before_moves(eqn: Eqn, view: GraphView) -> Any:
    """RELU(DEPTH_TO_SPACE(CONV_2D(x, w))) = DEPTH_TO_SPACE(RELU(CONV_2D(x, w)))."""
    moves, product = _moved(eqn.inputs[0], view)
    if not moves or product is None:
        return None
    need(product.function == "NONE", "no_activation_between")
    return _again(moves, again(eqn, inputs=(product.eqn.outputs[0],)))


def _moved(x: Atom | None, view: GraphView) -> tuple[list[Eqn], WeightedEqn | None]:
    """Return the ops that move the pixels of a product to make x, the last one first, and the product."""
    moves: list[Eqn] = []
    eqn = sole_producer(view, x)
    while eqn is not None and _keeps_channels(eqn):
        moves.append(eqn)
        eqn = sole_producer(view, eqn.inputs[0])
    product = WeightedEqn.of(eqn)
    clamps = product is not None and isinstance(product.eqn.op, TflOp) and product.eqn.op.clamps
    return moves, product if clamps else None


def _keeps_channels(eqn: Eqn) -> bool:
    """Whether the op takes whole channels, or runs of them, for elements."""
    if eqn.op in (ops.depth_to_space, ops.batch_to_space_nd):
        return True
    x, result = eqn.inputs[0], eqn.outputs[0]
    if x is None or not x.type.rank or not result.type.rank:
        return False
    if eqn.op is ops.transpose:
        order = known_permutation(eqn)
        return order is not None and order[-1] == x.type.rank - 1
    before, after = x.type.shape[-1], result.type.shape[-1]
    if eqn.op in _RENAMES:
        return same(before, after) is True or (same(after, 0) is False and same(before % after, 0) is True)
    return eqn.op is ops.strided_slice and same(before, after) is True and _crops(eqn)


def _crops(eqn: Eqn) -> bool:
    """Whether a STRIDED_SLICE keeps every axis, and the last one in its order."""
    strides = static_value(eqn.inputs[3]) if eqn.inputs[3] is not None else None
    plain = not any(eqn.params[name] for name in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"))
    rank = eqn.outputs[0].type.rank
    return plain and strides is not None and (len(strides) < rank or strides[-1] == 1)


def _repeats(eqn: Eqn) -> int:
    """How many channels of the operand are one of the result."""
    x, result = eqn.inputs[0], eqn.outputs[0]
    assert x is not None
    before, after = x.type.shape[-1], result.type.shape[-1]
    return 1 if same(before, after) else int(before // after)


def _again(moves: list[Eqn], y: Any) -> Any:
    for eqn in reversed(moves):
        y = again(eqn, inputs=(y, *eqn.inputs[1:]))
    return y
