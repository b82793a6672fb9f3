"""Which states a signature keeps or exposes, by mode: names, initial values, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Graph, Program, Signature, Source, State
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import composite, if_, scan, while_
from jfuse.passes.context import Context
from jfuse.passes.options import Forms
from jfuse.passes.states.modes import apply_state_mode

WEIGHTS = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
STEPS = TensorType((5, 2, 4), DType.f32)
ROW = TensorType((2, 4), DType.f32)


def cell(h: Any, x: Any) -> Any:
    """tanh(x + h·W), twice: what is carried and what is given out."""
    y = ops.tanh(ops.add(x, ops.fully_connected(h, WEIGHTS, None)))
    return y, y


def rnn(x: Any, h: Any, *, name: str = "model/rnn/while", reverse: bool = False, row: TensorType = ROW) -> Any:
    """(last h, every h)."""
    body = trace_graph(cell, [row, row], "step")
    with at_source(Source(name)):
        return scan([h, x], (body,), consts=0, carries=1, length=x.type.shape[0], reverse=reverse)


def program(graph: Graph, states: tuple[State, ...] = ()) -> Program:
    inputs = tuple(f"x{i}" for i in range(len(graph.inputs) - len(states)))
    outputs = tuple(f"y{i}" for i in range(len(graph.outputs) - len(states)))
    return Program((Signature("main", graph, inputs, outputs, states),))


def streamed(build: Callable[..., Any], mode: Any, *types: TensorType) -> tuple[Signature, Context]:
    ctx = Context(forms=Forms(state=mode))
    (signature,) = apply_state_mode(program(trace_graph(build, types or [STEPS])), ctx).signatures
    check_graph(signature.graph)
    return signature, ctx


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize("mode", ["source", "reset"])
def test_recurrences_start_anew(mode: Any) -> None:
    graph = trace_graph(lambda x: rnn(x, zeros(2, 4))[1], [STEPS])
    given = program(graph)
    assert apply_state_mode(given, Context(forms=Forms(state=mode))).signatures == given.signatures


@pytest.mark.parametrize("start", [0.0, 0.25])
def test_what_a_recurrence_carries_is_kept(start: float) -> None:
    signature, _ = streamed(lambda x: rnn(x, zeros(2, 4) + np.float32(start))[1], "keep")
    assert [(s.name, s.initial.array.tolist()) for s in signature.states] == [("rnn_h", [[start] * 4] * 2)]
    whole = np.random.default_rng(1).normal(size=(10, 2, 4)).astype(np.float32)
    h = signature.states[0].initial.array
    pieces = []
    for piece in (whole[:5], whole[5:]):
        y, h = evaluate(signature.graph, [piece, h])
        pieces.append(y)
    wanted = np.full((2, 4), start, np.float64)
    for x, found in zip(whole, np.concatenate(pieces), strict=True):
        wanted = np.tanh(x + wanted @ WEIGHTS.T)
        np.testing.assert_allclose(found, wanted, atol=1e-6)  # f32, 10 steps


def test_exposed_states_are_the_last_inputs_and_outputs() -> None:
    batch = TensorType((5, symbol("B"), 4), DType.f32)

    def build(x: Any) -> Any:
        row = TensorType((symbol("B"), 4), DType.f32)
        h = ops.broadcast_to(np.float32(0.5), ops.shape(ops.gather(x, np.int32(0), axis=0)))
        return rnn(x, h, row=row)[1]

    signature, _ = streamed(build, "io", batch)
    assert signature.input_names == ("x0", "rnn_h")
    assert signature.output_names == ("y0", "rnn_h")
    assert signature.states == ()
    (state,) = signature.exposed
    assert state.initial.array.tolist() == [[0.5] * 4]  # one row stands for any batch


def test_states_of_one_layer_called_twice_have_names_of_their_own() -> None:
    def build(x: Any) -> Any:
        return rnn(rnn(x, zeros(2, 4))[1], zeros(2, 4))[1]

    assert [s.name for s in streamed(build, "keep")[0].states] == ["rnn_h", "rnn_h_1"]


def test_carries_are_named_by_what_is_done_with_them() -> None:
    """h goes into a product and c does not, whatever their order; three of a kind are numbered."""

    def step(c: Any, h: Any, x: Any) -> Any:
        c = ops.mul(ops.add(c, x), 0.5)
        return c, ops.tanh(ops.add(c, ops.fully_connected(h, WEIGHTS, None)))

    def three(a: Any, b: Any, c: Any, x: Any) -> Any:
        return ops.add(a, x), ops.add(b, a), ops.add(c, b)

    def build(x: Any) -> Any:
        one = scan([zeros(2, 4)] * 2 + [x], (trace_graph(step, [ROW] * 3),), consts=0, carries=2, length=5)
        two = scan([zeros(2, 4)] * 3 + [x], (trace_graph(three, [ROW] * 4),), consts=0, carries=3, length=5)
        return (*one, *two)

    names = [s.name for s in streamed(build, "keep")[0].states]
    assert names == ["state_c", "state_h", "state_state_0", "state_state_1", "state_state_2"]


def test_what_starts_from_what_is_computed_is_no_state() -> None:
    signature, ctx = streamed(lambda x, h: rnn(x, h)[1], "keep", STEPS, ROW)
    assert signature.states == ()
    assert ["finds nothing to keep" in note for note in ctx.report.notes] == [True]


def test_loops_over_no_sequence_start_anew() -> None:
    """Newton's iteration carries something too, and is no recurrence."""

    def build(x: Any) -> Any:
        body = trace_graph(lambda y: ops.mul(ops.add(y, 2.0), 0.5), [ROW], "step")
        (root,) = scan([np.ones((2, 4), np.float32)], (body,), consts=0, carries=1, length=6)
        return ops.add(rnn(x, zeros(2, 4))[0], root)

    assert [s.name for s in streamed(build, "keep")[0].states] == ["rnn_h"]


