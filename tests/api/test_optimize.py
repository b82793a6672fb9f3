"""`jfuse.optimize`: files of other tools become smaller and answer as before, or stay as they are."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from keras import layers
from typer.testing import CliRunner

import jfuse
from jfuse.api.optimize import operators_in
from jfuse.base.errors import JfuseError
from jfuse.cli import app as cli
from jfuse.kernels import ops
from jfuse.tflite.write.file import to_bytes
from tests.api.files import UNITS, litert_torch, official, official_integers, projected_first
from tests.slow import slow_but
from tests.tflite.programs import f32, program

ANY_TIME = 1000.0  # tests never time: what is fastest is another machine's matter

FUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "unrolled RNN, product first": (lambda: projected_first("rnn"), "unidirectional_sequence_rnn"),
    "unrolled LSTM, product first": (lambda: projected_first("lstm"), "unidirectional_sequence_lstm"),
    "unrolled LSTM, backwards": (lambda: projected_first("lstm", backwards=True), "unidirectional_sequence_lstm"),
    "LSTM of litert-torch": (lambda: litert_torch("lstm"), "unidirectional_sequence_lstm"),
    "biLSTM of litert-torch": (lambda: litert_torch("bilstm"), "bidirectional_sequence_lstm"),
    "RNN of litert-torch": (lambda: litert_torch("rnn"), "unidirectional_sequence_rnn"),
    "LSTM, loop": (lambda: official(layers.LSTM(UNITS)), "unidirectional_sequence_lstm"),
    "LSTM, loop, sequences": (
        lambda: official(layers.LSTM(UNITS, return_sequences=True)),
        "unidirectional_sequence_lstm",
    ),
    "biLSTM, loops": (
        lambda: official(layers.Bidirectional(layers.LSTM(UNITS, return_sequences=True))),
        "bidirectional_sequence_lstm",
    ),
    "LSTM, unrolled": (lambda: official(layers.LSTM(UNITS, unroll=True)), "unidirectional_sequence_lstm"),
    "RNN, unrolled": (lambda: official(layers.SimpleRNN(UNITS, unroll=True)), "unidirectional_sequence_rnn"),
    "LSTM, stateful": (lambda: official(layers.LSTM(UNITS, stateful=True)), "unidirectional_sequence_lstm"),
}
WHOLE = ("LSTM of litert-torch", "biLSTM of litert-torch", "RNN of litert-torch")
AROUND = ("fully_connected", "strided_slice", "zeros_like", "pad", "reshape", "concatenation", "reverse_v2")
OTHERS = {
    "GRU, loop": lambda: official(layers.GRU(UNITS)),
    "GRU, unrolled": lambda: official(layers.GRU(UNITS, unroll=True)),
    "GRU, product first": lambda: projected_first("gru"),
    "GRU, stateful": lambda: official(layers.GRU(UNITS, stateful=True)),
    "GRU of litert-torch": lambda: litert_torch("gru"),
    "CNN": lambda: official(layers.Conv1D(UNITS, 3)),
}


def answers(data: bytes, calls: int = 5) -> list[np.ndarray]:
    """What LiteRT says on several calls in a row."""
    interpreter = Interpreter(model_content=data)
    runner = interpreter.get_signature_runner()
    (name,) = runner.get_input_details()
    shape = runner.get_input_details()[name]["shape"]
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(shape).astype(np.float32) for _ in range(calls)]
    return [np.concatenate([v.reshape(-1) for v in runner(**{name: x}).values()]) for x in inputs]


def need_no_more(before: bytes, after: bytes) -> None:
    assert len(after) <= len(before)
    assert operators_in(after) <= operators_in(before)
    for one, other in zip(answers(before), answers(after), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5)


def interface(data: bytes) -> list[object]:
    """Signatures, metadata and the names of inputs and outputs."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    graph = model.subgraphs[0]
    names = [graph.tensors[i].name for i in (*graph.inputs, *graph.outputs)]
    signatures = [(s.signatureKey, [t.name for t in (*s.inputs, *s.outputs)]) for s in model.signatureDefs]
    return [names, signatures, [m.name for m in model.metadata]]


