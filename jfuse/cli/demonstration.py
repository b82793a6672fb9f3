"""`jfuse demo`: the official converter's headline failure, converted and timed."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np

from jfuse.api.convert import convert
from jfuse.cli.clock import elapsed_s
from jfuse.cli.console import progress, show_rows
from jfuse.cli.tables import summary
from jfuse.frontends.example_model import export_example
from jfuse.passes.options import Pipeline
from jfuse.running.interpreter import LiteRt

_INVOKES = 200


def demo(folder: Path) -> None:
    """Save a Keras 3 LSTM classifier in `folder`, convert the SavedModel, write the file beside it, and time it."""
    saved_model, file = folder / "lstm_classifier", folder / "lstm_classifier.tflite"
    seconds: dict[str, float] = {}
    with progress() as on_stage:
        on_stage("keras")
        before = time.perf_counter()
        version = export_example(saved_model)
        seconds["keras"] = time.perf_counter() - before
        result = convert(saved_model, pipeline=Pipeline(on_stage=on_stage))
        result.save(file)
        on_stage("latency")
        before = time.perf_counter()
        latency_ms = _latency_ms(file)
        seconds["latency"] = time.perf_counter() - before
    seconds |= result.report.seconds
    rows = [("source", f"{saved_model}, of Keras {version}, saved with model.export")]
    rows += summary(result.report, file, elapsed_s(), seconds)
    rows.append(("latency", f"{latency_ms:.3f} ms for one invoke in LiteRT, one thread (median of {_INVOKES})"))
    show_rows(rows)


def _latency_ms(file: Path) -> float:
    interpreter = LiteRt(file.read_bytes())
    key = "serving_default"
    x = np.random.default_rng(0).standard_normal((1, 50, 16)).astype(np.float32)
    times = []
    for _ in range(_INVOKES):
        started = time.perf_counter()
        interpreter.run(key, {"sequence": x})
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)
