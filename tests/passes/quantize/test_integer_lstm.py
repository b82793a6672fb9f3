"""LSTMs in integers, against Keras and written equations in float, call after call, in LiteRT and in tflite-micro."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Eqn, Program
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.lowering.spellings import recurrences
from jfuse.quantization.real_numbers.numbers import as_integers, as_real
from jfuse.running.ethos import placed
from jfuse.running.interpreter import LiteRt
from tests.kernels.fused.lstm_oracle import LSTM, written
from tests.models.keras_libraries import awake
from tests.passes.quantize.models import KEY, calibrated, program_of, snr_db
from tests.tflite.programs import f32

layers = keras.layers
CALLS = (0, 1, 0, 2, 0)  # seeds of the inputs of calls in a row

MODELS: dict[str, tuple[tuple[int, ...], Any]] = {
    "stacked": ((1, 12, 8), lambda: [layers.LSTM(16, return_sequences=True), layers.LSTM(12), layers.Dense(5)]),
    "backwards": ((1, 12, 8), lambda: [layers.LSTM(16, go_backwards=True)]),
    "three rows": ((3, 12, 8), lambda: [layers.LSTM(16, return_sequences=True)]),
    "one unit": ((1, 12, 8), lambda: [layers.LSTM(1)]),
    "gru": ((1, 6, 8), lambda: [layers.GRU(8)]),
    "simple rnn": ((1, 6, 8), lambda: [layers.SimpleRNN(8)]),
    "bidirectional": ((1, 6, 8), lambda: [layers.Bidirectional(layers.LSTM(8)), layers.Dense(3)]),
    "16 bits": ((1, 4, 8), lambda: [layers.LSTM(8, return_sequences=True), layers.Dense(3)]),
}
slow = [pytest.param(name, marks=pytest.mark.slow) for name in list(MODELS)[1:]]


def draw(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def in_integers(
    stack: list[Any],
    shape: tuple[int, ...],
    batch: int | None,
    recipe: Any = "int8",
    **options: Any,
) -> tuple[Any, Any]:
    """The Keras model, awake, and its file with the operator of integers."""
    model = awake(keras.Sequential([keras.Input(shape[1:], batch_size=batch), *stack]))
    data = [draw(100 + i, shape) for i in range(60)]
    options = {"prefer": "fused", **options}
    return model, jfuse.convert(model, verify=False, quantize=recipe, calibration=data, **options)


def lstm_of(program: Program) -> Eqn:
    return next(eqn for eqn in program.graphs()[0].eqns if eqn.op.cell)


@pytest.mark.parametrize("name", ["stacked", *slow])
def test_answers_on_a_microcontroller_and_in_litert(name: str) -> None:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    shape, make = MODELS[name]
    recipe = "int16x8" if name == "16 bits" else "int8"
    model, lite = in_integers(make(), shape, shape[0], recipe, loop="unroll")  # larger than in floats, but all integers
    assert not [q for q in lite.report.quantized if q.reason]
    micro = runtime.Interpreter.from_bytes(lite.to_bytes())
    litert, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    first: dict[int, Any] = {}
    wanted: list[np.ndarray] = []
    answers: list[Any] = []  # in LiteRT and in tflite-micro, of each call
    for seed in CALLS:
        x = draw(seed, shape)
        micro.set_input(x, 0)
        micro.invoke()
        (found,) = litert.run("serving_default", {given: x}).values()
        answers.append((found, micro.get_output(0)))
        wanted.append(np.asarray(model(x)))
        np.testing.assert_array_equal(first.setdefault(seed, answers[-1]), answers[-1])
    for of_one in zip(*answers, strict=True):  # all calls together: one answer may have three numbers
        assert snr_db(np.stack(of_one), np.stack(wanted)) > 28


@pytest.mark.slow
def test_sixteen_bits_stay_fused_for_the_kernel_that_takes_them() -> None:
    """tflite-micro's kernel has a bias of 64 bits, which LiteRT refuses: there it is step by step."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    shape, stack = (1, 12, 8), [layers.LSTM(16, return_sequences=True), layers.LSTM(12), layers.Dense(5)]
    model, lite = in_integers(stack, shape, 1, "int16x8", target="tflite-micro")
    lstms = [eqn for eqn in lite.program.graphs()[0].eqns if eqn.op.cell]
    assert len(lstms) == 2
    for eqn in lstms:
        types = [None if a is None else a.type.dtype.value for a in eqn.inputs]
        assert types == ["i16", *["i8"] * 8, *[None] * 3, *["i64"] * 4, None, None, "i16", "i16", *[None] * 4]
        assert {v.type.quantization.zero_point for v in (*eqn.outputs, eqn.inputs[0])} == {(0,)}
        assert np.log2(eqn.inputs[19].type.quantization.scale[0]) % 1 == 0
        assert len(eqn.intermediates) == 5
    micro = runtime.Interpreter.from_bytes(lite.to_bytes())
    first: dict[int, np.ndarray] = {}
    for seed in CALLS:
        x = draw(seed, shape)
        micro.set_input(x, 0)
        micro.invoke()
        assert snr_db(micro.get_output(0), np.asarray(model(x))) > 45
        np.testing.assert_array_equal(first.setdefault(seed, micro.get_output(0)), micro.get_output(0))
    _, in_litert = in_integers([layers.LSTM(16)], shape, 1, "int16x8")
    assert not any(eqn.op.cell for eqn in in_litert.program.graphs()[0].eqns)


