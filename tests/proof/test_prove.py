"""The prover: what it accepts, and what it refuses under which name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.opaque_ops.tf_op import TfOp
from jfuse.proof.error_of_samples import largest_error
from jfuse.proof.prove import TOLERANCE, KnownOperands, Proof, prove
from tests.cells import BATCH, UNITS, Loop, dense, f32, keras, weights

Function = Callable[..., Any]
ROW = [f32(BATCH, 4)]


def proof(body: Function, replacement: Function, types: Sequence[TensorType] = ROW, **options: Any) -> Proof:
    graphs = [trace_graph(f, list(types)) for f in (body, replacement)]
    return prove(graphs[0], graphs[1], **options)


def refusal(body: Function, replacement: Function, types: Sequence[TensorType] = ROW, **options: Any) -> NotFused:
    with pytest.raises(NotFused) as found:
        proof(body, replacement, types, **options)
    return found.value


def test_the_same_value_spelled_otherwise_is_proved() -> None:
    def spelled(x: Array) -> Array:
        return ops.mul(np.float32(0.5), ops.add(np.float32(1), ops.tanh(ops.mul(x, np.float32(0.5)))))

    found = proof(spelled, ops.logistic)
    assert found.samples >= 100
    assert found.error < 1e-13  # f64 rounding of a few operations


@pytest.mark.parametrize(
    "other",
    [
        lambda x: ops.tanh(ops.mul(x, np.float32(1.000001))),
        lambda x: ops.neg(ops.tanh(x)),
        lambda x: ops.sin(x),
    ],
)
def test_what_only_resembles_it_is_refused(other: Function) -> None:
    assert refusal(ops.tanh, other).condition == "not_equal"


def test_the_refusal_names_the_result_and_the_size_of_the_error() -> None:
    found = refusal(lambda x: (x, ops.tanh(x)), lambda x: (x, ops.sin(x)))
    assert "in result 1, operands of 1x4" in str(found)


def test_rows_that_mix_are_refused() -> None:
    def centred(x: Array) -> Array:
        return ops.sub(x, ops.mean(x, [0], keep_dims=True))

    def zero(x: Array) -> Array:
        return ops.sub(x, x)

    assert "operands of 2x4" in str(refusal(centred, zero))  # at batch 1 the two are the same


SWITCHES = {
    "select": lambda x: ops.select_v2(ops.equal(x, np.float32(7)), np.zeros((1, 1), np.float32), x),
    "clip": lambda x: ops.minimum(x, np.float32(1e6)),
    "round": lambda x: ops.sub(ops.add(x, ops.floor(x)), ops.floor(x)),
    "cast": lambda x: ops.add(
        x, ops.mul(np.float32(0), ops.cast(ops.cast(x, out_data_type=DType.i32), out_data_type=DType.f32))
    ),
}


@pytest.mark.parametrize("family", SWITCHES)
def test_a_case_distinction_must_be_explained(family: str) -> None:
    found = refusal(SWITCHES[family], lambda x: ops.add(x, np.float32(0)))
    assert found.condition == "unexplained_switch"


def test_a_claim_or_the_same_kind_of_op_explains_it() -> None:
    def body(x: Array) -> Array:
        return ops.maximum(ops.add(x, np.float32(1)), np.float32(0))

    assert proof(body, lambda x: ops.add(x, np.float32(1), fused_activation_function="RELU")).error == 0
    assert proof(body, lambda x: ops.relu(ops.add(x, np.float32(1)))).error == 0
    smooth = refusal(body, lambda x: ops.add(x, np.float32(1)), claims={"clip"})
    assert smooth.condition == "not_equal"


def test_both_sides_of_a_compared_constant_are_tried() -> None:
    def body(x: Array) -> Array:
        return ops.select_v2(ops.equal(x, np.float32(7)), np.zeros((1, 1), np.float32), x)

    assert refusal(body, lambda x: x, claims={"select", "compare"}).condition == "not_equal"


def test_a_special_case_for_rows_of_zeros_is_found() -> None:
    def body(x: Array) -> Array:
        live = ops.not_equal(ops.sum_(ops.square(x), [1], keep_dims=True), np.float32(0))
        return ops.select_v2(live, ops.add(x, np.float32(1)), x)

    found = refusal(body, lambda x: ops.add(x, np.float32(1)), claims={"select", "compare"})
    assert found.condition == "not_equal"


def test_a_matrix_that_stands_for_a_move_is_refused_for_infinities() -> None:
    """An infinity times a zero of the matrix is NaN, where the body hands all other elements on."""
    identity = np.eye(4, dtype=np.float32)
    found = refusal(lambda x: ops.relu(x), lambda x: ops.relu(ops.fully_connected(x, identity, None)))
    assert found.condition == "not_equal"
    assert "another value in result 0, where operands are infinite" in str(found)


def test_what_a_body_makes_nan_of_an_infinity_may_be_anything() -> None:
    """-inf * sigmoid(-inf) is NaN, its limit is 0."""

    def body(x: Array) -> Array:
        return ops.mul(x, ops.logistic(x))

    def limit(x: Array) -> Array:
        swish = ops.mul(x, ops.logistic(x))
        return ops.select_v2(ops.not_equal(swish, swish), np.zeros((1, 1), np.float32), swish)

    assert proof(body, limit).error == 0
    assert not proof(body, limit).nan_for_infinities


def test_constants_of_an_open_size_are_what_they_are() -> None:
    """Zeros as a state of an open batch; without them the two differ."""
    types = [f32(BATCH, 4), f32(BATCH, 4)]
    assert refusal(ops.add, lambda x, h: ops.tanh(x), types).condition == "not_equal"
    ones, zeros = (KnownOperands(held={1: array}) for array in (np.ones(4, np.float32), np.zeros((), np.float32)))
    assert refusal(ops.add, lambda x, h: x, types, known=ones).condition == "not_equal"
    assert proof(ops.add, lambda x, h: x, types, known=zeros).error == 0.0


def test_bools_take_each_value() -> None:
    flag = TensorType((), DType.bool)

    def body(x: Array, on: Array) -> Array:
        return ops.select_v2(on, x, ops.neg(x))

    claims = {"select"}
    types = [*ROW, flag]
    assert proof(body, lambda x, on: ops.select_v2(ops.logical_not(on), ops.neg(x), x), types).error == 0
    assert refusal(body, lambda x, on: x, types, claims=claims).condition == "not_equal"
    assert refusal(body, lambda x, on: ops.neg(x), types, claims=claims).condition == "not_equal"


def test_switches_on_constants_and_shapes_need_no_explanation() -> None:
    def body(x: Array, limit: Array) -> Array:
        rows = ops.maximum(ops.cast(ops.shape(x), out_data_type=DType.f32), np.float32(0))
        nothing = ops.mul(ops.sum_(rows, [0]), np.float32(0))
        return ops.add(ops.add(ops.mul(x, ops.maximum(limit, np.float32(1))), limit), nothing)

    types = [*ROW, f32()]
    half = [None, np.asarray(0.5, np.float32)]
    good = proof(body, lambda x, limit: ops.add(x, np.float32(0.5)), types, known=KnownOperands(half))
    assert good.error == 0
    assert refusal(body, lambda x, limit: x, types, known=KnownOperands(half)).condition == "not_equal"
    assert refusal(body, lambda x, limit: x, types).condition == "unexplained_switch"


def test_a_loop_is_a_case_distinction() -> None:
    def body(x: Array) -> Array:
        state = f32(BATCH, 4)
        cond = trace_graph(lambda v: ops.less(ops.sum_(v, [0, 1]), np.float32(-9)), [state])
        step = trace_graph(lambda v: ops.mul(v, np.float32(0.5)), [state])
        return ops.while_([x], [cond, step])[0]

    found = refusal(body, lambda x: x)
    assert found.condition == "unexplained_switch"
    assert "while" in str(found)


def _counted(x: Array) -> Array:
    return ops.range_(np.int32(0), x, np.int32(1))


def _greater(x: Array, than: float = 0.5, compare: Any = ops.greater) -> Array:
    return ops.gather_nd(x, ops.where(compare(x, np.float32(than))))


def test_ops_that_xla_cannot_run_are_refused() -> None:
    types = [TensorType((2,), DType.f32)]
    opaque = TfOp("Lgamma", (types[0],))
    found = refusal(lambda x: opaque.run([x], {}, ())[0], ops.neg, types)
    assert found.condition == "body_not_executable"
    found = refusal(ops.neg, lambda x: opaque.run([x], {}, ())[0], types)
    assert found.condition == "replacement_not_executable"


def test_sizes_that_are_values_are_bounded() -> None:
    number = [TensorType((), DType.i32)]
    assert proof(_counted, _counted, number).error == 0
    found = refusal(_counted, lambda x: ops.range_(np.int32(0), ops.maximum(x, 3), np.int32(1)), number)
    assert found.condition == "not_equal"
    found = refusal(_counted, lambda x: ops.range_(np.int32(0), ops.mul(x, 100_000), np.int32(1)), number)
    assert found.condition == "not_equal"

    def filled(x: Array) -> Array:
        return ops.fill(ops.pack(x, np.int32(2), axis=0), np.float32(1))

    assert proof(filled, filled, number).samples >= 8  # it takes no size below 0

    def large(x: Array) -> Array:
        return ops.range_(np.int32(0), ops.add(ops.abs_(x), 2**21), np.int32(1))

    found = refusal(large, large, number)
    assert found.condition == "body_not_executable"
    assert found.got == "range of more than 1,048,576 elements in 17 of 24 samples"


def test_results_as_long_as_data_decide_are_compared_equation_by_equation() -> None:
    types = [TensorType((symbol("B"), 3), DType.f32)]

    def twice(x: Array) -> Array:
        return ops.mul(np.float32(2), _greater(x))

    found = proof(lambda x: ops.add(_greater(x), _greater(x)), twice, types)
    assert found.samples >= 24
    assert found.error == 0
    wrong: list[Callable[[Array], Array]] = [
        lambda x: ops.mul(_greater(x), np.float32(2.00001)),  # other values
        lambda x: ops.mul(_greater(x, 0.501), np.float32(2)),  # another number of them
        lambda x: ops.mul(_greater(x, 0.5, ops.greater_equal), np.float32(2)),
    ]
    assert [refusal(twice, w, types).condition for w in wrong] == ["not_equal"] * 3


def test_bodies_that_keep_variables_are_refused() -> None:
    body = trace_graph(lambda x: ops.tanh(ops.neg(x)), ROW)
    writing = replace(body, eqns=(body.eqns[0], replace(body.eqns[1], effects=("count",))))
    with pytest.raises(NotFused, match="stateful_body: want no variables, got tanh"):
        prove(writing, body)


TABLE = weights(5, 3)
IDS = [TensorType((BATCH,), DType.i32)]


def test_ids_are_drawn_from_the_table_that_the_body_indexes() -> None:
    assert proof(lambda i: ops.gather(TABLE, i, axis=0), lambda i: ops.embedding_lookup(i, TABLE), IDS).error == 0
    wrong = np.concatenate([TABLE[:4], -TABLE[4:]])
    found = refusal(lambda i: ops.gather(TABLE, i, axis=0), lambda i: ops.embedding_lookup(i, wrong), IDS)
    assert found.condition == "not_equal"


def test_a_lookup_that_fails_where_the_body_does_not_is_refused() -> None:
    def one_hot(i: Array) -> Array:
        rows = ops.one_hot(i, 5, np.float32(1), np.float32(0))
        return dense(rows, TABLE)

    found = refusal(one_hot, lambda i: ops.embedding_lookup(i, TABLE), IDS, claims={"compare"})
    assert found.condition == "ids_out_of_range"


def test_ids_out_of_range_are_tried_where_the_body_takes_them() -> None:
    def one_hot(i: Array) -> Array:
        return dense(ops.one_hot(i, 5, np.float32(1), np.float32(0)), TABLE)

    def clamped(i: Array) -> Array:
        inside = ops.minimum(ops.maximum(i, np.int32(0)), np.int32(4))
        return ops.embedding_lookup(inside, TABLE)

    assert refusal(one_hot, clamped, IDS, claims={"compare"}).condition == "not_equal"


def scan_of(**loop: Any) -> Graph:
    return Loop(keras, **loop).graph()


def test_a_long_recurrence_is_proved_at_its_length_and_at_short_ones() -> None:
    graph = scan_of(batch=2, steps=20)
    assert prove(graph, graph).samples > prove(scan_of(batch=2, steps=3), scan_of(batch=2, steps=3)).samples


def test_what_differs_only_at_the_last_step_of_a_long_recurrence_is_found() -> None:
    loop = Loop(keras, batch=2, steps=20)
    (scan,) = loop.graph().eqns

    def changed(*operands: Array) -> Any:
        h, c, y = scan.op.run(operands, scan.params, scan.bodies)
        late = ops.reshape((np.arange(20) == 19).astype(np.float32), [20, 1, 1])
        return h, c, ops.add(y, late)

    graph = loop.graph()
    with pytest.raises(NotFused, match="not_equal"):
        prove(graph, trace_graph(changed, [v.type for v in graph.inputs]))


def test_a_body_that_is_right_at_its_own_length_alone_is_proved_there() -> None:
    loop = Loop(keras, batch=2, steps=6)
    (scan,) = loop.graph().eqns
    state, sequence = f32(2, UNITS), f32(6, 2, 3)

    def last(*operands: Array, step: int) -> Array:
        y = scan.op.run(operands, scan.params, scan.bodies)[2]
        return ops.gather(y, np.asarray(step, np.int32), axis=0)

    def of(step: int) -> Graph:
        return trace_graph(lambda *o: last(*o, step=step), [state, state, sequence])

    def taken(*operands: Array) -> Array:
        return scan.op.run(operands, scan.params, scan.bodies)[0]

    final = trace_graph(taken, [state, state, sequence])
    assert prove(of(5), final).error < TOLERANCE
    with pytest.raises(NotFused, match="not_equal"):
        prove(of(2), final)


def test_every_open_size_is_drawn_on_its_own() -> None:
    types = [f32(BATCH, symbol("T"))]
    found = refusal(
        lambda x: ops.transpose(x, [1, 0]), lambda x: ops.reshape(x, ops.shape(ops.transpose(x, [1, 0]))), types
    )
    assert found.condition == "not_equal"


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        ([[1.0, 2.0]], [[1.0, 2.0]], 0.0),
        ([[1.0, 2.2]], [[1.0, 2.0]], 0.1),
        ([[np.nan, 1.0]], [[np.nan, 1.0]], 0.0),
        ([[np.inf, 1.0]], [[1.0, 1.0]], np.inf),
        ([[1.0], [1e-9]], [[1.0], [0.0]], 1e-6),
    ],
)
def test_the_measure(found: list[list[float]], wanted: list[list[float]], expected: float) -> None:
    error = largest_error(np.array(found), np.array(wanted))
    assert error == expected or abs(error - expected) < 1e-12
