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
from jfuse.kernels.core.op import TflOp, static_value
from jfuse.lowering.peephole.pattern import const, var
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import is_plain_float
from jfuse.lowering.rules import need

# Elements for one row of the batch. XNNPACK has no L2_NORMALIZATION: measured (LiteRT 2.3.0), the plain operators that
# it has are as fast at this size, and twice as fast at 64 times as much.
_LARGEST = 1 << 10
_L2_EPSILON = 1e-12  # what the kernel lets the sum of squares be at least: its norm is 1e-6 or more
_L2_LARGEST_RANK = 4


def _activation(function: Any) -> dict[str, Any]:
    return {"fused_activation_function": function}


def _norm(root: TflOp, squares: Any, least: Any) -> Any:
    """SQRT or RSQRT of a sum of squares."""
    return root(ops.maximum(ops.sum_(squares, ..., keep_dims=True).named("total"), const(least)))


@peephole(
    lambda x, least: ops.mul(x, _norm(ops.rsqrt, ops.square(x), least)),
    lambda x, least: ops.mul(x, _norm(ops.rsqrt, ops.mul(x, x), least)),
    lambda x, least: ops.div(x, _norm(ops.sqrt, ops.square(x), least)),
    lambda x, least: ops.div(x, _norm(ops.sqrt, ops.mul(x, x), least)),
)
def l2_normalization(match: Match, x: Atom, total: Eqn, least: Const) -> Any:
    """x * RSQRT(MAXIMUM(SUM(x * x), 1e-12)), or x / SQRT(…) = L2_NORMALIZATION(x), over the last axis."""
    need(is_plain_float(match.result), "plain_float")
    need(match.keeps_type(x), "type_of_result")
    need(x.type.rank <= _L2_LARGEST_RANK and _is_small(x.type), "small_operand")
    need(_axes(total) == (x.type.rank - 1,), "last_axis")
    need(np.allclose(least.array, _L2_EPSILON, rtol=1e-6, atol=0), "epsilon_of_kernel")
    return ops.l2_normalization(x)


@peephole(
    lambda powers: ops.div(var(powers), ops.sum_(powers, ..., keep_dims=True).named("total"), **_activation("NONE"))
)
def softmax(match: Match, powers: Var, total: Eqn) -> Any:
    """DIV(e, SUM(e)) for e = EXP(SUB(x, REDUCE_MAX(x))) = SOFTMAX(x), over the last axis."""
    need(is_plain_float(match.result), "plain_float")
    power = given(match.view.producer(powers), "exponential")
    need(power.op is ops.exp and match.view.readers(powers) == 2, "exponential")
    return ops.softmax(_less_its_maximum(match, power.inputs[0], readers=1, total=total))


def _less_its_maximum(match: Match, difference: Atom | None, *, readers: int, total: Eqn) -> Atom:
    """The x of SUB(x, REDUCE_MAX(x)), over the last axis as `total` is.   readers: of the difference"""
    below = given(match.view.producer(difference), "difference_from_maximum")
    need(below.op is ops.sub and match.view.readers(below.outputs[0]) == readers, "difference_from_maximum")
    x, top = below.inputs
    most = given(match.view.producer(top), "difference_from_maximum")
    need(most.op is ops.reduce_max and most.inputs[0] is x and most.params["keep_dims"], "difference_from_maximum")
    last = (total.outputs[0].type.rank - 1,)
    need(_axes(total) == last and _axes(most) == last, "last_axis")
    need(x is not None and match.keeps_type(x), "type_of_result")
    assert x is not None
    return x


@peephole(
    lambda x, factor: ops.mul(ops.sum_(x, ..., keep_dims=...).named("total"), const(factor), **_activation("NONE")),
    lambda x, count: ops.div(ops.sum_(x, ..., keep_dims=...).named("total"), const(count), **_activation("NONE")),
)
def mean(match: Match, x: Atom, total: Eqn, factor: Const | None = None, count: Const | None = None) -> Any:
    """SUM(x) / n = MEAN(x) for n elements; also SUM(x) * f32(1 / n)."""
    need(is_plain_float(match.result), "plain_float")
    constant = given(count if factor is None else factor, "constant")
    need(constant.array.size == 1 and match.keeps_type(total.outputs[0]), "scalar")
    sizes = [x.type.shape[axis] for axis in _axes(total)]
    need(all(map(is_known, sizes)) and 0 not in sizes, "known_count")
    value, elements = constant.array.reshape(()), np.float32(np.prod(sizes, dtype=np.float64))
    need(value == (elements if factor is None else np.float32(1) / elements), "count_of_elements")
    return ops.mean(x, given(total.inputs[1], "axes"), keep_dims=total.params["keep_dims"])