LONG: dict[str, tuple[int | None, str, Any]] = {
    "16 bits": (1, "int16x8", lambda: [layers.LSTM(6), layers.Dense(3)]),
    "open batch": (None, "int16x8", lambda: [layers.LSTM(6, return_sequences=True), layers.LSTM(5)]),
    "two directions": (1, "int16x8", lambda: [layers.Bidirectional(layers.LSTM(5, return_sequences=True))]),
    "simple rnn": (1, "int8", lambda: [layers.SimpleRNN(6, activation="relu"), layers.Dense(3)]),
    "activation": (1, "int8", lambda: [layers.LSTM(6, activation="relu"), layers.Dense(3)]),
}


@pytest.mark.parametrize("name", ["16 bits", *(pytest.param(n, marks=pytest.mark.slow) for n in list(LONG)[1:])])
def test_long_recurrences_without_a_kernel_are_loops_of_integers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrences, "MOST_STEPS", 4)  # XLA compiles each of many steps
    batch, recipe, make = LONG[name]
    model, lite = in_integers(make(), (1, 12, 8), batch, recipe, loop="while")
    graph = lite.program.graphs()[0]
    assert not [q for q in lite.report.quantized if q.reason]
    assert not any(eqn.op.cell for eqn in graph.eqns)
    assert any(eqn.op is while_ for eqn in graph.eqns)
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    wanted, answers = [], []
    for seed in CALLS:
        x = draw(seed, (1, 12, 8))
        (found,) = runner.run("serving_default", {given: x}).values()
        np.testing.assert_array_equal(found, np.asarray(lite(x)))
        answers.append(found)
        wanted.append(np.asarray(model(x)))
    assert snr_db(np.stack(answers), np.stack(wanted)) > (40 if recipe == "int16x8" else 25)


def test_a_step_reads_no_weights_from_outside_of_the_loop() -> None:
    """Weights that are computed, as by DEQUANTIZE, stay with the fused operator."""

    def kinds(x: Any, recurrent: Any) -> Any:
        rest: dict[str, Any] = {"time_major": False, "fused_activation_function": "TANH"}
        weights, bias, state = np.ones((4, 8), np.float32), np.zeros(4, np.float32), np.zeros((1, 4), np.float32)
        of = partial(recurrences.steps_of_rnn, Eqn(ops.unidirectional_sequence_rnn, (), (), rest), in_loop=True)
        assert of(x, weights, recurrent, bias, state) is None
        return of(x, weights, np.ones((4, 4), np.float32), bias, state)

    assert [eqn.op.name for eqn in trace_graph(kinds, [f32(1, 9, 8), f32(4, 4)]).eqns if eqn.bodies] == ["scan"]


@pytest.mark.slow
def test_arms_compiler_places_sixteen_bits_on_the_npu() -> None:
    pytest.importorskip("ethosu")
    recipe = jfuse.Recipe.named("int16x8", inputs="int16", outputs="int16")
    _, lite = in_integers([layers.LSTM(16), layers.Dense(5)], (1, 12, 8), 1, recipe, target="ethos-u85")
    assert {target: placed(lite.to_bytes(), target).cpu for target in ("ethos-u55", "ethos-u85")} == {
        "ethos-u55": (),
        "ethos-u85": (),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "target"),
    [(lambda: layers.Bidirectional(layers.LSTM(6)), "ethos-u55"), (lambda: layers.GRU(6), "ethos-u85")],
    ids=["2", "gru"],
)
def test_arms_compiler_places_other_recurrences_on_the_npu(layer: Any, target: Any) -> None:
    pytest.importorskip("ethosu")
    recipe = jfuse.Recipe.named("int8", inputs="int8", outputs="int8")
    _, lite = in_integers([layer(), layers.Dense(3)], (1, 6, 8), 1, recipe, target=target)
    assert placed(lite.to_bytes(), target).cpu == ()
    assert {o.where for o in jfuse.check(lite, target).operators} == {"NPU or GPU"}


