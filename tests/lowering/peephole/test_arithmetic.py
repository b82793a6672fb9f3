"""Arithmetic with constants that change nothing, or with which an operator is a simpler one."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.kernels import ops
from tests.lowering.peephole.rewriting import B, Case, case, check, f32, flags, i32

ARITHMETIC = [
    case("x+0", lambda x: ops.add(x, np.float32(0)), f32(B, 4)),
    case("0+x", lambda x: ops.add(np.zeros(4, np.float32), x), f32(B, 4)),
    case("x-0", lambda x: ops.sub(x, np.float32(0)), f32(B, 4)),
    case("x*1", lambda x: ops.mul(x, np.ones((1, 4), np.float32)), f32(B, 4)),
    case("1*x", lambda x: ops.mul(np.int32(1), x), i32(4)),
    case("x/1", lambda x: ops.div(x, np.float32(1)), f32(4)),
    case("and-true", lambda x: ops.logical_and(x, np.array(True)), flags(4)),
    case("or-false", lambda x: ops.logical_or(np.zeros(4, bool), x), flags(4)),
    case("select-true", lambda x, y: ops.select_v2(np.array(True), x, y), f32(4), f32(4)),
    case("select-false", lambda x, y: ops.select(np.zeros((2, 4), bool), x, y), f32(2, 4), f32(2, 4)),
    case("0-x", lambda x: ops.sub(np.float32(0), x), f32(4), left="sub"),
    case("1/x", lambda x: ops.div(np.float32(1), x), f32(4), left="div"),
    case("x+almost-0", lambda x: ops.add(x, np.array([0, 0, 0, 1], np.float32)), f32(4), left="add"),
    case("x+0-broadcast", lambda x: ops.add(x, np.zeros((2, 4), np.float32)), f32(4), left="add"),
    case("x*1-broadcast", lambda x: ops.mul(x, np.ones(4, np.float32)), f32(2, 1), left="mul"),
    case("x+0-activated", lambda x: ops.add(x, np.float32(0), fused_activation_function="RELU"), f32(4), left="add"),
    case("x*empty", lambda x: ops.mul(x, np.ones((0, 1), np.float32)), f32(4), left="mul"),
    case("and-false", lambda x: ops.logical_and(x, np.array(False)), flags(4), left="logical_and"),
    case("select-mixed", lambda x, y: ops.select_v2(np.array([True, False]), x, y), f32(2), f32(2), left="select_v2"),
    case("select-broadcast", lambda x, y: ops.select_v2(np.array(True), x, y), f32(1), f32(4), left="select_v2"),
    case("x/4", lambda x: ops.div(x, np.float32(4)), f32(B, 4), left="mul"),
    case("x/-0.5-activated", lambda x: ops.relu(ops.div(x, np.float32(-0.5))), f32(B, 4), left="mul"),
    case("x/powers", lambda x: ops.div(x, np.array([1, 2, 1024, 0.25], np.float32)), f32(B, 4), left="mul"),
    case("x/3", lambda x: ops.div(x, np.float32(3)), f32(B, 4), left="div"),
    case("x/0", lambda x: ops.div(x, np.float32(0)), f32(B, 4), left="div"),
    case("x/tiny", lambda x: ops.div(x, np.float32(2.0**-126)), f32(B, 4), left="div"),
    case("integers/4", lambda x: ops.div(x, np.int32(4)), i32(4), left="div"),
    case("1/sqrt", lambda x: ops.div(np.float32(1), ops.sqrt(ops.exp(x))), f32(4), left="exp rsqrt"),
    case("2/sqrt", lambda x: ops.div(np.float32(2), ops.sqrt(ops.exp(x))), f32(4), left="exp sqrt div"),
    case(
        "1/sqrt-read-twice",
        lambda x: (y := ops.sqrt(ops.exp(x)), ops.div(np.float32(1), y)),
        f32(4),
        left="exp sqrt div",
    ),
    case("x^2", lambda x: ops.pow_(x, np.float32(2)), f32(B, 4), left="square"),
    case("x^1", lambda x: ops.pow_(x, np.float32(1)), f32(B, 4)),
    case("x^0.5", lambda x: ops.pow_(ops.abs_(x), np.float32(0.5)), f32(4), left="abs sqrt"),
    case("x^-0.5", lambda x: ops.pow_(ops.exp(x), np.float32(-0.5)), f32(4), left="exp rsqrt"),
    case("x^3", lambda x: ops.pow_(x, np.float32(3)), f32(4), left="pow"),
    case("2^x", lambda x: ops.pow_(np.float32(2), x), f32(4), left="pow"),
    case("--x", lambda x: ops.neg(ops.neg(x)), f32(B, 4)),
    case("-(x-y)", lambda x, y: ops.neg(ops.sub(x, y)), f32(B, 4), f32(4), left="sub"),
    case("-(x-y)-integers", lambda x, y: ops.neg(ops.sub(x, y)), i32(4), i32(4), left="sub"),
    case("-relu(x-y)", lambda x, y: ops.neg(ops.relu(ops.sub(x, y))), f32(4), f32(4), left="sub neg"),
    case("-(x-y)-read-twice", lambda x, y: (d := ops.sub(x, y), ops.neg(d)), f32(4), f32(4), left="sub neg"),
    case("|-x|", lambda x: ops.abs_(ops.neg(x)), f32(B, 4), left="abs"),
    case("|-x|-integers", lambda x: ops.abs_(ops.neg(x)), i32(4), left="abs"),
    case("(-x)^2-read-twice", lambda x: (y := ops.neg(x), ops.square(y)), f32(4), left="neg square"),
    case("y-relu(-x)", lambda x, y: ops.sub(y, ops.relu(ops.neg(x))), f32(B, 4), f32(4), left="minimum add"),
    case("y-relu(x)", lambda x, y: ops.sub(y, ops.relu(x)), f32(4), f32(4), left="relu sub"),
]


@pytest.mark.parametrize("item", ARITHMETIC)
def test_arithmetic(item: Case) -> None:
    check(item)