def test_recurrences_in_branches_and_other_loops_are_told_of() -> None:
    def build(x: Any, flag: Any) -> Any:
        branch = trace_graph(lambda v: rnn(v, zeros(2, 4), name="inner/while")[0], [STEPS], "branch")
        (y,) = if_([flag, x], (branch, branch))
        types = [TensorType((), DType.f32)]
        cond = trace_graph(lambda v: ops.less(v, 3.0), types, "cond")
        with at_source(Source("searching")):
            (z,) = while_([ops.sum_(y, [0, 1])], (cond, trace_graph(lambda v: ops.mul(v, 2.0), types, "body")))
        return ops.add(y, z)

    signature, ctx = streamed(build, "keep", STEPS, TensorType((), DType.bool))
    assert signature.states == ()
    assert [("inner/while" in n, "searching" in n) for n in ctx.report.notes[:2]] == [(True, False), (False, True)]


def backwards(x: Any) -> Any:
    return rnn(x, zeros(2, 4), reverse=True)[1]


def reversed_before(x: Any) -> Any:
    return rnn(ops.transpose(ops.mul(ops.reverse_v2(ops.transpose(x, [1, 0, 2]), [1]), 2.0), [1, 0, 2]), zeros(2, 4))[1]


def strided_back(x: Any) -> Any:
    y = ops.strided_slice(x, [0, 0, 0], [0, 0, 0], [-1, 1, 1], begin_mask=7, end_mask=7)
    return rnn(y, zeros(2, 4))[1]


def features_reversed(x: Any) -> Any:
    return rnn(ops.reverse_v2(x, [2]), zeros(2, 4))[1]


@pytest.mark.parametrize("build", [backwards, reversed_before, strided_back])
def test_what_runs_backwards_cannot_be_kept(build: Callable[[Any], Any]) -> None:
    with pytest.raises(
        LowerError, match=r"'rnn_h' cannot go from one call to the next at model/rnn/while(.|\n)*runs backwards"
    ):
        streamed(build, "keep")
    assert [s.name for s in streamed(build, "io")[0].exposed] == ["rnn_h"]