@pytest.mark.slow
def test_the_noise_of_a_file_that_litert_refuses_is_that_in_tflite_micro() -> None:
    pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    model = awake(keras.Sequential([keras.Input((6, 4), batch_size=1), layers.LSTM(8)]))
    data = [draw(100 + i, (1, 6, 4)) for i in range(20)]
    lite = jfuse.convert(model, quantize="int16x8", target="tflite-micro", calibration=data)
    assert [noise.where for noise in lite.report.noise] == ["tflite-micro"]
    assert lite.report.noise[0].snr_db > 45


def test_an_open_batch_and_the_form_that_all_kernels_take() -> None:
    model, lite = in_integers([layers.LSTM(16)], (1, 12, 8), None)
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for seed, batch in enumerate((1, 1, 3, 1, 40)):
        x = draw(seed, (batch, 12, 8))
        (found,) = runner.run("serving_default", {given: x}).values()
        assert snr_db(found, np.asarray(model(x))) > 28
    eqn = lstm_of(lite.program)
    types = [None if a is None else a.type for a in eqn.inputs]
    assert [None if t is None else t.dtype.value for t in types] == [
        *["i8"] * 9, *[None] * 3, *["i32"] * 4, None, None, "i8", "i16", *[None] * 4
    ]  # fmt: skip
    assert [v.type.dtype.value for v in eqn.intermediates] == ["f32"] * 4 + ["i8"]
    quantizations = [None if t is None else t.quantization for t in types]
    assert eqn.outputs[0].type.quantization == quantizations[18] == eqn.intermediates[4].type.quantization
    assert np.log2(quantizations[19].scale[0]) % 1 == 0  # type: ignore[union-attr]
    for gate in range(4):
        scales = [quantizations[i].scale[0] for i in (0, 1 + gate, 12 + gate)]  # type: ignore[union-attr]
        np.testing.assert_allclose(scales[0] * scales[1], scales[2], rtol=1e-6)
    names = [eqn.op.name for eqn in lite.program.graphs()[0].eqns]
    assert names[2:-3] == ["strided_slice", "sub", "quantize", "pad", "quantize", "pad"]


@pytest.mark.slow
def test_a_float_file_has_its_writers_in_integers(tmp_path: Path) -> None:
    """Its states are written by float operators, which a recipe for integers alone would refuse."""
    model, _ = in_integers([layers.LSTM(16), layers.Dense(3)], (1, 12, 8), None)
    file = jfuse.load(jfuse.convert(model, verify=False).save(tmp_path / "model.tflite"))
    recipe = jfuse.Recipe.named("micro", inputs="float32", outputs="float32")
    lite = jfuse.lower(file, quantize=recipe, calibration=[draw(100 + i, (1, 12, 8)) for i in range(60)])
    assert [eqn.op.name for eqn in lite.program.graphs()[0].eqns][2:-3] == [
        *["strided_slice", "sub", "quantize", "pad", "quantize", "pad", "unidirectional_sequence_lstm"]
    ]
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for seed, batch in enumerate((1, 3, 1)):
        x = draw(seed, (batch, 12, 8))
        (found,) = runner.run("serving_default", {given: x}).values()
        assert snr_db(found, np.asarray(model(x))) > 28


VARIANTS: dict[str, dict[str, Any]] = {
    "plain, from any state": {},
    "peepholes": {"peephole": True},
    "projection": {"width": 5, "projection_bias": True},
    "layer norm of coupled gates with peepholes": {"norm": True, "coupled": True, "peephole": True},
    "layer norm and projection": {"norm": True, "width": 5},
    "clip": {"cell_clip": 0.7, "time_major": True},
}
STEP_BY_STEP: dict[str, dict[str, Any]] = {
    "another activation": {"activation": "RELU"},
    "peepholes of a projection": {"peephole": True, "width": 4},
    "a clipped projection": {"width": 5, "proj_clip": 0.3},
    "a diagonal recurrence": {"diagonal": True},
}
FLOAT: dict[str, dict[str, Any]] = {"no activation but tanh": {"activation": "RELU", "norm": True}}
ALL = {**VARIANTS, **STEP_BY_STEP, **FLOAT}
some = [pytest.param(name, marks=pytest.mark.slow if name != "clip" else ()) for i, name in enumerate(ALL)]


