"""Two recurrences from opposite ends of one sequence become one op; others do not, and numbers stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.simplify.simplify import simplify
from tests.kernels.fused import rnn_oracle
from tests.kernels.fused.lstm_oracle import LSTM, RESOLVERS, written
from tests.kernels.fused.rnn_oracle import RNN
from tests.passes.states.test_state import B, Model, Runtime, error, file_of

TOLERANCE = 1e-5  # f32 sums of up to 24 terms, carried over 5 steps
STEPS, INPUTS = 5, 3
TURN = np.array([1, 0, 2], np.int32)
PAIRED = {"lstm": "bidirectional_sequence_lstm", "rnn": "bidirectional_sequence_rnn"}
Cell = LSTM | RNN


def kind_of(cell: Cell) -> str:
    return "lstm" if isinstance(cell, LSTM) else "rnn"


def run(cell: Cell, x: Any, states: list[Any], time_major: bool) -> Any:
    """The op: y and the final states."""
    if isinstance(cell, LSTM):
        return ops.unidirectional_sequence_lstm(
            *cell.in_file_order(x, *states), **{**cell.options, "time_major": time_major}
        )
    return ops.unidirectional_sequence_rnn(
        x, cell.w, cell.r, cell.b, *states, time_major=time_major, fused_activation_function=cell.activation
    )


def by_hand(cell: Cell, x: np.ndarray, states: list[np.ndarray]) -> tuple[np.ndarray, ...]:
    """The same by the equations, for x[b,t,i]."""
    return written(cell, x, *states) if isinstance(cell, LSTM) else rnn_oracle.written(cell, x, *states)


def sizes(cell: Cell) -> list[int]:
    return [cell.outputs, cell.units] if isinstance(cell, LSTM) else [cell.units]


@dataclass(frozen=True)
class Layout:
    """How x[b,t,i] reaches the ops: as it is, or [t,b,i], reversed (or sliced backwards) before or after the turn."""

    time_major: bool = False
    reversed_first: bool = False
    sliced: bool = False

    def ways(self, x: Any) -> tuple[Any, Any]:
        """The sequence as the forward op reads it, and as the backward op does."""
        if self.sliced:
            return x, ops.strided_slice(x, [0, 0], [0, 0], [1, -1], begin_mask=3, end_mask=3)
        if not self.time_major:
            return x, ops.reverse_v2(x, [1])
        if self.reversed_first:
            return ops.transpose(x, TURN), ops.transpose(ops.reverse_v2(x, [1]), TURN)
        return ops.transpose(x, TURN), ops.reverse_v2(ops.transpose(x, TURN), [0])

    def back(self, y: Any) -> Any:
        """A result as [b,t,o]."""
        return ops.transpose(y, TURN) if self.time_major else y


def place(y: Any, index: int) -> Any:
    """One step of y[b,t,o]."""
    begin, end = [0, index, 0], [0, index + 1, 0]
    return ops.strided_slice(y, begin, end, [1, 1, 1], begin_mask=5, end_mask=5, shrink_axis_mask=2)


# What is made of y forward and y backward (in the order of the steps taken), each [b,t,o].
USES: dict[str, Callable[[Any, Any], tuple[Any, ...]]] = {
    "concat": lambda y, z: (ops.concatenation(y, ops.reverse_v2(z, [1]), axis=2),),
    "sum": lambda y, z: (ops.add(y, ops.reverse_v2(z, [1])),),
    "mul": lambda y, z: (ops.mul(y, ops.reverse_v2(z, [1])),),
    "ave": lambda y, z: (ops.mul(ops.add(y, ops.reverse_v2(z, [1])), np.float32(0.5)),),
    "none": lambda y, z: (y, ops.reverse_v2(z, [1])),
    "last_steps": lambda y, z: (ops.concatenation(place(y, -1), place(z, -1), axis=1),),
    "in_the_order_of_steps": lambda y, z: (y, z),
}


# The same of arrays, with y backward turned round.
FORMULAS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]] = {
    "concat": lambda y, z: (np.concatenate([y, z], 2),),
    "sum": lambda y, z: (y + z,),
    "mul": lambda y, z: (y * z,),
    "ave": lambda y, z: ((y + z) / 2,),
    "none": lambda y, z: (y, z),
    "last_steps": lambda y, z: (np.concatenate([y[:, -1], z[:, 0]], 1),),
    "in_the_order_of_steps": lambda y, z: (y, np.flip(z, 1)),
}


def lstms(**options: Any) -> tuple[LSTM, LSTM]:
    return LSTM(units=4, inputs=INPUTS, seed=1, **options), LSTM(units=4, inputs=INPUTS, seed=2, **options)


CELLS: dict[str, tuple[Cell, Cell]] = {
    "lstm": lstms(),
    "lstm_options": lstms(peephole=True, width=3, cell_clip=0.5, proj_clip=0.25, activation="RELU6"),
    "lstm_coupled_backward": (lstms()[0], LSTM(units=4, inputs=INPUTS, seed=2, coupled=True)),
    "rnn": (RNN(units=4, inputs=INPUTS, seed=1), RNN(units=4, inputs=INPUTS, seed=2)),
    "rnn_of_two_sizes": (RNN(units=4, inputs=INPUTS, seed=1), RNN(units=6, inputs=INPUTS, seed=2)),
}
LAYOUTS = {"batch": Layout(), "sliced": Layout(sliced=True), "time": Layout(True), "reversed_first": Layout(True, True)}


def model(cells: tuple[Cell, Cell], layout: Layout, use: str, *, batch: Any = B, backward_first: bool = False) -> Model:
    """States are inputs; final states are results."""
    count = len(sizes(cells[0]))

    def build(x: Any, *states: Any) -> Any:
        ways, given = layout.ways(x), (list(states[:count]), list(states[count:]))
        order = (1, 0) if backward_first else (0, 1)
        ran = {n: run(cells[n], ways[n], given[n], layout.time_major) for n in order}
        (y, *finals), (z, *others) = ran[0], ran[1]
        return (*USES[use](layout.back(y), layout.back(z)), *finals, *others)

    def reference(x: np.ndarray, *states: np.ndarray) -> tuple[np.ndarray, ...]:
        y, *finals = by_hand(cells[0], x, list(states[:count]))
        z, *others = by_hand(cells[1], np.flip(x, 1), list(states[count:]))
        return (*FORMULAS[use](y, np.flip(z, 1)), *finals, *others)

    widths = [*sizes(cells[0]), *sizes(cells[1])]
    return Model(build, reference, ((batch, STEPS, INPUTS), *((batch, n) for n in widths)))


def simplified(graph: Graph) -> Graph:
    after = simplify(graph, Context())
    check_graph(after, types=True)
    return after


def names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


def assert_paired(model: Model, kind: str, batches: tuple[int, ...] = (1, 2, 5), resolver: str = "delegates") -> Graph:
    """One op, no REVERSE_V2 before it, and the answers of the equations in LiteRT on three invokes."""
    graph = simplified(model.graph())
    assert [n for n in names(graph) if "sequence" in n] == [PAIRED[kind]]
    assert "reverse_v2" not in names(graph)[: names(graph).index(PAIRED[kind])]
    runtime = Runtime(file_of(graph), resolver)
    for size in batches:
        runtime.resize(model.draw(size, 0))
        for seed in range(3):
            inputs = model.draw(size, seed)
            assert error(runtime(inputs), model.reference(*inputs)) < TOLERANCE
    return graph


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("cells", CELLS.values(), ids=CELLS.keys())
@pytest.mark.parametrize("resolver", RESOLVERS)
def test_two_directions_are_one_op(cells: tuple[Cell, Cell], layout: Layout, resolver: str) -> None:
    graph = assert_paired(model(cells, layout, "none"), kind_of(cells[0]), resolver=resolver)
    assert "reverse_v2" not in names(graph)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["lstm", "rnn"])
def test_whatever_is_made_of_the_results(kind: str, use: str) -> None:
    cells = CELLS["rnn_of_two_sizes" if kind == "rnn" and use in ("concat", "none", "last_steps") else kind]
    graph = assert_paired(model(cells, LAYOUTS["time"], use), kind)
    assert names(graph).count("reverse_v2") == (use == "in_the_order_of_steps")


@pytest.mark.parametrize("kind", ["lstm", "rnn"])
def test_either_may_come_first(kind: str) -> None:
    graph = assert_paired(model(CELLS[kind], LAYOUTS["time"], "none", backward_first=True), kind)
    assert "reverse_v2" not in names(graph)


@pytest.mark.parametrize("kind", ["lstm", "rnn"])
def test_one_sequence_needs_no_transpose(kind: str) -> None:
    graph = assert_paired(model(CELLS[kind], LAYOUTS["time"], "concat", batch=1), kind, batches=(1,))
    assert sorted(set(names(graph))) == [PAIRED[kind], "concatenation"]


@pytest.mark.parametrize("kind", ["lstm", "rnn"])
def test_several_sequences_are_computed_with_the_steps_first(kind: str) -> None:
    graph = assert_paired(model(CELLS[kind], LAYOUTS["batch"], "concat"), kind)
    (eqn,) = (e for e in graph.eqns if e.op.name == PAIRED[kind])
    assert eqn.params["time_major"]
    assert names(graph).count("transpose") == 2
    kept = assert_paired(model(CELLS[kind], LAYOUTS["batch"], "concat", batch=1), kind, batches=(1,))
    assert "transpose" not in names(kept)


@pytest.mark.parametrize("cells", [CELLS["lstm"], CELLS["rnn"]], ids=["lstm", "rnn"])
def test_layers_pair_one_by_one(cells: tuple[Cell, Cell]) -> None:
    """A bidirectional layer on another one; the second one's states start from the first one's."""
    wide = [
        LSTM(units=4, inputs=8, seed=s) if isinstance(cells[0], LSTM) else RNN(units=4, inputs=8, seed=s)
        for s in (3, 4)
    ]
    count = len(sizes(cells[0]))

    def build(x: Any, *states: Any) -> Any:
        y, *finals = run(cells[0], x, list(states[:count]), False)
        z, *others = run(cells[1], ops.reverse_v2(x, [1]), list(states[count:]), False)
        v = ops.concatenation(y, ops.reverse_v2(z, [1]), axis=2)
        p, q = run(wide[0], v, finals, False)[0], run(wide[1], ops.reverse_v2(v, [1]), others, False)[0]
        return ops.concatenation(p, ops.reverse_v2(q, [1]), axis=2)

    def reference(x: np.ndarray, *states: np.ndarray) -> tuple[np.ndarray, ...]:
        y, *finals = by_hand(cells[0], x, list(states[:count]))
        z, *others = by_hand(cells[1], np.flip(x, 1), list(states[count:]))
        v = np.concatenate([y, np.flip(z, 1)], 2)
        p, q = by_hand(wide[0], v, finals)[0], by_hand(wide[1], np.flip(v, 1), others)[0]
        return (np.concatenate([p, np.flip(q, 1)], 2),)

    whole = Model(build, reference, ((B, STEPS, INPUTS), *((B, 4) for _ in range(2 * count))))
    graph = simplified(whole.graph())
    assert [n for n in names(graph) if "sequence" in n] == [PAIRED[kind_of(cells[0])]] * 2
    runtime = Runtime(file_of(graph), "delegates")
    for size in (1, 2, 5):
        runtime.resize(whole.draw(size, 0))
        for seed in range(3):
            inputs = whole.draw(size, seed)
            assert error(runtime(inputs), whole.reference(*inputs)) < TOLERANCE


def test_what_the_second_needs_is_computed_before_both() -> None:
    """A state of the backward op that is made between the two, and a reader of the first between them."""
    first, second = CELLS["rnn"]

    def build(x: Any, h: Any, g: Any) -> Any:
        y, _ = run(first, x, [h], False)
        doubled, shown = ops.add(g, g), ops.tanh(y)
        z, _ = run(second, ops.reverse_v2(x, [1]), [doubled], False)
        return shown, z

    def reference(x: np.ndarray, h: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.tanh(by_hand(first, x, [h])[0]), by_hand(second, np.flip(x, 1), [2 * g])[0]

    assert_paired(Model(build, reference, ((B, STEPS, INPUTS), (B, 4), (B, 4))), "rnn")


def pair_of(
    first: Cell, second: Cell, *ways: Callable[[Any], Any], time_major: tuple[bool, bool] = (False, False)
) -> Graph:
    """Two recurrences over what `ways` make of x, from zero states."""

    def build(x: Any) -> Any:
        return tuple(
            run(cell, way(x), [np.zeros((5, n), np.float32) for n in sizes(cell)], major)[0]
            for cell, way, major in zip((first, second), ways, time_major, strict=True)
        )

    return trace_graph(build, [TensorType((5, STEPS, INPUTS), DType.f32)])


def same(x: Any) -> Any:
    return x


def turned_round(x: Any) -> Any:
    return ops.reverse_v2(x, [1])


LSTMS, RNNS = CELLS["lstm"], CELLS["rnn"]
APART: dict[str, Callable[[], Graph]] = {
    "both_forward": lambda: pair_of(*RNNS, same, same),
    "both_backward": lambda: pair_of(*RNNS, turned_round, turned_round),
    "another_sequence": lambda: pair_of(*RNNS, same, lambda x: ops.reverse_v2(ops.tanh(x), [1])),
    "rows_reversed": lambda: pair_of(*RNNS, same, lambda x: ops.reverse_v2(x, [0])),
    "features_reversed": lambda: pair_of(*RNNS, same, lambda x: ops.reverse_v2(x, [2])),
    "another_axis_of_time": lambda: pair_of(*RNNS, same, turned_round, time_major=(False, True)),
    "two_kinds": lambda: pair_of(LSTMS[0], RNNS[1], same, turned_round),
    "two_activations": lambda: pair_of(RNNS[0], RNN(units=4, inputs=INPUTS, activation="RELU"), same, turned_round),
    "two_clips": lambda: pair_of(LSTMS[0], LSTM(units=4, inputs=INPUTS, cell_clip=0.5), same, turned_round),
    "two_sizes": lambda: pair_of(LSTMS[0], LSTM(units=6, inputs=INPUTS), same, turned_round),
    "two_widths": lambda: pair_of(LSTMS[0], LSTM(units=4, inputs=INPUTS, width=2), same, turned_round),
    "layer_norm": lambda: pair_of(*lstms(norm=True), same, turned_round),
    "diagonal": lambda: pair_of(*lstms(diagonal=True), same, turned_round),
}


@pytest.mark.parametrize("build", APART.values(), ids=APART.keys())
def test_others_stay_two(build: Callable[[], Graph]) -> None:
    graph = build()
    assert sum("bidirectional" in n for n in names(simplified(graph))) == 0
    assert sum("unidirectional" in n for n in names(simplified(graph))) == 2


def test_the_rows_above_differ_from_a_pair_in_one_place() -> None:
    for cells in (LSTMS, RNNS):
        assert PAIRED[kind_of(cells[0])] in names(simplified(pair_of(*cells, same, turned_round)))


def test_a_state_that_comes_from_the_other_keeps_them_apart() -> None:
    first, second = RNNS

    def build(x: Any) -> Any:
        y, h = run(first, x, [np.zeros((5, 4), np.float32)], False)
        return y, run(second, ops.reverse_v2(x, [1]), [ops.tanh(h)], False)[0]

    graph = simplified(trace_graph(build, [TensorType((5, STEPS, INPUTS), DType.f32)]))
    assert [n for n in names(graph) if "sequence" in n] == ["unidirectional_sequence_rnn"] * 2
