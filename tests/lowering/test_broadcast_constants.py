"""Tensors that are a broadcast constant are known from the equations that make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.dims import symbol
from jfuse.ir.graph import Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import producers
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.broadcast_constants import broadcast_constants, constant_behind
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor

ROW = TensorType((symbol("B"), 4), DType.f32)


def ones(x: Array) -> Array:
    """1 in the shape [b,4] of x."""
    return ops.fill(shape_tensor((x.shape[0], 4), [x]), np.float32(1))


CASES: dict[str, tuple[Callable[[Array], Any], float | None]] = {
    "zeros of the same shape": (ops.zeros_like, 0.0),
    "filled": (ones, 1.0),
    "computed from it twice": (lambda x: ops.add(ops.neg(ones(x)), ops.mul(ones(x), np.float32(3))), 2.0),
    "one value in two places": (lambda x: (lambda y: ops.add(y, ops.exp(ops.sub(y, y))))(ones(x)), 2.0),
    "transposed": (lambda x: ops.transpose(ones(x), [1, 0]), 1.0),
    "an input": (lambda x: ops.add(x, ones(x)), None),
    "summed up": (lambda x: ops.sum_(ones(x), [1]), None),
}


@pytest.mark.parametrize("name", CASES)
def test_constants(name: str) -> None:
    function, expected = CASES[name]
    graph = trace_graph(function, [ROW])
    (result,) = graph.outputs
    assert isinstance(result, Var)
    made = producers(graph)
    for found in (constant_behind(result, lambda var: made.get(var)), broadcast_constants(graph).get(result)):
        assert expected == (None if found is None else found.item())