@pytest.mark.parametrize("name", some)
def test_variants_of_the_lstm(name: str) -> None:
    """States that are given and read. What the kernel computes otherwise is spelled step by step, or stays float."""
    lstm = LSTM(batch=2, steps=6, **ALL[name])
    calls = [dict(zip(("x0", "x1", "x2"), lstm.inputs_and_state(seed), strict=True)) for seed in range(30)]
    program = program_of(
        lambda *a: ops.unidirectional_sequence_lstm(*lstm.in_file_order(*a), **lstm.options),
        *(f32(*a.shape) for a in calls[0].values()),
    )
    lite = calibrated(program, jfuse.Recipe.named("int8"), calls)
    runner = LiteRt(lite.to_bytes())
    least = 100 if name in FLOAT else 26 if name in VARIANTS else 18  # 18: values of a step by itself have eight bits
    for call in calls[:3]:
        found, wanted = runner.run(KEY, call), written(lstm, *call.values())
        assert min(snr_db(found[f"y{i}"], wanted[i]) for i in range(3)) > least
    assert any(eqn.op.cell for eqn in lite.program.graphs()[0].eqns) == (name not in STEP_BY_STEP)
    reasons = {q.op: q.reason for q in lite.report.quantized if q.reason}
    assert (name in reasons.pop("unidirectional_sequence_lstm", "")) == (name in FLOAT)
    assert reasons.keys() <= {"mul", "pack"}  # factors of an input's channels, and parts joined at an output


@pytest.mark.slow
@pytest.mark.parametrize("of", [{}, {"width": 5}, {"norm": True}], ids=["plain", "projection", "norm"])
def test_a_single_step(of: dict[str, Any]) -> None:
    lstm = LSTM(batch=2, steps=1, **of)
    calls = []
    for seed in range(30):
        x, h, c = lstm.inputs_and_state(seed)
        calls.append({"x0": x[:, 0], "x1": h, "x2": c})
    program = program_of(lambda *a: ops.lstm(*lstm.in_file_order(*a)), *(f32(*a.shape) for a in calls[0].values()))
    lite = calibrated(program, jfuse.Recipe.named("int8"), calls)
    runner = LiteRt(lite.to_bytes())
    for call in calls[:3]:
        found, (y, h, c) = runner.run(KEY, call), written(lstm, call["x0"][:, None], call["x1"], call["x2"])
        for name, wanted in (("y0", y[:, 0]), ("y1", h), ("y2", c)):
            assert snr_db(found[name], wanted) > 26


def test_gates_that_would_wrap_around_stay_float() -> None:
    """Where a total may be 2^19, the kernel's 32 bits do not hold its steps: it answered numbers without meaning."""
    model = awake(keras.Sequential([keras.Input((12, 8), batch_size=1), layers.LSTM(16)]))
    data = [draw(100 + i, (1, 12, 8)) * np.float32(1e6) for i in range(20)]
    lite = jfuse.convert(model, verify=False, quantize="int8", calibration=data, forms=jfuse.Forms(prefer="fused"))
    assert ["wrap around" in q.reason for q in lite.report.quantized if q.reason] == [True]
    with pytest.raises(jfuse.JfuseError, match="smaller inputs, such as normalized ones"):
        jfuse.convert(model, verify=False, quantize="micro", calibration=data)
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    (found,) = runner.run("serving_default", {given: data[0]}).values()
    assert snr_db(found, np.asarray(model(data[0]))) > 100


@pytest.mark.parametrize("state", ["source", pytest.param("keep", marks=pytest.mark.slow)])
def test_states_go_on_in_integers(state: Any) -> None:
    """In the operator's own tensors; in pieces of a stream the answers are those of the whole sequence."""
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    layer = layers.LSTM(16, stateful=state == "source", return_sequences=True)
    source = awake(keras.Sequential([keras.Input(batch_shape=(1, 4, 8)), layer]))
    pieces = [[draw(10 * i + n, (1, 4, 8)) for n in range(5)] for i in range(20)]
    sequences = [[[piece] for piece in sequence] for sequence in pieces]
    lite = jfuse.convert(
        source, verify=False, quantize="int8", calibration=sequences, state=state, forms=jfuse.Forms(prefer="fused")
    )
    assert [str(k).split("[")[0].split()[-1] for k in lite.report.kept] == ["i8", "i16"]
    assert ["state tensor" in k.where for k in lite.report.kept] == [True, True]
    assert [eqn.op.name for eqn in lite.program.graphs()[0].eqns][0::2] == ["quantize", "dequantize"]
    whole = keras.Sequential([keras.Input((20, 8)), layers.LSTM(16, return_sequences=True)])
    whole.set_weights(source.get_weights()[:3])
    wanted = np.split(np.asarray(whole(np.concatenate(pieces[0], 1))), 5, axis=1)
    micro = runtime.Interpreter.from_bytes(lite.to_bytes())
    litert, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for piece, answer in zip(pieces[0], wanted, strict=True):
        micro.set_input(piece, 0)
        micro.invoke()
        (found,) = litert.run("serving_default", {given: piece}).values()
        assert snr_db(found, answer) > 28
        assert snr_db(micro.get_output(0), answer) > 28


