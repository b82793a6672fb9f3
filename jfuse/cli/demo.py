"""The demonstration: the official converter's headline failure, converted and timed."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jfuse.api import OnStage, convert
from jfuse.frontends.example_model import export_example
from jfuse.model import Model
from jfuse.running.interpreter import LiteRt

_INVOKES = 200


@dataclass(frozen=True)
class Demo:
    """What the demonstration made and measured."""

    saved_model: Path
    file: Path
    result: Model
    keras_version: str
    latency_ms: float
    invokes: int = _INVOKES


def run_demo(folder: Path, on_stage: OnStage) -> Demo:
    """Save a Keras 3 LSTM classifier in `folder`, convert the SavedModel, write the file beside it, and time it."""
    on_stage("keras")
    saved_model, file = folder / "lstm_classifier", folder / "lstm_classifier.tflite"
    version = export_example(saved_model)
    result = convert(saved_model, on_stage=on_stage)
    result.save(file)
    on_stage("latency")
    return Demo(saved_model, file, result, version, _latency_ms(file))


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
