"""Where each state goes: into the state tensor of a fused op only where nothing else could tell the difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.base.errors import LowerError
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Program, Signature, State
from jfuse.ir.parser import parse_program
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.states.placement import place_states, prepare_results
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.read.file import load_tflite

RNG = np.random.default_rng(0)
WEIGHTS = [RNG.normal(size=(4, n)).astype(np.float32) for n in (3,) * 4 + (4,) * 4]
BIAS = RNG.normal(size=4).astype(np.float32)
STATE = TensorType((2, 4), DType.f32)
X = TensorType((5, 2, 3), DType.f32)


def in_tensors(program: Program) -> set[str]:
    """The names of the states that the file keeps in tensors."""
    return {s.name for s in program.states() if s.home == "tensor"}


def lstm(x: Any, h: Any, c: Any, **options: Any) -> Any:
    operands = [x, *WEIGHTS, None, None, None, *[BIAS] * 4, None, None, h, c]
    return ops.unidirectional_sequence_lstm(*operands, time_major=True, **options)


def last_step(y: Any) -> Any:
    return ops.strided_slice(y, [-1], [0], [1], end_mask=1, shrink_axis_mask=1)


def program(build: Callable[..., Any], x: TensorType = X, start: float = 0.0, outputs: int = 1) -> Program:
    graph = trace_graph(build, [x, STATE, STATE])
    states = tuple(State(n, Const(np.full((2, 4), start, np.float32))) for n in "hc")
    return Program((Signature("main", graph, ("x",), tuple(f"y{i}" for i in range(outputs)), states),))


def plain(x: Any, h: Any, c: Any) -> Any:
    y, _, last = lstm(x, h, c)
    return y, last_step(y), last


def with_own_h(x: Any, h: Any, c: Any) -> Any:
    y, last_h, last_c = lstm(x, h, c)
    return y, last_h, last_c


def moved_about(x: Any, h: Any, c: Any) -> Any:
    """The last step by a detour: batch-major, flat, then the last of five."""
    y, _, last = lstm(x, h, c)
    flat = ops.reshape(ops.transpose(y, [1, 0, 2]), [2, 20])
    return y, ops.strided_slice(flat, [0, 16], [2, 20], [1, 1]), last


def not_the_last(x: Any, h: Any, c: Any) -> Any:
    y, _, last = lstm(x, h, c)
    return y, ops.strided_slice(y, [-2], [0], [1], end_mask=0, shrink_axis_mask=1), last


def other_rows(x: Any, h: Any, c: Any) -> Any:
    y, _, last = lstm(x, h, c)
    return y, ops.gather(last_step(y), np.array([1, 0], np.int32), axis=0), last


def read_twice(x: Any, h: Any, c: Any) -> Any:
    y, _, last = lstm(x, h, c)
    return ops.add(y, c), last_step(y), last


def changed_after(x: Any, h: Any, c: Any) -> Any:
    y, _, last = lstm(x, h, c)
    return y, last_step(y), ops.mul(last, 0.5)


def exchanged(x: Any, h: Any, c: Any) -> Any:
    y, _, last = lstm(x, h, c)
    return y, last, last_step(y)


@pytest.mark.parametrize(
    ("build", "in_place"),
    [
        (plain, "hc"),
        (with_own_h, "hc"),
        (moved_about, "hc"),
        (not_the_last, "c"),
        (other_rows, "c"),
        (read_twice, "h"),
        (changed_after, "h"),
        (exchanged, ""),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_an_op_leaves_in_its_tensor_is_kept_there(build: Callable[..., Any], in_place: str) -> None:
    given = program(build)
    placed = place_states(given, Context())
    assert in_tensors(placed) == set(in_place)
    check_graph(placed.graphs()[0])
    args = [RNG.normal(size=v.type.shape).astype(np.float32) for v in placed.graphs()[0].inputs]
    wanted, found = (evaluate(p.graphs()[0], args) for p in (given, placed))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_start_that_is_not_zero_needs_a_variable() -> None:
    assert in_tensors(place_states(program(plain, start=0.5), Context())) == set()


def test_inputs_of_several_sizes_need_variables() -> None:
    """LiteRT clears state tensors when an input changes its size."""
    open_steps = TensorType((symbol("T"), 2, 3), DType.f32)
    assert in_tensors(place_states(program(plain, open_steps), Context())) == set()


def test_what_two_graphs_know_is_a_variable() -> None:
    given = program(plain)
    (main,) = given.signatures
    peek = trace_graph(lambda x, h: (ops.add(h, x), h), [STATE, STATE])
    both = Program((main, Signature("peek", peek, ("x",), ("y",), main.states[:1])))
    assert in_tensors(place_states(both, Context())) == {"c"}
    alike = Program((main, replace(main, key="serve")))  # one graph, one subgraph of the file
    assert in_tensors(place_states(alike, Context())) == {"h", "c"}


def test_a_final_state_that_is_a_result_too_is_read_tied_to_the_output() -> None:

    def both_ways(x: Any, h: Any, c: Any) -> Any:
        y, _, last = lstm(x, h, c)
        return last, last_step(y), last

    both = place_states(program(both_ways), Context())
    graph = both.graphs()[0]
    assert in_tensors(both) == {"h", "c"}
    assert graph.outputs[0] is not graph.outputs[2]
    assert [e.op.name for e in graph.eqns][-3:] == ["strided_slice", "concatenation", "strided_slice"]


ALIKE = parse_program("""
program {
  state tensor "a" = f32[2](0.0 0.0)
  state tensor "b" = f32[2](0.0 0.0)
  signature "main"("x") -> ("y") keeps ("a", "b") = graph 0
  graph main(x: f32[2], a: f32[2], b: f32[2]) {
    c: f32[2] = mul a 10.0
    d: f32[2] = add c b
    e: f32[2] = add x x
    f: f32[2] = add x x
    return d, e, f
  }
}
""")


def test_states_of_a_file_that_become_one_value_are_variables() -> None:
    """Two operators write two state tensors alike; the one that is left of them can write one of these."""
    lite = jfuse.lower(jfuse.Model(load_tflite(jfuse.Model(ALIKE).to_bytes())))
    assert [e.op.name for e in lite.program.graphs()[0].eqns] == ["mul", "add", "add"]
    assert in_tensors(lite.program) == set()
    for delegates in (False, True):
        runtime = LiteRt(lite.to_bytes(), delegates=delegates)
        found = [runtime.run("main", {"x": np.full(2, x, np.float32)})["y"].tolist() for x in (1, 2, 3)]
        assert found == [[0.0, 0.0], [22.0, 22.0], [44.0, 44.0]]


def test_scalars_are_kept_as_vectors() -> None:
    """READ_VARIABLE with a result of shape [] makes everything behind it dynamic."""
    scalar = TensorType((), DType.f32)
    graph = trace_graph(lambda x, n, m: (ops.mul(x, n), ops.add(n, 1.0), m), [STATE, scalar, scalar])
    states = (State("n", Const(np.array(2, np.float32))), State("m", Const(np.array(3, np.float32))))
    given = Program((Signature("main", graph, ("x",), ("y",), states),))
    placed = place_states(given, Context())
    (state,) = placed.signatures[0].states  # nobody reads or changes the other one
    assert (state.name, state.initial.array.tolist()) == ("n", [2.0])
    found = evaluate(placed.graphs()[0], [np.ones((2, 4), np.float32), np.array([5], np.float32)])
    assert found[0].tolist() == [[5.0] * 4] * 2
    assert found[1].tolist() == [6.0]


def test_the_report_says_where_states_are() -> None:
    ctx = Context()
    place_states(program(changed_after), ctx)
    assert [str(kept) for kept in ctx.report.kept] == [
        "h: f32[2,4] in the state tensor of unidirectional_sequence_lstm",
        "c: f32[2,4] in a variable",
    ]


def test_text_cannot_be_kept() -> None:
    text = TensorType((1,), DType.string)
    graph = trace_graph(lambda x, s: (x, x), [text, text])
    states = (State("s", Const(np.array([b"a"], object))),)
    with pytest.raises(LowerError, match="the state 's' holds text"):
        place_states(Program((Signature("main", graph, ("x",), ("y",), states),)), Context())


def test_only_results_that_are_no_states_are_copied() -> None:
    graph = trace_graph(lambda x, a, b: (x, b, a), [STATE, STATE, STATE])
    states = tuple(State(n, Const(np.ones((2, 4), np.float32))) for n in "ab")
    prepared = prepare_results(Program((Signature("main", graph, ("x",), ("y",), states),))).graphs()[0]
    assert [e.op.name for e in prepared.eqns] == ["reshape"]
    assert prepared.outputs[1:] == graph.outputs[1:]
