"""Patterns: what they match and bind; and the names of the conditions by which rules refuse what they match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import RuleError
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.peephole import PEEPHOLE_RULES
from jfuse.lowering.peephole.pattern import Bound, const, form, one_of, optional, traced, var
from jfuse.lowering.peephole.registry import Match, PatternRule, peephole, why_not
from jfuse.lowering.rules import need
from tests.lowering.peephole.rewriting import B, GraphView, f32, floats, ints, refusals

IMAGE = f32(B, 6, 6, 4)


def conv(x: Any, bias: Any = None, weights: Any = None, **options: Any) -> Any:
    weights = floats(3, 3, 3, 4) if weights is None else weights
    return ops.conv_2d(x, weights, bias, **{"padding": "VALID", "stride_w": 1, "stride_h": 1, **options})


def matches(pattern: Callable[..., Any], function: Callable[..., Any], count: int = 2) -> list[Bound]:
    """What each match of a pattern with the last equation binds, of a function of so many vectors."""
    graph = trace_graph(function, [f32(4)] * count)
    return found_in(graph, pattern)


def found_in(graph: Graph, pattern: Callable[..., Any]) -> list[Bound]:
    eqn, found = graph.eqns[-1], []
    for order in traced(pattern):
        bound: Bound = {}
        if eqn.op in order.ops and order.fits(eqn, GraphView(graph), bound):
            found.append(bound)
    return found


ROWS = [
    pytest.param(lambda x, y: ops.neg(ops.sub(x, y)), lambda a, b: ops.neg(ops.sub(a, b)), 1, id="nested"),
    pytest.param(lambda x, y: ops.neg(ops.sub(x, y)), lambda a, b: ops.neg(ops.add(a, b)), 0, id="another-op"),
    pytest.param(lambda x: ops.add(ops.exp(x), x), lambda a, b: ops.add(a, ops.exp(a)), 1, id="swapped"),
    pytest.param(lambda x: ops.sub(ops.exp(x), x), lambda a, b: ops.sub(a, ops.exp(a)), 0, id="not-commutative"),
    pytest.param(lambda x: ops.mul(x, x), lambda a, b: ops.mul(a, a), 1, id="the-same-operand"),
    pytest.param(lambda x: ops.mul(x, x), lambda a, b: ops.mul(a, b), 0, id="another-operand"),
    pytest.param(lambda x, y: ops.add(x, y), lambda a, b: ops.add(a, b), 2, id="both-orders"),
    pytest.param(lambda x: ops.mul(x, 2), lambda a, b: ops.mul(np.full(4, 2, np.float32), a), 1, id="number"),
    pytest.param(lambda x: ops.mul(x, 2), lambda a, b: ops.mul(a, floats(4)), 0, id="other-numbers"),
    pytest.param(lambda x: ops.mul(x, 2), lambda a, b: ops.mul(a, b), 0, id="no-number"),
    pytest.param(lambda x, c: ops.mul(var(x), const(c)), lambda a, b: ops.mul(floats(4), a), 1, id="kinds"),
    pytest.param(lambda x, c: ops.mul(var(x), const(c)), lambda a, b: ops.mul(a, b), 0, id="other-kinds"),
    pytest.param(
        lambda x, y: ops.add(x, y), lambda a, b: ops.add(a, b, fused_activation_function="RELU"), 0, id="activation"
    ),
    pytest.param(
        lambda x, y, f: ops.sub(x, y, fused_activation_function=f),
        lambda a, b: ops.sub(a, b, fused_activation_function="RELU"),
        1,
        id="any-activation",
    ),
    pytest.param(
        lambda x, f: ops.sub(ops.add(x, 1, fused_activation_function=f), x, fused_activation_function=f),
        lambda a, b: ops.sub(ops.add(a, np.float32(1), fused_activation_function="RELU"), a),
        0,
        id="options-that-differ",
    ),
    pytest.param(
        lambda x: ops.sum_(x, ..., keep_dims=True),
        lambda a, b: ops.sum_(a, ints(0), keep_dims=True),
        1,
        id="option",
    ),
    pytest.param(lambda x: ops.sum_(x, ..., keep_dims=True), lambda a, b: ops.sum_(a, ints(0)), 0, id="another-option"),
    pytest.param(lambda x: ops.sum_(x), lambda a, b: ops.sum_(a, ints(0)), 0, id="operand-not-spelled"),
    pytest.param(
        lambda x: one_of(ops.exp, ops.sin)(ops.neg(x)), lambda a, b: ops.sin(ops.neg(a)), 1, id="one-of-several"
    ),
    pytest.param(
        lambda x: ops.concatenation(ops.exp(x), ...),
        lambda a, b: ops.concatenation(ops.exp(a), b, b, axis=0),
        1,
        id="further-operands",
    ),
]


@pytest.mark.parametrize(("pattern", "function", "count"), ROWS)
def test_a_pattern_matches(pattern: Callable[..., Any], function: Callable[..., Any], count: int) -> None:
    assert len(matches(pattern, function)) == count


def test_a_match_binds_operands_options_and_equations() -> None:
    graph = trace_graph(lambda a, b: ops.neg(ops.sub(a, b, fused_activation_function="RELU6")), [f32(4)] * 2)
    (bound,) = found_in(graph, lambda x, y, f: ops.neg(ops.sub(x, y, fused_activation_function=f).named("first")))
    (a, b), (sub, _) = graph.inputs, graph.eqns
    assert bound == {"x": a, "y": b, "f": "RELU6", "first": sub}


def test_the_spelled_order_comes_first() -> None:
    graph = trace_graph(ops.add, [f32(4)] * 2)
    a, b = graph.inputs
    assert found_in(graph, lambda x, y: ops.add(y, x)) == [{"x": b, "y": a}, {"x": a, "y": b}]


def test_an_inner_equation_has_one_reader() -> None:
    def read_twice(a: Any) -> Any:
        inner = ops.exp(a)
        return ops.sin(inner), ops.neg(inner)

    assert not matches(lambda x: ops.neg(ops.exp(x)), read_twice, 1)
    assert matches(lambda x: ops.neg(ops.exp(x).shared()), read_twice, 1)
    assert not matches(lambda x: ops.neg(ops.exp(x)), lambda a: (y := ops.exp(a), ops.neg(y)), 1)


def test_an_optional_operand_may_be_absent() -> None:
    graph = trace_graph(conv, [IMAGE])
    (bound,) = found_in(graph, lambda x, w, b: ops.conv_2d(x, w, optional(b)))
    assert bound["b"] is None
    assert isinstance(bound["w"], Const)
    assert not found_in(graph, lambda x, w, b: ops.conv_2d(x, w, b))
    assert found_in(graph, lambda x, w: ops.conv_2d(x, w))
    assert not found_in(trace_graph(lambda x: conv(x, floats(3)), [IMAGE]), lambda x, w: ops.conv_2d(x, w))


@dataclass(frozen=True)
class Shifted:
    """x + number."""

    x: Atom
    number: float

    @classmethod
    def of(cls, eqn: Eqn) -> Shifted | None:
        x, shift = eqn.inputs
        return cls(x, float(shift.array)) if isinstance(x, Var) and isinstance(shift, Const) else None


def test_a_form_is_what_a_function_reads() -> None:
    shifted = form(Shifted.of, ops.add).named("it")
    graph = trace_graph(lambda a: ops.neg(ops.add(ops.exp(a), np.float32(3))), [f32(4)])
    (bound,) = found_in(graph, lambda x: ops.neg(shifted(ops.exp(x))))
    assert bound == {"x": graph.inputs[0], "it": Shifted(graph.eqns[0].outputs[0], 3)}
    assert not found_in(graph, lambda x: ops.neg(shifted(ops.sin(x))))
    assert not matches(lambda: ops.neg(shifted), lambda a, b: ops.neg(ops.add(a, b)))


def test_a_pattern_is_a_call_of_ops() -> None:
    with pytest.raises(RuleError, match="a pattern is a call of ops"):
        traced(lambda x: x)


def test_a_rule_takes_what_its_patterns_bind() -> None:
    with pytest.raises(RuleError, match=r"a pattern of rule does not bind \['z'\]"):

        @peephole(lambda x: ops.neg(x))
        def rule(match: Match, z: Atom) -> Any:
            return z


# Each condition that a rule names, and a function that breaks it alone.
REFUSALS = [
    pytest.param(
        "neutral_operand",
        "type_of_result",
        lambda x: ops.add(x, np.zeros((2, 4), np.float32)),
        f32(4),
        id="neutral_operand-type_of_result",
    ),
    pytest.param(
        "div_by_power_of_two", "powers_of_two", lambda x: ops.div(x, np.float32(3)), f32(4), id="powers_of_two"
    ),
    pytest.param(
        "div_by_power_of_two",
        "precise_reciprocal",
        lambda x: ops.div(x, np.float32(2.0**-126)),
        f32(4),
        id="precise_reciprocal",
    ),
    pytest.param("small_powers", "small_power", lambda x: ops.pow_(x, np.float32(3)), f32(4), id="small_power"),
    pytest.param(
        "affine_after_product",
        "activation_after_scale",
        lambda x: ops.mul(conv(x, fused_activation_function="RELU6"), np.float32(3)),
        IMAGE,
        id="activation_after_scale",
    ),
    pytest.param(
        "affine_after_product",
        "finite_weights",
        lambda x: ops.mul(conv(x, weights=np.full((3, 3, 3, 4), np.inf, np.float32)), np.float32(3)),
        IMAGE,
        id="finite_weights",
    ),
    pytest.param(
        "affine_before_product",
        "shift_without_padding",
        lambda x: conv(ops.add(x, np.float32(1)), padding="SAME"),
        IMAGE,
        id="shift_without_padding",
    ),
    pytest.param(
        "scale_before_pad",
        "scale_alone",
        lambda x: conv(ops.pad(ops.add(x, np.float32(1)), ints(0, 0, 1, 1, 1, 1, 0, 0).reshape(4, 2))),
        IMAGE,
        id="scale_alone",
    ),
    pytest.param(
        "pad_into_convolution",
        "same_padding",
        lambda x: conv(ops.pad(x, ints(0, 0, 2, 2, 1, 1, 0, 0).reshape(4, 2))),
        IMAGE,
        id="same_padding",
    ),
    pytest.param("cast_to_itself", "type_of_result", lambda x: ops.cast(x, out_data_type=DType.i32), f32(4), id="cast"),
    pytest.param(
        "reversed_twice",
        "same_axes",
        lambda x: ops.reverse_v2(ops.reverse_v2(x, ints(0)), ints(1)),
        f32(4, 4),
        id="same_axes",
    ),
    pytest.param(
        "product_of_transposed",
        "last_two_axes",
        lambda x: ops.batch_matmul(x, ops.transpose(x, ints(1, 0, 2))),
        f32(4, 4, 4),
        id="last_two_axes",
    ),
    pytest.param(
        "operand_of_fewer_axes",
        "operand_of_result_rank",
        lambda x: ops.add(ops.expand_dims(x, np.int32(0)), floats(1)),
        f32(4),
        id="walk-operand_of_result_rank",
    ),
]


@pytest.mark.parametrize(("rule", "condition", "function", "operand"), REFUSALS)
def test_a_refusal_has_a_name(rule: str, condition: str, function: Callable[..., Any], operand: Any) -> None:
    assert condition in refusals(function, operand)[rule]


def test_what_no_pattern_matches_is_not_refused() -> None:
    graph = trace_graph(lambda x, y: ops.maximum(x, y), [f32(4), f32(4)])
    assert why_not(graph.eqns[-1], GraphView(graph), PEEPHOLE_RULES) == {}


def test_every_way_to_match_is_tried() -> None:
    """A condition that one order of the operands breaks does not end the search."""
    graph = trace_graph(ops.add, [f32(4), f32(B, 4)])
    refused: list[str] = []

    def second_input(match: Match, x: Atom) -> Any:
        need(x is graph.inputs[1], "second_input")
        return x

    orders = traced(lambda x, y: ops.add(x, y))
    rule = PatternRule((ops.add,), {ops.add: orders}, second_input, ("x",))
    assert rule(graph.eqns[0], GraphView(graph), refused) is graph.inputs[1]
    assert refused == ["second_input"]
