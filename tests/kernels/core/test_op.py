"""The mechanism that makes ops of functions: binding, types, recording, folding."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jfuse.base.errors import JfuseError, RuleError, TypeMismatch
from jfuse.ir.check import check_graph
from jfuse.ir.dims import is_known, symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Var
from jfuse.ir.trace import recording, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Operand, TflOp, builtin_ops, namespace, static_value, tfl

B, C = symbol("B"), symbol("C")


def floats(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def scratch(body: Any, *operands: Operand) -> TflOp:
    """An op outside of the registry."""
    return TflOp("SCRATCH", body, operands, {})


def test_every_builtin_is_among_the_ops_under_its_name() -> None:
    missing = [
        op.name
        for op in builtin_ops().values()
        if op.body.__module__.startswith("jfuse.kernels.")
        and op not in (getattr(ops, op.name, 0), getattr(ops, f"{op.name}_", 0))
    ]
    assert missing == []


def test_signatures_become_operands_and_options() -> None:
    op = ops.fully_connected
    assert [(o.name, o.optional) for o in op.operands] == [("x", False), ("weights", False), ("bias", True)]
    assert op.operand_index("bias") == 2
    assert next(iter(op.options)) == "fused_activation_function"
    assert op.bind_options({"keep_num_dims": True})["keep_num_dims"] is True
    assert ops.add_n.operands == (Operand("values", variadic=True),)
    assert ops.add_n.operand_at(7) is ops.add_n.operands[0]
    assert ops.mean.operands[1].static
    assert ops.shape.operands[0].shape_only


def test_float_options_are_what_the_file_holds() -> None:
    """32 bits, and a float where an int was given: a file read back says the same."""
    for given in (0.3, np.float32(0.3), 2):
        alpha = ops.leaky_relu.bind_options({"alpha": given})["alpha"]
        assert (type(alpha), alpha) == (float, float(np.float32(given)))
    x = np.array([-1.0])
    np.testing.assert_array_equal(ops.leaky_relu(x, alpha=0.3), -np.float64(np.float32(0.3)) * np.ones(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: ops.leaky_relu(x, slope=1.0), r"leaky_relu has no option \['slope'\]"),
        (lambda x: ops.leaky_relu(x), r"leaky_relu needs the options \['alpha'\]"),
        (lambda x: ops.mul(x), "mul needs its operand 'y'"),
        (lambda x: ops.mul(x, None), "mul needs its operand 'y'"),
        (lambda x: ops.mul(x, x, x), "mul takes 2 operands"),
        (lambda x: ops.add(x, x, fused_activation_function="SWISH"), "no fused activation 'SWISH'"),
    ],
)
def test_calls_that_do_not_fit_are_refused(call: Any, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        call(np.ones(2, np.float32))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: ops.add(x, n),
        lambda x, n: ops.batch_matmul(x, x),
        lambda x, n: ops.select_v2(ops.less(x, x), x, n),
        lambda x, n: ops.mean(x, [5]),
    ],
)
def test_operands_that_do_not_fit_are_refused_with_the_equation(call: Any) -> None:
    with pytest.raises(TypeMismatch, match=r"does not take these operands|must share") as refused:
        trace_graph(call, [floats(2, 3), TensorType((2, 3), DType.i32)])
    assert "f32[2,3]" in str(refused.value)


def test_a_static_operand_must_be_known() -> None:
    with pytest.raises(TypeMismatch, match="operand 'fft_length' of rfft2d is computed at run time"):
        trace_graph(lambda x, n: ops.rfft2d(x, n), [floats(2, 3), TensorType((2,), DType.i32)])


def test_numpy_in_numpy_out_and_jax_in_jax_out() -> None:
    x = np.array([1, 2], np.float32)
    assert type(ops.gelu(x)) is np.ndarray  # its body uses jax
    assert type(ops.sum_(x, [0])) is np.ndarray
    assert type(ops.add(x, Const(x))) is np.ndarray
    assert isinstance(ops.add(x, jnp.asarray(x)), jax.Array)
    assert namespace(x, np.float32(1)) is np
    assert namespace(x, jnp.asarray(x)) is jnp


@pytest.mark.parametrize("x64", [False, True])
def test_dtypes_do_not_depend_on_the_users_x64(x64: bool) -> None:
    with jax.enable_x64(x64):
        graph = trace_graph(
            lambda x, i: (ops.arg_max(x, 0), ops.sum_(i, [0]), ops.mean(x, [0]), ops.cast(x, out_data_type=DType.f64)),
            [floats(2, 3), TensorType((2, 3), DType.i32)],
        )
        assert [str(o.type) for o in graph.outputs] == ["i64[3]", "i32[3]", "f32[3]", "f64[2,3]"]
        assert ops.arg_max(jnp.ones(3), 0).dtype == np.int64
        assert ops.sum_(jnp.ones(3, jnp.int32), [0]).dtype == np.int32


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.int64])
def test_python_numbers_take_the_dtype_of_the_first_data_operand(dtype: Any) -> None:
    x = np.ones(2, dtype)
    assert ops.mul(x, 3).dtype == dtype
    assert ops.mul(3, x).dtype == dtype
    assert ops.mul(jnp.asarray(np.float32(1)), 0.1).dtype == np.float32
    graph = trace_graph(lambda v: ops.mul(v, 3), [TensorType((2,), DType.of(dtype))])
    assert [i.type.dtype for i in graph.eqns[0].inputs if i is not None] == [DType.of(dtype)] * 2


@pytest.mark.parametrize("dtype", [np.int32, np.bool_])
def test_python_numbers_are_not_cut_to_fit(dtype: Any) -> None:
    with pytest.raises(TypeMismatch, match="a number that its first operand's dtype cannot hold"):
        ops.equal(np.zeros(2, dtype), 0.5)


def test_shape_arithmetic_is_folded_where_sizes_are_known() -> None:
    with recording() as trace:
        found = ops.mul(ops.reduce_prod(ops.shape(Var(floats(2, 3))), [0]), 4)
        assert trace.eqns == []
    assert isinstance(found, np.ndarray)
    assert (found.dtype, found.tolist()) == (np.int32, 24)


def test_shape_arithmetic_keeps_symbols_as_known_values() -> None:
    with recording():
        sizes = ops.shape(Var(floats(B, 3)))
        total = ops.reduce_prod(ops.cast(sizes, out_data_type=DType.i64), [0])
        last = ops.floor_mod(ops.neg(ops.sub(total, 1)), 7)
    assert static_value(sizes) == (B, 3)
    assert static_value(total) == 3 * B
    assert not is_known(static_value(last))
    assert total.type == TensorType((), DType.i64)


def test_comparisons_of_symbols_stay_open() -> None:
    with recording():
        sizes = ops.shape(Var(floats(B, 3)))
        assert static_value(ops.equal(sizes, 3)) is None
        assert static_value(ops.cast(sizes, out_data_type=DType.f32)) is None


def test_types_are_inferred_once() -> None:
    calls = []

    def body(x: Any) -> Any:
        calls.append(x)
        return x

    op = scratch(body, Operand("x"))
    assert op.infer([Var(floats(B, 2))], {}) == (floats(B, 2),)
    assert op.infer([Var(floats(B, 2))], {}) == (floats(B, 2),)
    assert len(calls) == 1
    assert op.infer([Var(floats(C, 2))], {}) == (floats(C, 2),)
    assert len(calls) == 2


def test_symbols_that_must_be_equal_are_equated() -> None:
    graph = trace_graph(ops.add, [floats(B, 2), floats(C, 2)])
    check_graph(graph)
    (result,) = graph.outputs
    assert {i.type for i in graph.inputs} == {result.type}


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (ops.softmax, (B * C - B, 4)),
        (lambda x: ops.fully_connected(x, np.ones((3, 4), np.float32)), (B * C - B, 3)),
        (lambda x: ops.strided_slice(x, [1, 0], [0, 0], [1, 1], begin_mask=2, end_mask=3), (B * C - B - 1, 4)),
        (ops.zeros_like, (B * C - B, 4)),
    ],
    ids=["softmax", "product", "slice", "zeros"],
)
def test_sizes_that_jax_does_not_know_to_be_sizes(call: Any, shape: Any) -> None:
    """Of B*C - B it cannot tell that it is not below 0."""
    (result,) = trace_graph(call, [floats(B * C - B, 4)]).outputs
    assert result.type == floats(*shape)


def test_sizes_that_differ_are_not_equated() -> None:
    with pytest.raises(TypeMismatch, match="add does not take these operands"):
        trace_graph(ops.add, [floats(B, 2), floats(C, 3)])


def test_strings_are_compared_and_selected() -> None:
    texts = TensorType((B,), DType.string)
    graph = trace_graph(lambda a, b: ops.select_v2(ops.equal(a, b), a, b), [texts, texts])
    assert [o.type for o in graph.outputs] == [texts]
    a, b = np.array([b"x", b"y"], object), np.array([b"x", b"z"], object)
    assert evaluate(graph, [a, b])[0].tolist() == [b"x", b"z"]


def test_float64_stays_float64() -> None:
    x = np.array([[0.1, 0.2, 0.7]])
    results = [ops.logistic(x), ops.softmax(x), ops.log_softmax(x), ops.gelu(x), ops.mean(x, [1]), ops.elu(-x)]
    results += [ops.fully_connected(x, x), ops.leaky_relu(x, alpha=0.1), ops.hard_swish(x), ops.relu6(x)]
    assert {r.dtype for r in results} == {np.dtype(np.float64)}


def test_declaring_twice_names_both_modules() -> None:
    with pytest.raises(RuleError, match=r"ADD is declared in both jfuse\.kernels\.math\.elementwise and .*test_op"):
        tfl("ADD")(lambda x, /: x)


def test_vars_outside_of_a_trace_are_refused() -> None:
    with pytest.raises(JfuseError, match="outside of a trace"):
        ops.neg(Var(floats(2)))
