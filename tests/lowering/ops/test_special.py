"""The error function against Python's, value by value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.ops.math.special import (
    lower_bessel_i0e,
    lower_bessel_i1e,
    lower_digamma,
    lower_erf,
    lower_erfc,
    lower_lgamma,
)

# 5e-7: eight units in the last place, of forty operations in f32. Beyond 9.1 erfc leaves f32's normal numbers.
TOLERANCE = 5e-7


@pytest.mark.parametrize(("rule", "function"), [(lower_erf, math.erf), (lower_erfc, math.erfc)], ids=["erf", "erfc"])
def test_every_value_is_accurate(rule: Any, function: Callable[[float], float]) -> None:
    small = np.logspace(-30, -1, 2000)
    x = np.concatenate([np.linspace(-9.1, 9.1, 20001), small, -small]).astype(np.float32)
    wanted = [function(float(v)) for v in x]
    np.testing.assert_allclose(rule(x), wanted, rtol=TOLERANCE, atol=0)


@pytest.mark.parametrize(("rule", "name"), [(lower_erf, "jfuse.erf"), (lower_erfc, "jfuse.erfc")])
def test_one_equation_stands_for_the_function(rule: Any, name: str) -> None:
    graph = trace_graph(rule, [TensorType((2, 3), DType.f32)])
    assert [eqn.params["name"] for eqn in graph.eqns] == [name]


@pytest.mark.parametrize(
    "rule", [lower_erf, lower_erfc, lower_lgamma, lower_digamma, lower_bessel_i0e, lower_bessel_i1e]
)
def test_the_spelling_keeps_f64(rule: Any) -> None:
    """A later pass computes it in f32, with a note."""
    assert [v.type.dtype for v in trace_graph(rule, [TensorType((2,), DType.f64)]).outputs] == [DType.f64]
