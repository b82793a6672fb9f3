"""FULLY_CONNECTED in programs of jax, against the formula in f64."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("activation", ["NONE", "RELU"])
@pytest.mark.parametrize(("shape", "outputs"), [((7, 1, 3), 12), ((7, 1, 3), 11), ((1, 2, 3), 12)])
def test_a_bias_of_many_results(shape: tuple[int, ...], outputs: int, activation: str) -> None:
    x, weights, bias = (RNG.normal(size=s) for s in (shape, (outputs, shape[-1]), (outputs,)))

    def found(x: Any, weights: Any, bias: Any) -> Any:
        return ops.fully_connected(x, weights, bias, keep_num_dims=True, fused_activation_function=activation)

    with jax.enable_x64(True):
        program = jax.make_jaxpr(found)(x, weights, bias)
        results = quick_jit(found)(x, weights, bias)
    is_a_term = any(eqn.primitive.name == "concatenate" for eqn in program.eqns)
    assert is_a_term == (shape[0] > 1 and outputs >= 4 * shape[-1])
    wanted = x @ weights.T + bias
    np.testing.assert_allclose(results, wanted if activation == "NONE" else np.maximum(wanted, 0), rtol=0, atol=1e-14)


def test_weights_of_open_sizes() -> None:
    k, n = symbol("K"), symbol("N")
    types = [TensorType(shape, DType.f32) for shape in ((7, 2, k), (n, k), (n,))]
    graph = trace_graph(lambda x, w, b: ops.fully_connected(x, w, b, keep_num_dims=True), types)
    assert [str(o.type) for o in graph.outputs] == ["f32[7,2,N]"]
