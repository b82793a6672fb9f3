"""Calibration against activations that Keras and NumPy compute, on the same data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Const, Graph, Program, Signature, State, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.quantization import on_host
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.histogram import counted
from jfuse.quantization.statistics import Observed, Statistics
from jfuse.running.over_samples import samples_for_quick
from tests.kernels.fused.lstm_oracle import LSTM, sigmoid, written_step
from tests.models.keras_libraries import awake
from tests.quantization.programs import every_value, result
from tests.tflite import programs
from tests.tflite.programs import BATCH, KEY, f32

layers = keras.layers
RNG = np.random.default_rng(5)


def assert_range(statistics: Statistics, what: Observed, *wanted: Any) -> None:
    """The range is that of these arrays."""
    ends = min(float(np.min(w)) for w in wanted), max(float(np.max(w)) for w in wanted)
    # 2e-6: sums of up to a hundred terms in f32 in another order
    np.testing.assert_allclose(statistics.range(what), ends, rtol=2e-6, atol=2e-6)


@pytest.mark.slow
def test_a_network_with_recurrent_layers() -> None:
    """Convolution, LSTM and GRU; of the GRU, which is a loop of the file, the state in each turn counts."""
    hidden = layers.LSTM(5, return_sequences=True)
    outputs = [x := keras.Input((9, 6, 1)), x := layers.Conv2D(3, 3, activation="relu")(x)]
    outputs += [x := hidden(layers.Reshape((7, 12))(x)), layers.GRU(4, return_sequences=True)(x)]
    model = awake(keras.Model(outputs[0], outputs[1:]))
    program = jfuse.convert(
        keras.Model(model.input, outputs[-1]), verify=False, forms=jfuse.Forms(loop="while")
    ).program
    x = RNG.standard_normal((37, 9, 6, 1)).astype(np.float32)
    conv, lstm, gru = model(x)
    observed = every_value(program)
    loop = next(e for e in program.graphs()[0].eqns if e.op.builtin == "WHILE")
    (state,) = (v for v in loop.bodies[1].inputs if [d for d in v.type.shape][1:] == [4])
    counted_ = result(program, "CONV_2D"), Observed(state)
    statistics = calibrate(program, observed, x, histograms=counted_)

    assert_range(statistics, result(program, "CONV_2D"), conv)
    assert_range(statistics, result(program, "UNIDIRECTIONAL_SEQUENCE_LSTM"), lstm)
    h, cells = [np.zeros((37, 5), np.float32)] * 2, []
    for step in np.moveaxis(np.reshape(conv, (37, 7, 12)), 1, 0):
        _, h = hidden.cell(step, h)
        cells.append(h[1])
    assert_range(statistics, result(program, "UNIDIRECTIONAL_SEQUENCE_LSTM", part="cell"), cells)
    assert_range(statistics, result(program, "UNIDIRECTIONAL_SEQUENCE_LSTM", part="hidden"), lstm)
    assert_range(statistics, Observed(state), np.zeros(1), np.asarray(gru)[:, :-1])
    for what, size in zip(counted_, (np.size(conv), 37 * 7 * 4), strict=True):
        counts = statistics.record(what).counts
        assert counts is not None
        assert counts.sum() == size
    assert sum(statistics.record(o).calls == 37 for o in observed if statistics.seen(o)) > 20


@pytest.mark.parametrize("looks", ["NumPy", "XLA"])
def test_the_inner_values_of_every_lstm(looks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if looks == "XLA":  # as on a GPU, which gives no value away
        monkeypatch.setattr(on_host, "_BYTES", 0)
    lstm = LSTM(batch=2, steps=5, width=4, peephole=True, norm=True)
    x, h, c = lstm.inputs_and_state()
    types = [f32(*a.shape) for a in (x, h, c)]
    graph = trace_graph(lambda *a: ops.unidirectional_sequence_lstm(*lstm.in_file_order(*a), **lstm.options), types)
    program = Program((Signature(KEY, graph, ("x", "h", "c"), ("y", "h2", "c2")),))
    seen: dict[str, list[np.ndarray]] = {}
    w = lstm.operands
    for x_t in np.swapaxes(x, 0, 1):
        before, c_before = h, c
        h, c = written_step(lstm, x_t, before, c_before, w)
        for gate, state in {"input": c_before, "forget": c_before, "cell": None, "output": c}.items():
            total = x_t @ w[f"W_{gate}"].T + before @ w[f"R_{gate}"].T
            total = total if state is None else total + state * w[f"p_{gate}"]
            seen.setdefault(f"{gate}_gate", []).append(total)
            normed = (total - total.mean(-1, keepdims=True)) / total.std(-1, keepdims=True) * w[f"l_{gate}"]
        seen.setdefault("cell", []).append(c)
        seen.setdefault("hidden", []).append(sigmoid(normed + w["b_output"]) * np.tanh(c))
    what = [Observed(graph.eqns[0].outputs[0], part) for part in seen]
    x, h, c = lstm.inputs_and_state()
    statistics = calibrate(program, what, [{"x": x, "h": h, "c": c}], histograms=what)
    for of in what:
        assert_range(statistics, of, seen[of.part])
        counts = statistics.record(of).counts
        assert counts is not None
        np.testing.assert_allclose(counts, counted(np.stack(seen[of.part])), atol=2)


def branching() -> Program:
    """Halves x until its sum is below 1; where it was positive first, doubles it in a branch that has a loop, too."""

    def total(x: Any) -> Any:
        return ops.sum_(x, np.array([0], np.int32))

    def shrink(x: Any) -> Any:
        cond = trace_graph(lambda v: ops.greater(total(v), np.float32(1)), [f32(3)], "cond")
        return ops.while_([x], [cond, trace_graph(lambda v: ops.mul(v, np.float32(0.5)), [f32(3)], "body")])[0]

    def main(x: Any) -> Any:
        small = shrink(x)
        then = trace_graph(lambda v: shrink(ops.mul(v, np.float32(20))), [f32(3)], "then")
        other = trace_graph(lambda v: ops.neg(v), [f32(3)], "else")
        return ops.if_([ops.greater(total(x), np.float32(0)), small], [then, other])

    return programs.program(main, f32(3))


def shrunk(v: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """What `shrink` gives for one sample, and its value after each turn."""
    turns: list[np.ndarray] = []
    while v.sum() > 1:
        v = v * np.float32(0.5)
        turns.append(v)
    return v, turns


def test_samples_that_take_other_branches_and_turns() -> None:
    """Samples run together, yet each value counts where its sample computes it."""
    program = branching()
    x = (RNG.standard_normal((11, 3)) * 5).astype(np.float32)
    firsts = [shrunk(row) for row in x]
    halves = [turn for _, turns in firsts for turn in turns]
    doubled = [small * 20 for row, (small, _) in zip(x, firsts, strict=True) if row.sum() > 0]
    negated = [-small for row, (small, _) in zip(x, firsts, strict=True) if row.sum() <= 0]
    inner = [turn for v in doubled for turn in shrunk(v)[1]]

    loop, branch = (e for e in program.graphs()[0].eqns if e.bodies)
    then, other = branch.bodies
    values = [loop.bodies[1].eqns[0], then.eqns[0], other.eqns[0], then.eqns[1].bodies[1].eqns[0]]
    observed = [Observed(eqn.outputs[0]) for eqn in values]
    statistics = calibrate(program, observed, x, histograms=observed)
    for what, wanted in zip(observed, (halves, doubled, negated, inner), strict=True):
        assert_range(statistics, what, *wanted)
        np.testing.assert_array_equal(statistics.record(what).counts, counted(np.array(wanted, np.float32)))
    assert statistics.record(observed[2]).calls == len(negated) < 11


def adding_up() -> Program:
    """A state that adds up what it is given, from 1 on."""
    graph = trace_graph(lambda x, s: (total := ops.add(x, s), total), [f32(1, 2), f32(1, 2)])
    state = State("total", Const(np.ones((1, 2), np.float32)))
    return Program((Signature(KEY, graph, ("x",), ("y",), (state,)),))


def test_states_go_on_and_sequences_start_anew() -> None:
    program = adding_up()
    what = result(program, "ADD")
    calls = [np.full((1, 2), i, np.float32) for i in (1, -2, 3)]
    assert calibrate(program, [what], calls).range(what) == (0.0, 3.0)
    assert calibrate(program, [what], [[{"x": c} for c in calls]] * 3).range(what) == (0.0, 3.0)
    assert calibrate(program, [what], [[{"x": calls[2]}], [{"x": calls[1]}]]).range(what) == (-1.0, 4.0)


def test_infinities_are_left_out_and_told() -> None:
    program = programs.program(lambda x: ops.log(x), f32(BATCH, 3))
    what = result(program, "LOG")
    x = np.array([[1, 2, 3], [4, 0, -1], [2, 2, 8]], np.float32)
    statistics = calibrate(program, [what], x, histograms=[what])
    assert_range(statistics, what, np.log(x[x > 0]))
    assert statistics.record(what).counts.sum() == 7  # type: ignore[union-attr]
    assert [n.partition("log")[0] for n in statistics.notes()] == ["in 1 calls of the calibration "]


def test_values_too_large_to_leave_their_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one sample has more than a run may give away, XLA looks at the value; what is small beside it comes out."""
    monkeypatch.setattr(on_host, "_BYTES", 64)
    program = programs.program(lambda x: ops.sum_(ops.log(x), np.array([0], np.int32)), f32(40))
    x = np.linspace(0, 3, 40, dtype=np.float32)
    observed = [result(program, "LOG"), result(program, "SUM")]
    statistics = calibrate(program, observed, [x, np.ones(40, np.float32)], histograms=observed)
    large, small = map(statistics.record, observed)
    assert_range(statistics, observed[0], np.log(x[1:]))
    assert (large.calls, large.not_finite, small.calls, small.not_finite) == (2, 1, 1, 1)
    np.testing.assert_array_equal(large.counts, counted(np.log(x[1:])) + counted(np.zeros(40, np.float32)))
    assert statistics.range(observed[1]) == (0.0, 0.0)


