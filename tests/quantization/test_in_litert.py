"""Values that LiteRT computes for a calibration, against what Keras and NumPy compute, and against XLA."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Const, Program, Signature, State
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.quantization import calibrate as calibration
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.histogram import BINS, bin_of, counted
from jfuse.quantization.in_litert import LiteRtLooks, is_sooner
from jfuse.quantization.instrument import ObservedSlot
from jfuse.quantization.moments import Moments
from jfuse.quantization.statistics import Observed
from jfuse.quantization.tallies import Spread
from jfuse.running.litert_worker import tallies
from jfuse.running.litert_worker.tallies import Histogram, Tallies, TallyRequest
from jfuse.running.litert_workers import LiteRtWorkers
from tests.models.keras_libraries import awake
from tests.quantization.programs import every_value, result
from tests.tflite import programs
from tests.tflite.programs import BATCH, KEY, f32

layers = keras.layers
RNG = np.random.default_rng(6)


@pytest.fixture
def by_litert(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Whatever it costs; holds what LiteRT gave, None where it gave nothing."""
    gave: list[Any] = []
    run = LiteRtLooks.run

    def told(self: LiteRtLooks, arrays: Any) -> Any:
        gave.append(run(self, arrays))
        return gave[-1]

    monkeypatch.setattr(LiteRtLooks, "run", told)
    monkeypatch.setattr(calibration, "is_sooner", lambda *_: True)
    return gave


def test_a_network_and_the_rows_of_a_product(by_litert: list[Any]) -> None:
    """Extremes, histograms and sums of an image's convolution and of what a dense layer reads."""
    outputs = [x := keras.Input((9, 6, 1)), x := layers.Conv2D(3, 3, activation="relu")(x)]
    outputs += [x := layers.Reshape((7, 12))(x), layers.Dense(5)(x)]
    model = awake(keras.Model(outputs[0], outputs[1:]))
    program = jfuse.convert(keras.Model(model.input, outputs[-1]), verify=False).program
    x = RNG.standard_normal((37, 9, 6, 1)).astype(np.float32)
    conv, read, dense = map(np.asarray, model(x))
    what, product = result(program, "CONV_2D"), result(program, "FULLY_CONNECTED")
    means = Observed(product.var, "means")
    moments = {means: Moments(0, 12, squares=False)}
    statistics = calibrate(program, every_value(program), x, histograms=[what], moments=moments)
    assert by_litert
    assert all(of is not None for of in by_litert)
    for of, wanted in ((what, conv), (product, dense)):
        np.testing.assert_allclose(statistics.range(of), (wanted.min(), wanted.max()), rtol=1e-5)
        assert statistics.record(of).calls == 37
    counts = statistics.record(what).counts
    assert counts is not None
    np.testing.assert_allclose(counts, counted(conv), atol=3)  # sums in another order cross into the next bin
    assert counts.sum() == conv.size
    found = statistics.record(means).moments
    assert found is not None
    np.testing.assert_allclose(found, [[*read.reshape(-1, 12).sum(0), 37 * 7]], rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 6, 8, 2**11])
def test_rows_are_added_up_call_by_call(rows: int) -> None:
    """However many of them NumPy adds up as one."""
    calls = RNG.standard_normal((3, rows, 5)).astype(np.float32)
    kept = Tallies(TallyRequest((0,), (), ((0, 5),)))
    for call in calls:
        kept.add([partial(np.asarray, call)])
    (found,) = kept.seen().sums
    # 1e-3: f32 sums of up to 2,048 numbers about 1
    np.testing.assert_allclose(found, calls.sum((0, 1), dtype=np.float64), atol=1e-3)