@pytest.mark.parametrize("layer", [layers.GRU, pytest.param(layers.LSTM, marks=pytest.mark.slow)])
def test_states_that_the_caller_holds_are_integers_too(layer: Any) -> None:
    """What one call gives is what the next one takes; calibration lets them go on, too, where its data have none."""
    source = awake(keras.Sequential([keras.Input(batch_shape=(1, 2, 8)), layer(8, return_sequences=True)]))
    pieces = [[draw(10 * i + n, (1, 2, 8)) for n in range(5)] for i in range(20)]
    sequences = [[[piece] for piece in sequence] for sequence in pieces]
    lite = jfuse.convert(source, verify=False, quantize="micro", calibration=sequences, state="io")
    (signature,) = lite.program.signatures
    (given, *taken), (_, *after) = signature.graph.inputs, signature.graph.outputs
    assert [v.type for v in taken] == [a.type for a in after]
    assert [s.initial.type.dtype.value for s in signature.exposed] == ["i8", "i8"][: len(taken)]
    whole = keras.Sequential([keras.Input((10, 8)), layer(8, return_sequences=True)])
    whole.set_weights(source.get_weights())
    wanted = np.asarray(whole(np.concatenate(pieces[0], 1)))
    runner, names = LiteRt(lite.to_bytes()), signature.input_names
    states = {
        s.name: np.broadcast_to(s.initial.array, v.type.shape) for s, v in zip(signature.exposed, taken, strict=True)
    }
    answers = []
    for piece in pieces[0]:
        found = runner.run("serving_default", {names[0]: as_integers(piece, given.type), **states})
        states = {name: found[name] for name in states}
        answers.append(as_real(found[signature.output_names[0]], signature.graph.outputs[0].type.quantization))
    assert snr_db(np.concatenate(answers, 1), wanted) > 25  # all between the steps of a GRU has eight bits as well


def test_states_of_an_operator_that_is_spelled_in_others_become_variables() -> None:
    """LiteRT has no LSTM in 16 bits: what a lowered model keeps in the state tensors of one moves out of them."""
    layer = layers.LSTM(16, stateful=True, return_sequences=True)
    source = awake(keras.Sequential([keras.Input(batch_shape=(1, 4, 8)), layer]))
    pieces = [draw(n, (1, 4, 8)) for n in range(30)]
    lite = jfuse.quantize(
        jfuse.convert(source, verify=False), "int16x8", pieces, verify=False, forms=jfuse.Forms(loop="unroll")
    )
    assert ["variable" in k.where for k in lite.report.kept] == [True, True]
    litert, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for piece in pieces[:5]:
        (found,) = litert.run("serving_default", {given: piece}).values()
        assert snr_db(found, np.asarray(source(piece))) > 40  # as a layer without a state has it


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Statistics for quantized inputs")
def test_the_first_answer_is_as_near_as_the_official_files() -> None:
    """Keras 2, as the official converter ends the process for Keras 3; its file is right on the first call only."""
    import tensorflow as tf
    import tf_keras

    stack = [tf_keras.Input(batch_shape=(1, 12, 8)), tf_keras.layers.LSTM(16), tf_keras.layers.Dense(5)]
    model = awake(tf_keras.Sequential(stack))
    data = [draw(100 + i, (1, 12, 8)) for i in range(60)]
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.representative_dataset = lambda: ([x] for x in data)
    official = converter.convert()
    lite = jfuse.convert(model, verify=False, quantize="int8", calibration=data)
    ours: list[float] = []
    theirs: list[float] = []
    for seed in range(20):
        x = draw(seed, (1, 12, 8))
        wanted = np.asarray(model(x))
        for file, found in ((lite.to_bytes(), ours), (official, theirs)):
            runner = LiteRt(file)  # a new one, as the official file goes on from the call before
            ((key, (names, _)),) = runner.signatures().items()
            (answer,) = runner.run(key, {names[0]: x}).values()
            found.append(snr_db(answer, wanted))
    assert np.mean(ours) > np.mean(theirs) - 0.5