@pytest.mark.parametrize("name", slow_but(lambda name: name.startswith(("unrolled RNN", "LSTM of")), FUSED))
def test_a_recurrence_of_another_tool_is_fused(name: str, tmp_path: Path) -> None:
    make, operator = FUSED[name]
    path = tmp_path / "in.tflite"
    path.write_bytes(make())
    result = jfuse.optimize(path, slower=ANY_TIME)
    assert operator in result.report.operators
    assert "while" not in result.report.operators
    assert result.report.differences, "it was compared with the file"
    if (
        name in WHOLE
    ):  # the product of all inputs and the first step, whose zeros were folded, are in the operator again
        assert result.report.operators.keys() <= {operator, *AROUND}
        assert result.report.operators["fully_connected"] == 1  # of the linear layer behind it
    need_no_more(path.read_bytes(), result.to_bytes())
    assert interface(result.to_bytes()) == interface(path.read_bytes())


@pytest.mark.slow
# Of those that fuse one: the test above has all of them, and needs no more of their files either.
@pytest.mark.parametrize("name", [*OTHERS, next(iter(FUSED))])
def test_never_more(name: str, tmp_path: Path) -> None:
    path = tmp_path / "in.tflite"
    path.write_bytes((OTHERS.get(name) or FUSED[name][0])())
    result = jfuse.optimize(path)
    need_no_more(path.read_bytes(), result.to_bytes())
    assert interface(result.to_bytes()) == interface(path.read_bytes())
    kept = result.to_bytes() == path.read_bytes()
    assert any("kept as it is" in note for note in result.report.notes) is kept


def test_a_kept_file_tells_which_targets_refuse_it(tmp_path: Path) -> None:
    path = tmp_path / "in.tflite"
    path.write_bytes(to_bytes(program(lambda x: ops.reduce_prod(x, np.array([1], np.int32)), f32(2, 3))))
    result = jfuse.optimize(path, target=("litert", "tflite-micro"))
    assert result.to_bytes() == path.read_bytes()
    (told,) = (note for note in result.report.notes if "does not take the file" in note)
    assert told.startswith("tflite-micro does not take the file: REDUCE_PROD: tflite-micro has no REDUCE_PROD")


def test_integers_stay_as_they_are(tmp_path: Path) -> None:
    path, out = tmp_path / "in.tflite", tmp_path / "out.tflite"
    path.write_bytes(official_integers())
    done = CliRunner().invoke(cli.app, ["optimize", str(path), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert "the file is kept as it is: a program that is quantized" in done.output
    assert out.read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_associated_files_stay(tmp_path: Path) -> None:
    path = tmp_path / "in.tflite"
    path.write_bytes(official(layers.LSTM(UNITS)))
    with zipfile.ZipFile(path, "a") as carried:
        carried.writestr("labels.txt", "yes\nno\n")
    result = jfuse.optimize(path, slower=ANY_TIME)
    assert "while" not in result.report.operators
    assert zipfile.ZipFile(io.BytesIO(result.to_bytes())).read("labels.txt") == b"yes\nno\n"
    need_no_more(path.read_bytes(), result.to_bytes())


def test_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(JfuseError, match=r"only \.tflite files are optimized"):
        jfuse.optimize(tmp_path / "model.keras")
    done = CliRunner().invoke(cli.app, ["optimize", "model.keras", "-o", str(tmp_path / "out.tflite")])
    assert done.exit_code == 2


def test_files_of_halves_stay_halves(tmp_path: Path) -> None:
    """In floats they would be twice as large, which hid every better form."""
    model = keras.Sequential([keras.Input((6, 8), batch_size=1), layers.LSTM(32), layers.Dense(3)])
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = [tf.float16]
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    converter._experimental_lower_tensor_list_ops = True
    path = tmp_path / "halves.tflite"
    path.write_bytes(converter.convert())
    better = jfuse.optimize(path, slower=ANY_TIME, verify=False)
    assert better.size_bytes <= path.stat().st_size
    assert not any("kept as it is" in note for note in better.report.notes), better.report.notes
    assert "dequantize" in better.report.operators