def test_processes_end_with_the_calibration(by_litert: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold the model, and nobody needs them afterwards."""
    started: list[LiteRtWorkers] = []
    look = LiteRtWorkers.look

    def noted(self: LiteRtWorkers, *arguments: Any) -> Any:
        started.append(self)
        return look(self, *arguments)

    monkeypatch.setattr(LiteRtWorkers, "look", noted)
    program = logarithm()
    calibrate(program, every_value(program), RNG.uniform(1, 2, (4, 3)).astype(np.float32))
    assert started
    assert not any(workers._workers for workers in started)


def logarithm() -> Program:
    return programs.program(lambda x: ops.mul(ops.log(x), np.float32(2)), f32(BATCH, 3))


def test_infinities_are_left_out_and_told(by_litert: list[Any]) -> None:
    program = logarithm()
    what = result(program, "LOG")
    x = np.array([[1, 2, 3], [4, 0, -1], [0, 0, 0], [2, 2, 8]], np.float32)
    statistics = calibrate(program, [what], x, histograms=[what])
    assert by_litert
    assert all(of is not None for of in by_litert)
    wanted = np.log(x[x > 0])
    np.testing.assert_allclose(statistics.range(what), (wanted.min(), wanted.max()), rtol=1e-6)
    record = statistics.record(what)
    assert (record.calls, record.not_finite) == (3, 2)
    np.testing.assert_array_equal(record.counts, counted(wanted.astype(np.float32)))


def test_rows_that_are_not_finite_are_left_to_xla(by_litert: list[Any]) -> None:
    """Which rows of a product are to be left out, a sum over samples does not tell."""
    program = programs.program(lambda x: ops.mul(ops.fully_connected(ops.log(x), *WEIGHTS), np.float32(2)), f32(2, 3))
    what = Observed(result(program, "FULLY_CONNECTED").var, "means")
    x = np.array([[[1, 2, 3], [4, 0, 1]], [[3, 3, 3], [1, 2, 1]]], np.float32)
    moments = {what: Moments(0, 3, squares=False)}
    statistics = calibrate(program, [], list(x), moments=moments)
    assert by_litert == [None]
    wanted = np.log(x.reshape(-1, 3)[[0, 2, 3]]).sum(0)
    found = statistics.record(what).moments
    assert found is not None
    np.testing.assert_allclose(found, [[*wanted, 3]], rtol=1e-5)


WEIGHTS = np.eye(3, dtype=np.float32), np.zeros(3, np.float32)


def slots_of(program: Program, *parts: str) -> list[ObservedSlot]:
    whole = [ObservedSlot(Observed(eqn.outputs[0]), Spread(False)) for eqn in program.graphs()[0].eqns]
    return [*whole, *(ObservedSlot(Observed(whole[-1].what.var, part), Spread(False)) for part in parts)]


def adding_up() -> Program:
    graph = trace_graph(lambda x, s: (total := ops.add(x, s), total), [f32(1, 2), f32(1, 2)])
    return Program((Signature(KEY, graph, ("x",), ("y",), (State("s", Const(np.ones((1, 2), np.float32))),)),))


LEFT_OUT: dict[str, tuple[Callable[[], Program], tuple[str, ...]]] = {
    "states": (adding_up, ()),
    "loops": (programs.loop, ()),
    "parts": (programs.dense, ("cell",)),
    "sizes by data": (lambda: programs.program(lambda x: ops.where(ops.greater(x, np.float32(0))), f32(4)), ()),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_to_xla(name: str) -> None:
    program, parts = LEFT_OUT[name][0](), LEFT_OUT[name][1]
    assert LiteRtLooks.of(program.signatures[0], slots_of(program, *parts), {"B": 1}) is None


def test_it_is_taken_for_many_operators_or_many_numbers() -> None:
    def chain(x: Any, steps: int) -> Any:
        for _ in range(steps):
            x = ops.tanh(x)
        return x

    few, many = (trace_graph(lambda x, n=n: chain(x, n), [f32(16)]) for n in (3, 100))
    large = trace_graph(lambda x: chain(x, 3), [f32(2**18)])
    assert not is_sooner(few, 1000, {})
    assert is_sooner(many, 1000, {})
    assert not is_sooner(large, 8, {})
    assert is_sooner(large, 1000, {})


def test_what_litert_refuses_is_left_to_xla(by_litert: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiteRtWorkers, "look", _refused)
    program = logarithm()
    statistics = calibrate(program, [result(program, "LOG")], np.ones((3, 3), np.float32))
    assert by_litert == [None]
    assert statistics.range(result(program, "LOG")) == (0.0, 0.0)


def _refused(*_: Any) -> Any:
    raise jfuse.JfuseError("LiteRT does not run this")


def test_a_histogram_adds_up_numbers_of_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "_MOST", 2**17)  # beyond which bins are made in between
    parts = [np.zeros(0), *(RNG.standard_normal(n) * 10.0 ** RNG.integers(-12, 12, n) for n in (7, 70_000, 90_000))]
    histogram, places = Histogram(), np.zeros(0, int)
    for part in (p.astype(np.float32) for p in parts):
        histogram.add(part)
        places = np.append(places, bin_of(part))
        np.testing.assert_array_equal(histogram.counts(), np.bincount(places, minlength=BINS))
