"""Files for CompiledModel: it loads them, and answers like TensorFlow in call after call, as Interpreter does."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from bench.compiled_model import MODES, answers_of_calls, for_compiled_model
from bench.quantize import snr_db
from bench.quantize_recurrent import MODELS, Case
from jfuse.running.file_process import CompiledModelProcess
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.targets.compiled_model import why_not_loaded
from tests.end_to_end.invokes import TOLERANCE, check_invokes
from tests.models import sources
from tests.models.keras_libraries import awake
from tests.models.recurrences.recurrent import first_of_each_kind
from tests.models.recurrences.recurrent_rows import Row
from tests.slow import slow_but

QUICK = ("keras-lstm", "keras-gru")
ROWS = first_of_each_kind()
FAMILIES = list(zip(MODELS, cycle(MODES), strict=False))
QUICK_FAMILY = ("gru_t10_u8", "float")
LEAST_DB = {"float": 120, "float16": 55, "int16x8": 33, "int8_weights": 33, "dynamic": 20, "int8": 20}
"""Signal to noise of answers, against TensorFlow in floats; the least of all families is 21.7 (crnn in `dynamic`),
37 for keyword_lstm in `int16x8`. This is the noise of the recipes: integers equal those in Interpreter in every bit."""


@pytest.mark.parametrize("row", slow_but(lambda row: row.name in QUICK, ROWS), ids=str)
def test_each_kind_of_recurrence(row: Row, tmp_path: Path) -> None:
    source = row.build(tmp_path)
    lite = jfuse.convert(source, verify=False, **row.options, target="compiled-model")
    assert why_not_loaded(lite.program) == []
    check_invokes(lite, row.draw, row.tolerance or TOLERANCE, reset=row.options.get("state") == "reset", compiled=True)


@pytest.mark.parametrize(("name", "mode"), slow_but(lambda of: of == QUICK_FAMILY, FAMILIES))
def test_each_family_in_a_mode(name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Five calls, with growing and shrinking batches; `python -m bench.compiled_model --modes all` runs all modes."""
    monkeypatch.setattr(sources, "saved", sources.saved_call)
    case = Case.of(MODELS[name], tmp_path, batch=None)
    lite = for_compiled_model(case, MODES[mode])
    assert why_not_loaded(lite.program) == []
    found = answers_of_calls(case, lite)
    assert snr_db(found, case.wanted[: len(found)]) > LEAST_DB[mode]


def lstm(*, units: int = 5, **options: Any) -> Any:
    return awake(keras.Sequential([keras.Input((4, 3), 2), keras.layers.LSTM(units, **options)]))


@pytest.mark.parametrize("recipe", ["int8", pytest.param("int16x8", marks=pytest.mark.slow)])
def test_integers_are_not_refused(recipe: Any) -> None:
    lite = jfuse.convert(lstm(), target="compiled-model", quantize=recipe, calibration="random", verify=False)
    assert not any("lstm" in q.op for q in lite.report.quantized)
    assert not [q for q in lite.report.quantized if q.form == "float"]
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    with CompiledModelProcess(lite.to_bytes(), lite.program) as process:
        (found,) = process.run({lite.program.signatures[0].input_names[0]: x}).values()
    (wanted,) = LiteRt(lite.to_bytes()).run("serving_default", {lite.program.signatures[0].input_names[0]: x}).values()
    np.testing.assert_array_equal(found, wanted)


def test_an_lstm_in_8_bits_is_as_near_as_for_interpreter() -> None:
    """Its steps are floats between products with int8 weights: in integers it loses 12 dB."""
    model = lstm(units=24)
    samples = np.random.default_rng(0).standard_normal((32, 2, 4, 3)).astype(np.float32)
    wanted = np.concatenate([np.asarray(model(x)) for x in samples])

    def noise(target: Any) -> float:
        lite = jfuse.convert(model, target=target, quantize="int8", calibration=samples, verify=False)
        (signature,), file = lite.program.signatures, LiteRt(lite.to_bytes())
        found = [file.run(signature.key, {signature.input_names[0]: x}) for x in samples]
        return float(np.square(np.concatenate([next(iter(y.values())) for y in found]) - wanted).mean())

    assert noise("compiled-model") < 1.3 * noise("litert")
    whole = jfuse.Recipe.named("int8", int8_only=True, inputs="int8", outputs="int8")
    integers = jfuse.convert(model, target="compiled-model", quantize=whole, calibration=samples, verify=False)
    assert {q.form for q in integers.report.quantized} == {"i8 activations"}


def test_a_file_for_interpreter_alone_says_so_and_can_be_mended(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    lite = jfuse.convert(lstm(), verify=False)
    lite.save(path)
    assert "Interpreter alone" in lite.report.interpreter_only
    assert 'target="compiled-model"' in str(lite.report)
    assert "compiled-model" not in jfuse.check(path).takes_it
    with pytest.raises(jfuse.VerifyFailed, match="CompiledModel does not run the file"):
        jfuse.verify(path, options=jfuse.Verify(runtimes=["compiled-model"]))
    mended = jfuse.convert(path, target="compiled-model")
    assert mended.report.interpreter_only == ""
    assert {"litert", "compiled-model"} <= set(jfuse.check(mended).takes_it)


@pytest.mark.slow
@pytest.mark.parametrize("state", ["keep", "io"])
def test_states_go_on(state: Any) -> None:
    model = lstm(return_sequences=True)
    lite = jfuse.convert(model, target="compiled-model", state=state, verify=False)
    (signature,) = lite.program.signatures
    x = np.random.default_rng(0).standard_normal((2, 12, 3)).astype(np.float32)
    states = {s.name: s.initial.array for s in signature.exposed}
    found: list[np.ndarray] = []
    with CompiledModelProcess(lite.to_bytes(), lite.program) as process:
        for piece in np.split(x, 3, axis=1):
            results = process.run({signature.input_names[0]: piece, **states})
            states = {name: results.pop(name) for name in states}
            found += results.values()
    np.testing.assert_allclose(np.concatenate(found, 1), model(x), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: tf.where(x > 0), "no results whose size data decide"),
        (lambda x: (x + 1, tf.constant([1.0])), "no results that are known before a call"),
    ],
)
def test_what_it_refuses_of_results_is_one_error(function: Any, reason: str) -> None:
    source = tf.function(function, input_signature=[tf.TensorSpec((3,), tf.float32)])
    with pytest.raises(jfuse.LowerError, match=reason):
        jfuse.convert(source, target="compiled-model", verify=False)
