"""Measure the accuracy of a trained LSTM in int8 on XLA, in LiteRT and in tflite-micro, and the time that takes.

    python -m bench.trained [--samples 10000] [--json bench/results/trained.json]

The data are generated: six gestures as an accelerometer would see them, with noise, some of which nobody can tell
apart. The model is trained in this process, in less than a minute, and converted to int8 once for all three.
XLA rounds as LiteRT and as tflite-micro do, and its classes must be theirs, each.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jfuse
from jfuse.kernels.core.integer_types import Rounding
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.micro import MicroInterpreter, has_micro
from jfuse.running.over_samples import OverSamples, samples_at_once

STEPS, CHANNELS, CLASSES = 32, 3, 6
_IN_MICRO = 500  # samples: one call at a time, in reference kernels


def gestures(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Movements, f32[count, 32, 3], and which of six each is, i64[count]: turns of three speeds, to either side."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(CLASSES, size=count)
    speed, side = 0.2 + 0.11 * (classes % 3), np.where(classes < 3, 1.0, -1.0)
    phase = rng.uniform(0, 2 * np.pi, count)
    angle = phase[:, None] + (speed * rng.uniform(0.85, 1.15, count))[:, None] * np.arange(STEPS)
    moved = np.stack([np.cos(angle), side[:, None] * np.sin(angle), 0.3 * angle % 1.0], -1)
    noisy = moved * rng.uniform(0.5, 1.5, (count, 1, 1)) + 0.5 * rng.standard_normal(moved.shape)
    return noisy.astype(np.float32), classes


def trained(epochs: int = 8) -> Any:
    """An LSTM and a dense layer, trained on 6,000 movements; a Keras model of one movement a call."""
    import keras

    keras.utils.set_random_seed(0)
    layers = [keras.layers.LSTM(32), keras.layers.Dense(CLASSES)]
    model = keras.Sequential([keras.Input((STEPS, CHANNELS)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(4e-3), loss)
    model.fit(*gestures(6000, 0), batch_size=64, epochs=epochs, verbose=0)
    return keras.Sequential([keras.Input((STEPS, CHANNELS), batch_size=1), *layers])


def in_integers(model: Any) -> jfuse.Model:
    """The model in int8, calibrated with 200 movements of the training data."""
    samples = list(gestures(200, 0)[0][:, None])
    return jfuse.convert(model, quantize="int8", calibration=samples, target="tflite-micro", verify=False)


def classes_of(lite: jfuse.Model, samples: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    """Who tells the classes of f32[count, 32, 3]: functions, the first call of which compiles or starts something."""
    key, (given,) = lite.signature().key, lite.signature().input_names
    inputs = {given: samples[:, None]}
    most = samples_at_once(lite.signature().graph, jax.default_backend())

    def on_xla(rounding: Rounding) -> Callable[[], np.ndarray]:
        program = OverSamples.of(lite.rounded_as(rounding).jax(), most=most)
        return lambda: _classes(program([inputs[given]])[0])

    found = {"XLA as LiteRT": on_xla("xnnpack"), "XLA as tflite-micro": on_xla("tflm")}
    workers = LiteRtWorkers(lite.to_bytes())
    (output,) = lite.signature().output_names
    found["LiteRT"] = lambda: _classes(workers.run(inputs, key)[output])
    if has_micro():
        found["tflite-micro"] = lambda: _in_micro(lite.to_bytes(), given, samples[:_IN_MICRO])
    return found


def _classes(logits: np.ndarray) -> np.ndarray:
    """i64[samples] of f32[samples, 1, 6], or without the 1."""
    found: np.ndarray = np.asarray(logits).reshape(-1, CLASSES).argmax(-1)
    return found


def _in_micro(data: bytes, given: str, samples: np.ndarray) -> np.ndarray:
    interpreter = MicroInterpreter(data)
    try:
        answers = [next(iter(interpreter.run({given: x[None]}).values())) for x in samples]
    finally:
        interpreter.close()
    return _classes(np.concatenate(answers))


def measure(samples: int) -> dict[str, Any]:
    """Accuracies as shares of 1, samples per second, and whether all agree."""
    started = time.perf_counter()
    model = trained()
    training_s = time.perf_counter() - started
    x, wanted = gestures(samples, 1)
    floats = _floats(model, x)
    lite = in_integers(model)
    rows: dict[str, Any] = {"float": {"accuracy": _share(floats.argmax(-1), wanted)}}
    classes: dict[str, np.ndarray] = {}
    for name, run in classes_of(lite, x).items():
        classes[name] = run()
        started = time.perf_counter()
        run()
        seconds = time.perf_counter() - started
        count = len(classes[name])
        rows[name] = {"accuracy": _share(classes[name], wanted[:count]), "samples": count, "per_s": count / seconds}
    return {"training_s": training_s, "samples": samples, "rows": rows, "agree": _agree(classes)}


def _floats(model: Any, x: np.ndarray) -> np.ndarray:
    """The logits of many movements at once."""
    import keras

    wide = keras.Sequential([keras.Input((STEPS, CHANNELS)), *model.layers])
    return np.asarray(wide.predict(x, batch_size=256, verbose=0))


def _share(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.mean(found == wanted))


def _agree(classes: Mapping[str, np.ndarray]) -> dict[str, bool]:
    """Whether XLA's classes are those of each runtime."""
    pairs = {"LiteRT": "XLA as LiteRT", "tflite-micro": "XLA as tflite-micro"}
    return {
        runtime: bool(np.array_equal(classes[runtime], classes[xla][: len(classes[runtime])]))
        for runtime, xla in pairs.items()
        if runtime in classes
    }


def main() -> None:
    """Print the figures, and write them where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.samples)
    print(f"trained in {found['training_s']:.0f} s; {options.samples:,} movements that it has not seen")
    for name, row in found["rows"].items():
        speed = f"  {row['per_s']:10,.0f} samples/s of {row['samples']:,}" if "per_s" in row else ""
        print(f"{name:20s} accuracy {100 * row['accuracy']:6.2f}%{speed}")
    print("the same classes on XLA and in " + ", ".join(f"{name}: {same}" for name, same in found["agree"].items()))
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