def test_a_graph_that_jax_cannot_trace() -> None:
    """The indices of numbers that are not 0: their count depends on data."""

    def main(x: Any) -> Any:
        where = ops.where(ops.greater(x, np.float32(0)))
        return ops.mul(ops.gather_nd(x, where), np.float32(3)), ops.tanh(x)

    program = programs.program(main, f32(4))
    x = RNG.standard_normal((9, 4)).astype(np.float32)
    observed = [result(program, "MUL"), result(program, "TANH")]
    statistics = calibrate(program, observed, x, histograms=observed)
    assert_range(statistics, observed[0], 3 * x[x > 0])
    assert_range(statistics, observed[1], np.tanh(x))
    np.testing.assert_array_equal(statistics.record(observed[0]).counts, counted(3 * x[x > 0]))


def test_many_operators_of_few_numbers() -> None:
    """A recurrence written step by step, which is compiled quickly; operators of many numbers are for few samples."""

    def recurrence(x: Any, steps: int) -> Any:
        for _ in range(steps):
            x = ops.tanh(ops.mul(x, np.float32(1.5)))
        return x

    program = programs.program(lambda x: recurrence(x, 110), f32(4))
    (signature,) = program.signatures
    assert samples_for_quick(signature.graph) >= 2**17
    x = wanted = RNG.standard_normal((9, 4)).astype(np.float32)
    for _ in range(110):
        wanted = np.tanh(wanted * np.float32(1.5))
    (out,) = signature.graph.outputs
    assert isinstance(out, Var)
    last = Observed(out)
    statistics = calibrate(program, [last], x, histograms=[last])
    assert_range(statistics, last, wanted)
    counts = statistics.record(last).counts
    assert counts is not None
    assert counts.sum() == x.size
    assert samples_for_quick(trace_graph(lambda x: recurrence(x, 20), [f32(16 * 1024)])) == 32
    cond = trace_graph(lambda x: ops.less(ops.sum_(x, np.array([0], np.int32)), np.float32(9)), [f32(512)], "cond")
    body = trace_graph(lambda x: recurrence(x, 20), [f32(512)], "body")
    assert samples_for_quick(trace_graph(lambda x: ops.while_([x], [cond, body]), [f32(512)])) < 32  # it has many turns


