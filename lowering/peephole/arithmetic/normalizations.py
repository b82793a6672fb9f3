"""Normalizations in the fewest operators: L2 norms as one, layer norms around one difference.

A factor before SOFTMAX goes into the weights before it, or stays: XNNPACK has no softmax with a factor, and 1,000
elements take twice the time without it (LiteRT 2.3.0).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.registry import View, peephole, sole_producer
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import is_plain_float, keeps_type

# Elements for one row of the batch. XNNPACK has no L2_NORMALIZATION: measured (LiteRT 2.3.0), the plain operators that
# it has are as fast at this size, and twice as fast at 64 times as much.
_LARGEST = 1 << 10
_L2_EPSILON = 1e-12  # what the kernel lets the sum of squares be at least: its norm is 1e-6 or more
_L2_LARGEST_RANK = 4


@peephole(ops.mul, ops.div)
def l2_normalization(eqn: Eqn, view: View) -> Any:
    """x * RSQRT(MAXIMUM(SUM(x * x), 1e-12)), or x / SQRT(…) = L2_NORMALIZATION(x), over the last axis."""
    if eqn.params["fused_activation_function"] != "NONE" or not is_plain_float(eqn.outputs[0]):
        return None
    root = ops.rsqrt if eqn.op is ops.mul else ops.sqrt
    for x, norm in (eqn.inputs, eqn.inputs[::-1]) if eqn.op is ops.mul else (eqn.inputs,):
        made = sole_producer(view, norm)
        fits = x is not None and keeps_type(x.type, eqn.outputs[0].type) and x.type.rank <= _L2_LARGEST_RANK
        if made is not None and made.op is root and fits and x is not None and _is_small(x.type):
            if _is_sum_of_squares(made.inputs[0], x, view):
                return ops.l2_normalization(x)
    return None


def _is_sum_of_squares(atom: Atom | None, x: Atom, view: View) -> bool:
    """Whether a tensor is MAXIMUM(SUM(x * x), 1e-12) along the last axis."""
    bounded = sole_producer(view, atom)
    if bounded is None or bounded.op is not ops.maximum:
        return False
    total, least = bounded.inputs if isinstance(bounded.inputs[1], Const) else bounded.inputs[::-1]
    if not isinstance(least, Const) or not np.allclose(least.array, _L2_EPSILON, rtol=1e-6, atol=0):
        return False
    summed = sole_producer(view, total)
    if summed is None or summed.op is not ops.sum_ or not summed.params["keep_dims"]:
        return False
    square = sole_producer(view, summed.inputs[0])
    return square is not None and _axes(summed) == (x.type.rank - 1,) and _is_square(square, x)


def _is_square(eqn: Eqn, x: Atom) -> bool:
    plain = eqn.params.get("fused_activation_function", "NONE") == "NONE"
    return eqn.op in (ops.square, ops.mul) and plain and all(a is x for a in eqn.inputs)


@peephole(ops.add)
def common_factor(eqn: Eqn, view: View) -> Any:
    """x * s + (y * s + t) = (x + y) * s + t, as Keras spells layer norms; also with t - y * s, and without t."""
    for i in (0, 1):
        product, rest = sole_producer(view, eqn.inputs[i]), sole_producer(view, eqn.inputs[1 - i])
        if product is None or rest is None or product.op is not ops.mul or not _is_plain(product, rest):
            continue
        for other, term, op in _products(rest, view):
            for factor in (a for a in product.inputs if isinstance(a, Var) and a in other.inputs):
                x, y = (_other(e, factor) for e in (product, other))
                if x is None or y is None or not keeps_type(x.type, eqn.outputs[0].type):
                    continue
                total = op(x, y)
                if term is None:
                    return again(product, inputs=(total, factor), **_activation(eqn))
                return again(eqn, inputs=(ops.mul(total, factor), term))
    return None


def _products(eqn: Eqn, view: View) -> Iterator[tuple[Eqn, Atom | None, Any]]:
    """An equation as a product, or as a product and a term: these, and the op that joins x and y."""
    if eqn.op is ops.mul:
        yield eqn, None, ops.add
    if eqn.op not in (ops.add, ops.sub):
        return
    for i in (0, 1) if eqn.op is ops.add else (1,):
        made = sole_producer(view, eqn.inputs[i])
        if made is not None and made.op is ops.mul and _is_plain(made):
            yield made, eqn.inputs[1 - i], eqn.op


def _activation(eqn: Eqn) -> dict[str, Any]:
    return {"fused_activation_function": eqn.params["fused_activation_function"]}


@peephole(ops.add, ops.sub)
def sum_with_negative(eqn: Eqn, view: View) -> Any:
    """ADD(x, NEG(y)) = SUB(x, y), SUB(x, NEG(y)) = ADD(x, y)."""
    for i in (1, 0) if eqn.op is ops.add else (1,):
        before = view.producer(eqn.inputs[i])
        if before is not None and before.op is ops.neg:
            op = ops.sub if eqn.op is ops.add else ops.add
            return op(eqn.inputs[1 - i], before.inputs[0], **_activation(eqn))
    return None


@peephole(ops.mul)
def constant_factor_last(eqn: Eqn, view: View) -> Any:
    """MUL(x, MUL(r, g)) = MUL(MUL(x, r), g) for a factor r of each row and a constant g of each channel.

    The constant can then go into what follows, and the rows' factor need not be spread over the channels. Where
    MUL(r, g) is smaller than x, as in group norms, it stays: it is less work than a second product with x.
    """
    for i in (0, 1):
        x, inner = eqn.inputs[1 - i], sole_producer(view, eqn.inputs[i])
        if inner is None or inner.op is not ops.mul or not _is_plain(inner) or not isinstance(x, Var):
            continue
        rows, constant = inner.inputs if isinstance(inner.inputs[1], Const) else inner.inputs[::-1]
        if not isinstance(constant, Const) or not isinstance(rows, Var) or not is_plain_float(rows):
            continue
        narrow = rows.type.rank > 0 and same(rows.type.shape[-1], 1) is True and constant.array.size > 1
        spread = keeps_type(inner.outputs[0].type, eqn.outputs[0].type)
        if narrow and spread and keeps_type(x.type, eqn.outputs[0].type):
            return again(eqn, inputs=(ops.mul(x, rows), constant))
    return None


@peephole(ops.mul)
def square_of_itself(eqn: Eqn, view: View) -> Any:
    """MUL(x, x) = SQUARE(x), which others know."""
    x, y = eqn.inputs
    plain = eqn.params["fused_activation_function"] == "NONE" and is_plain_float(eqn.outputs[0])
    return ops.square(x) if plain and x is y and isinstance(x, Var) else None


@peephole(ops.square)
def square_of_difference(eqn: Eqn, view: View) -> Any:
    """SQUARE(SUB(x, y)) = SQUARED_DIFFERENCE(x, y), where nothing else reads the difference."""
    before = sole_producer(view, eqn.inputs[0])
    fits = before is not None and before.op is ops.sub and _is_plain(before) and is_plain_float(eqn.outputs[0])
    return ops.squared_difference(*before.inputs) if fits and before is not None else None


def shared_differences(graph: Graph) -> Graph:
    """SQUARED_DIFFERENCE(x, y) beside SUB(x, y) is the square of that, which then stands before it."""
    subs = {e.inputs: e for e in graph.eqns if e.op is ops.sub and _is_plain(e) and is_plain_float(e.outputs[0])}
    shared = {e.inputs for e in graph.eqns if e.op is ops.squared_difference and e.inputs in subs}
    if not shared:
        return graph
    return replace(graph, eqns=tuple(_with_shared(graph.eqns, {key: subs[key] for key in shared})))


def _with_shared(eqns: tuple[Eqn, ...], subs: dict[Any, Eqn]) -> Iterator[Eqn]:
    placed: set[Eqn] = set()
    for eqn in eqns:
        sub = subs.get(eqn.inputs) if eqn.op is ops.squared_difference else None
        if sub is not None and sub not in placed:
            placed.add(sub)
            yield sub
        if sub is not None:
            yield Eqn(ops.square, sub.outputs, eqn.outputs, {}, eqn.source)
        elif eqn not in placed:
            placed.add(eqn)
            yield eqn


def _axes(eqn: Eqn) -> tuple[int, ...]:
    x, axes = eqn.inputs
    return () if x is None or axes is None else tuple(map(int, axes_from_front(static_value(axes), x.type.rank)))


def _other(eqn: Eqn, factor: Var) -> Atom | None:
    return eqn.inputs[1] if eqn.inputs[0] is factor else eqn.inputs[0]


def _is_plain(*eqns: Eqn) -> bool:
    return all(e.params.get("fused_activation_function", "NONE") == "NONE" for e in eqns)


def _is_small(type_: TensorType) -> bool:
    """Whether a tensor is small, open sizes not counted."""
    return int(np.prod([int(d) for d in type_.shape if is_known(d)])) <= _LARGEST
