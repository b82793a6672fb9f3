"""Edges that only some graphs have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.verification.inputs.edges import COMPARED, edge_inputs


@pytest.mark.parametrize(
    ("dtype", "limit", "other"), [("float32", 30, 31), ("int32", 200, 201), ("int64", -40000, -40001)]
)
def test_limits_that_drawn_numbers_seldom_reach(dtype: str, limit: int, other: int) -> None:
    import tensorflow as tf

    def source(limit: int) -> Any:
        spec = tf.TensorSpec([None, 4], dtype, name="x")
        return tf.function(lambda x: tf.where(x > limit, x + 1, x), input_signature=[spec], autograph=False)

    model = jfuse.convert(source(limit), verify=False)
    assert jfuse.verify(model.to_bytes(), source(limit)).passed
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(model.to_bytes(), source(other), jfuse.Verify(shrink=0))


def test_numbers_on_both_sides_of_a_compared_constant() -> None:
    """Ids keep their range, and a graph without comparisons has no such edge."""

    def looked_up(x: Any, i: Any, table: Any) -> Any:
        return ops.select_v2(ops.less(x, np.float32(-273.15)), ops.gather(table, i), x)

    graph = trace_graph(
        looked_up, [TensorType(s, d) for s, d in (((9,), DType.f32), ((9,), DType.i32), ((5,), DType.f32))]
    )
    drawn = dict(edge_inputs(Signature("main", graph, ("x", "i", "table"), ("y",)), {}, (COMPARED,), 0))[COMPARED]
    assert {np.sign(n) for n in np.round(drawn["x"] + 273.15, 3)} == {-1, 0, 1}
    assert set(drawn["i"]) <= set(range(5))

    plain = trace_graph(lambda x: ops.add(x, np.float32(1)), [TensorType((9,), DType.f32)])
    assert not dict(edge_inputs(Signature("main", plain, ("x",), ("y",)), {}, (COMPARED,), 0))