def test_convolutions_without_a_library_take_long() -> None:
    """A quickly compiled one is a loop over the products: of integers, and of floats within a loop."""
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1, "fused_activation_function": "NONE"}

    def graph_of(x: TensorType, weights: np.ndarray) -> Graph:
        return trace_graph(lambda x: ops.conv_2d(x, weights, None, **options), [x])

    floats = graph_of(f32(1, 16, 16, 8), np.zeros((4, 3, 3, 8), np.float32))
    results, products = 16 * 16 * 4, 16 * 16 * 4 * 3 * 3 * 8
    assert samples_for_quick(floats) == 2**19 // results
    assert samples_for_quick(floats, looped=True) == 2**19 // (results + products // 3)
    integers = replace(floats, eqns=(replace(floats.eqns[0], outputs=(Var(TensorType((1, 16, 16, 4), DType.i8)),)),))
    assert samples_for_quick(integers) == samples_for_quick(floats, looped=True)
    assert samples_for_quick(floats, singly=True) < samples_for_quick(floats)


@pytest.mark.parametrize(("units", "steps", "is_quick"), [(64, 50, True), (512, 98, False)])
def test_a_fused_recurrence_takes_long_to_optimize(units: int, steps: int, is_quick: bool) -> None:
    weights = [np.zeros((units, n), np.float32) for n in (16, units) for _ in range(4)]
    biases = [np.zeros(units, np.float32)] * 4
    state = np.zeros((1, units), np.float32)
    options = {"fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0, "time_major": False}

    def lstm(x: Any) -> Any:
        operands = (x, *weights, None, None, None, *biases, None, None, state, state)
        return ops.unidirectional_sequence_lstm(*operands, asymmetric_quantize_inputs=False, **options)[0]

    assert (samples_for_quick(trace_graph(lstm, [f32(1, steps, 16)])) >= 1000) == is_quick


def test_without_data_the_statistics_are_not_to_be_trusted() -> None:
    program = programs.dense()
    statistics = calibrate(program, [result(program, "FULLY_CONNECTED")], "random")
    assert list(statistics.notes()) == [
        "the calibration is not to be trusted: random numbers",
    ]


def test_inputs_of_zeros_are_told() -> None:
    program = programs.dense()
    given = Observed(program.signatures[0].graph.inputs[0])
    zeros = np.zeros((3, 8), np.float32)
    assert list(calibrate(program, [given], zeros).notes()) == [
        "input 'x0' was zero in every calibration call, so its range is unknown"
    ]
    zeros[1, 2] = -1e-3
    assert list(calibrate(program, [given], zeros).notes()) == []


def two_signatures() -> Sequence[Signature]:
    graphs = [trace_graph(lambda x, k=k: ops.mul(x, np.float32(k)), [TensorType((BATCH,), DType.f32)]) for k in (2, 3)]
    return tuple(Signature(key, g, ("x",), ("y",)) for key, g in zip(("a", "b"), graphs, strict=True))


def test_each_signature_has_its_own_data() -> None:
    program = Program(tuple(two_signatures()))
    first, second = (Observed(g.eqns[0].outputs[0]) for g in program.graphs())
    x = RNG.standard_normal(6).astype(np.float32)
    statistics = calibrate(program, [first, second], {"a": x[:2], "b": [x[2:]]})
    assert_range(statistics, first, 2 * x[:2])
    assert_range(statistics, second, 3 * x[2:])
    statistics = calibrate(program, [first, second], [("b", {"x": x})])
    assert not statistics.seen(first)
    assert statistics.record(second).calls == 1


def test_statistics_stand_for_data(tmp_path: Path) -> None:
    program, again = programs.dense(), programs.dense()
    what, place = (result(p, "FULLY_CONNECTED") for p in (program, again))
    statistics = calibrate(program, [what], RNG.standard_normal((5, 8)).astype(np.float32))
    statistics.save(tmp_path / "statistics.npz")
    for data in (statistics, tmp_path / "statistics.npz"):
        assert calibrate(again, [place], data).range(place) == statistics.range(what)
