"""Equations of einsum: what they mean, and which are refused."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.errors import LowerError
from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.einsum import lower_einsum, parse_equation


@pytest.mark.parametrize(
    ("equation", "ranks", "labels", "result"),
    [
        ("ab,bc->ac", [2, 2], ["ab", "bc"], "ac"),
        ("ab , bc -> ac", [2, 2], ["ab", "bc"], "ac"),
        ("...x,xy->...y", [3, 2], ["abx", "xy"], "aby"),
        ("...ij,...jk->...ik", [3, 4], ["bij", "abjk"], "abik"),
        ("...->...", [0], [""], ""),
    ],
)
def test_equations_name_every_axis(equation: str, ranks: list[int], labels: list[str], result: str) -> None:
    assert parse_equation(equation, ranks) == (labels, result)


@pytest.mark.parametrize(("equation", "ranks"), [("aa->a", [2]), ("ab,bc,cd->ad", [2, 2, 2])])
def test_what_one_product_cannot_say_is_refused(equation: str, ranks: list[int]) -> None:
    with pytest.raises(LowerError, match="expected  one or two operands, no label twice"):
        parse_equation(equation, ranks)


def test_dense_layers_on_many_axes_become_one_product() -> None:
    weights = np.ones((4, 5, 6), np.float32)
    graph = trace_graph(
        lambda x: lower_einsum(x, weights, equation="abc,cde->abde"), [TensorType((symbol("B"), 3, 4), DType.f32)]
    )
    names = [eqn.op.name for eqn in graph.eqns]
    assert names.count("fully_connected") == 1
    assert "transpose" not in names
    assert str(graph.outputs[0].type) == "f32[B,3,5,6]"
