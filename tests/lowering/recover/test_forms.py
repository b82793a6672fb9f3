"""Linear forms: what is affine in what, and matrices that come out bit by bit."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.ir.dims import Dim, symbol
from jfuse.ir.graph import Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.lowering.recover.algebra import forms
from jfuse.lowering.recover.algebra.forms import Dependence, linear_forms
from tests.cells import BATCH, INPUTS, UNITS, B, R, W, dense, f32


def graph_of(function: object, batch: Dim = BATCH) -> Graph:
    return trace_graph(function, [f32(batch, INPUTS), f32(batch, UNITS)])  # type: ignore[arg-type]


def only_output(graph: Graph) -> Var:
    (out,) = graph.outputs
    assert isinstance(out, Var)
    return out


AFFINE = {
    "sum": lambda x, h: ops.add(dense(x, W, B), dense(h, R)),
    "concat": lambda x, h: dense(ops.concatenation(x, h, axis=1), np.concatenate([W, R]), B),
    "matmul": lambda x, h: ops.add(ops.add(ops.batch_matmul(x, W), B), ops.batch_matmul(h, R.T, adj_y=True)),
    "difference": lambda x, h: ops.sub(dense(x, W, B), ops.neg(dense(h, R))),
    "slices": lambda x, h: ops.add(
        ops.concatenation(*ops.split(1, dense(x, W, B), num_splits=2), axis=1),
        ops.reshape(dense(h, R), [-1, 4 * UNITS]),
    ),
}


@pytest.mark.parametrize("batch", [BATCH, 1, 3], ids=["open", "1", "3"])
@pytest.mark.parametrize("spelling", AFFINE)
def test_weights_come_out_bit_by_bit(spelling: str, batch: Dim) -> None:
    graph = graph_of(AFFINE[spelling], batch)
    value = only_output(graph)
    assert Dependence(graph).of(value) == frozenset(graph.inputs)
    form = linear_forms(graph, [value], graph.inputs)[value]
    x, h = graph.inputs
    np.testing.assert_array_equal(form.matrices[x], W.astype(np.float64))
    np.testing.assert_array_equal(form.matrices[h], R.astype(np.float64))
    np.testing.assert_array_equal(form.bias, B.astype(np.float64))


def test_wide_inputs_take_several_blocks() -> None:
    kernel = np.random.default_rng(3).standard_normal((600, 5)).astype(np.float32)
    for batch in (BATCH, 2, 300):
        graph = trace_graph(lambda x: ops.mul(dense(x, kernel), np.float32(2)), [f32(batch, 600)])
        value = only_output(graph)
        form = linear_forms(graph, [value], graph.inputs)[value]
        np.testing.assert_array_equal(form.matrices[graph.inputs[0]], 2.0 * kernel.astype(np.float64))


NOT_AFFINE = {
    "product": lambda x, h: ops.mul(x, x),
    "square": lambda x, h: ops.square(x),
    "activation": lambda x, h: ops.tanh(x),
    "fused_activation": lambda x, h: ops.add(x, np.float32(1), fused_activation_function="RELU"),
    "quotient": lambda x, h: ops.div(np.float32(1), x),
    "product_of_both": lambda x, h: ops.batch_matmul(x, h, adj_x=True),
}


@pytest.mark.parametrize("case", NOT_AFFINE)
def test_a_value_that_is_not_affine_is_its_own_source(case: str) -> None:
    graph = graph_of(NOT_AFFINE[case])
    value = only_output(graph)
    assert Dependence(graph).of(value) == {value}


def test_sources_are_followed_through_nonlinear_values() -> None:
    graph = graph_of(lambda x, h: ops.add(dense(ops.tanh(x), W), B))
    dependence = Dependence(graph)
    (tanh,) = [e for e in graph.eqns if e.op is ops.tanh]
    assert dependence.of(only_output(graph)) == set(tanh.outputs)


def test_shapes_and_constants_have_no_sources() -> None:
    graph = graph_of(lambda x, h: (ops.shape(x), ops.fill(ops.shape(x), np.float32(2))))
    dependence = Dependence(graph)
    assert all(not dependence.of(out) for out in graph.outputs)


def test_a_form_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_MOST_ROWS", INPUTS)
    graph = graph_of(AFFINE["sum"])
    with pytest.raises(NotFused, match="form_too_large: want up to 3 input columns, got 7"):
        linear_forms(graph, [only_output(graph)], graph.inputs)


def test_rows_of_an_open_size_are_refused() -> None:
    graph = trace_graph(ops.neg, [f32(BATCH, symbol("T"))])
    with pytest.raises(NotFused, match="open_row"):
        linear_forms(graph, [only_output(graph)], graph.inputs)


def test_a_bias_that_varies_by_row_is_refused() -> None:
    rows = np.arange(3 * INPUTS, dtype=np.float32).reshape(3, INPUTS)
    graph = graph_of(lambda x, h: ops.add(x, rows), 3)
    with pytest.raises(NotFused, match="same_bias_in_all_rows"):
        linear_forms(graph, [only_output(graph)], graph.inputs)


@pytest.mark.parametrize("others", [5, 0], ids=["steps-for-rows", "no-row"])
def test_rows_of_another_number_are_refused(others: int) -> None:
    graph = trace_graph(lambda x, h: ops.concatenation(x, h, axis=0), [f32(1, 4), f32(others, 4)])
    with pytest.raises(NotFused, match="rows_of_the_batch"):
        linear_forms(graph, [only_output(graph)], graph.inputs)
