"""Equations of einsum: what they mean, and which are refused."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.ops.linalg.matmul import lower_einsum, parse_equation


@pytest.mark.parametrize(
    ("equation", "ranks", "labels", "result"),
    [
        ("ab,bc->ac", [2, 2], ["ab", "bc"], "ac"),
        ("ab , bc -> ac", [2, 2], ["ab", "bc"], "ac"),
        ("...x,xy->...y", [3, 2], ["abx", "xy"], "aby"),
        ("...ij,...jk->...ik", [3, 4], ["bij", "abjk"], "abik"),
        ("...->...", [0], [""], ""),
        ("aab,bc,c->a", [3, 2, 1], ["aab", "bc", "c"], "a"),
    ],
)
def test_equations_name_every_axis(equation: str, ranks: list[int], labels: list[str], result: str) -> None:
    assert parse_equation(equation, ranks) == (labels, result)


def test_several_operands_are_multiplied_from_left_to_right() -> None:
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (3, 4), (4, 4), (4,))]
    equation = "ab,bc,cc,c->a"
    found = lower_einsum(*operands, equation=equation)
    np.testing.assert_allclose(found, np.einsum(equation, *operands), rtol=1e-5)  # sums of 12 products that may cancel


def test_attention_needs_no_transpose_of_what_is_laid_out_for_it() -> None:
    heads = TensorType((symbol("B"), 2, 3, 4), DType.f32)
    graph = trace_graph(lambda q, k: lower_einsum(q, k, equation="bhqd,bhkd->bhqk"), [heads, heads])
    assert [eqn.op.name for eqn in graph.eqns] == ["batch_matmul"]


def test_dense_layers_on_many_axes_become_one_product() -> None:
    weights = np.ones((4, 5, 6), np.float32)
    graph = trace_graph(
        lambda x: lower_einsum(x, weights, equation="abc,cde->abde"), [TensorType((symbol("B"), 3, 4), DType.f32)]
    )
    names = [eqn.op.name for eqn in graph.eqns]
    assert names.count("fully_connected") == 1
    assert "transpose" not in names
    assert str(graph.outputs[0].type) == "f32[B,3,5,6]"