@peephole(lambda below: ops.sub(var(below), ops.log(ops.sum_(ops.exp(below), ..., keep_dims=True).named("total"))))
def log_softmax(match: Match, below: Var, total: Eqn) -> Any:
    """SUB(d, LOG(SUM(EXP(d)))) for d = SUB(x, REDUCE_MAX(x)) = LOG_SOFTMAX(x), over the last axis."""
    need(is_plain_float(match.result), "plain_float")
    return ops.log_softmax(_less_its_maximum(match, below, readers=2, total=total))


@peephole(
    lambda x, y, s, function: ops.add(ops.mul(var(s), x).named("product"), ops.mul(y, s), **_activation(function))
)
def common_factor(match: Match, x: Atom, y: Atom, s: Var, function: str, product: Eqn) -> Any:
    """x * s + y * s = (x + y) * s, as Keras spells layer norms."""
    need(match.keeps_type(x), "type_of_result")
    return again(product, inputs=(ops.add(x, y), s), **_activation(function))


@peephole(
    lambda x, y, s, t: ops.add(ops.mul(var(s), x), ops.add(ops.mul(y, s), t).named("rest"), **_activation(...)),
    lambda x, y, s, t: ops.add(ops.mul(var(s), x), ops.sub(t, ops.mul(y, s)).named("rest"), **_activation(...)),
)
def common_factor_beside_term(match: Match, x: Atom, y: Atom, s: Var, t: Atom, rest: Eqn) -> Any:
    """x * s + (y * s + t) = (x + y) * s + t; also with t - y * s."""
    need(match.keeps_type(x), "type_of_result")
    joined = ops.add(x, y) if rest.op is ops.add else ops.sub(x, y)
    return again(match.eqn, inputs=(ops.mul(joined, s), t))


@peephole(lambda x, y, function: ops.add(x, ops.neg(y).shared(), **_activation(function)))
def sum_with_negative(match: Match, x: Atom, y: Atom, function: str) -> Any:
    """ADD(x, NEG(y)) = SUB(x, y)."""
    return ops.sub(x, y, **_activation(function))


@peephole(lambda x, y, function: ops.sub(x, ops.neg(y).shared(), **_activation(function)))
def difference_of_negative(match: Match, x: Atom, y: Atom, function: str) -> Any:
    """SUB(x, NEG(y)) = ADD(x, y)."""
    return ops.add(x, y, **_activation(function))


@peephole(
    lambda x, rows, factor: ops.mul(ops.mul(var(rows), const(factor)).named("inner"), var(x), **_activation(...)),
)
def constant_factor_last(match: Match, x: Var, rows: Var, factor: Const, inner: Eqn) -> Any:
    """MUL(x, MUL(r, g)) = MUL(MUL(x, r), g) for a factor r of each row and a constant g of each channel.

    The constant can then go into what follows, and the rows' factor need not be spread over the channels. Where
    MUL(r, g) is smaller than x, as in group norms, it stays: it is less work than a second product with x.
    """
    need(is_plain_float(rows), "plain_float")
    need(rows.type.rank > 0 and same(rows.type.shape[-1], 1) is True and factor.array.size > 1, "factor_of_each_row")
    need(match.keeps_type(inner.outputs[0]) and match.keeps_type(x), "type_of_result")
    return again(match.eqn, inputs=(ops.mul(x, rows), factor))


@peephole(lambda x: ops.mul(var(x), x))
def square_of_itself(match: Match, x: Var) -> Any:
    """MUL(x, x) = SQUARE(x), which others know."""
    need(is_plain_float(match.result), "plain_float")
    return ops.square(x)


@peephole(lambda x, y: ops.square(ops.sub(x, y)))
def square_of_difference(match: Match, x: Atom, y: Atom) -> Any:
    """SQUARE(SUB(x, y)) = SQUARED_DIFFERENCE(x, y), where nothing else reads the difference."""
    need(is_plain_float(match.result), "plain_float")
    return ops.squared_difference(x, y)


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


def _is_plain(*eqns: Eqn) -> bool:
    return all(e.params.get("fused_activation_function", "NONE") == "NONE" for e in eqns)


def _is_small(type_: TensorType) -> bool:
    """Whether a tensor is small, open sizes not counted."""
    return int(np.prod([int(d) for d in type_.shape if is_known(d)])) <= _LARGEST