def test_features_in_reverse_are_no_steps_in_reverse() -> None:
    assert len(streamed(features_reversed, "keep")[0].states) == 1


def test_an_open_batch_cannot_be_kept() -> None:
    batch, row = symbol("B"), TensorType((symbol("B"), 4), DType.f32)

    def build(x: Any) -> Any:
        h = ops.broadcast_to(np.float32(0.0), ops.shape(ops.gather(x, np.int32(0), axis=0)))
        return rnn(x, h, row=row)[1]

    with pytest.raises(
        LowerError, match=r"'rnn_h' cannot be kept(.|\n)*a fixed batch(.|\n)*f32\[B,4\](.|\n)*state=\"io\""
    ):
        streamed(build, "keep", TensorType((5, batch, 4), DType.f32))


def annotated(x: Any, *, given: bool, returned: bool) -> Any:
    """A function marked as acme.Rnn that takes its state, or makes it, and returns the last one, or does not."""

    def body(x: Any, *h: Any) -> Any:
        last, every = rnn(x, *h or [zeros(2, 4)])
        return (every, last) if returned else every

    types = [STEPS, ROW] if given else [STEPS]
    names = ("x", "init_h")[: len(types)]
    operands = [x, zeros(2, 4)][: len(types)]
    with at_source(Source("model/mine/PartitionedCall")):
        return composite(operands, (trace_graph(body, types, "body"),), name="acme.Rnn", arguments=names)[0]


def test_an_annotated_function_with_its_state_is_kept() -> None:
    signature, _ = streamed(lambda x: annotated(x, given=True, returned=True), "keep")
    assert [s.name for s in signature.states] == ["mine_h"]


@pytest.mark.parametrize(("given", "returned"), [(False, True), (True, False)])
@pytest.mark.parametrize("mode", ["keep", "io"])
def test_an_annotated_function_without_its_state_is_refused(given: bool, returned: bool, mode: str) -> None:
    with pytest.raises(
        LowerError, match=r"at model/mine/PartitionedCall(.|\n)*takes its state as an argument and returns"
    ):
        streamed(lambda x: annotated(x, given=given, returned=returned), mode)


def held() -> Program:
    """A source that keeps h in a variable: `x0` names an input as well as the state."""

    def build(x: Any, h: Any, n: Any) -> Any:
        last, every = rnn(x, h)
        return every, last, ops.add(n, 1.0)

    graph = trace_graph(build, [STEPS, ROW, TensorType((1,), DType.f32)])
    states = (State("rnn/variable", Const(zeros(2, 4) + 0.5)), State("x0", Const(zeros(1) + 3)))
    return program(graph, states)


def test_the_sources_states_are_kept_as_they_are_or_exposed_by_layer() -> None:
    (kept,) = apply_state_mode(held(), Context(forms=Forms(state="keep"))).signatures
    assert [s.name for s in kept.states] == ["rnn/variable", "x0"]
    (exposed,) = apply_state_mode(held(), Context(forms=Forms(state="io"))).signatures
    assert exposed.input_names == ("x0", "rnn_h", "x0_1")
    assert exposed.output_names == ("y0", "rnn_h", "x0_1")


def test_reset_makes_constants_of_the_sources_states() -> None:
    ctx = Context(forms=Forms(state="reset"))
    (signature,) = apply_state_mode(held(), ctx).signatures
    assert (len(signature.graph.inputs), len(signature.graph.outputs), signature.states) == (1, 1, ())
    assert ["is not kept: every call starts" in note for note in ctx.report.notes] == [True, True]
    x = np.random.default_rng(0).normal(size=(5, 2, 4)).astype(np.float32)
    first = np.tanh(x[0] + np.full((2, 4), 0.5) @ WEIGHTS.T)
    for _ in range(2):
        np.testing.assert_allclose(evaluate(signature.graph, [x])[0][0], first, atol=1e-6)  # one f32 step
