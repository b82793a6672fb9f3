"""Samples per second of int8 files: integer bodies on XLA against LiteRT with one process per core, in one run.

    python -m bench.integers [-k SUBSTRING ...] [--samples 4096] [--rounds 3]

Answers must be equal in every bit. The two take turns; each figure is the best round's, on whatever load there is.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jfuse
from bench.quantize_models import cnn, drawn, fixed, keywords, mlp
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.over_samples import OverSamples, samples_at_once


def lstm() -> Any:
    """An LSTM over features of sound."""
    from keras import Input, Sequential, layers

    return Sequential([Input((49, 40)), layers.LSTM(64), layers.Dense(12, activation="softmax")])


MODELS: dict[str, Callable[[], Any]] = {"mlp": mlp, "cnn": cnn, "keywords": keywords, "lstm": lstm}


def measure(name: str, count: int, rounds: int) -> str:
    """A line of the table."""
    model = fixed(MODELS[name]())
    calibration = list(drawn(model.inputs[0], 32, 0)[:, None])
    with tempfile.TemporaryDirectory() as folder:
        path = jfuse.convert(model, verify=False, quantize="int8", calibration=calibration).save(
            Path(folder) / "m.tflite"
        )
        loaded, data = jfuse.load(path), path.read_bytes()
    signature = loaded.signature()
    most = samples_at_once(signature.graph, jax.default_backend())
    program, workers = OverSamples.of(loaded.jax(), most=most), LiteRtWorkers(data)
    samples = drawn(model.inputs[0], count, 1)[:, None]
    runs: dict[str, Callable[[], np.ndarray]] = {
        "xla": lambda: program([samples])[0],
        "litert": lambda: workers.run({signature.input_names[0]: samples}, signature.key)[signature.output_names[0]],
    }
    found = {of: run() for of, run in runs.items()}  # compiles, starts
    assert np.array_equal(found["xla"], found["litert"])
    best = {of: min(_seconds(run) for _ in range(rounds)) for of, run in runs.items()}
    workers.close()
    xla, litert = count / best["xla"], count / best["litert"]
    hosted = "" if str(loaded.runner()) == "one program" else f"; {loaded.runner()}"
    return f"{name:10s} xla {xla:10,.0f}/s  litert {litert:10,.0f}/s  {xla / litert:6.2f}x{hosted}"


def _seconds(run: Callable[[], np.ndarray]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-k", nargs="*", default=[""])
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for name in MODELS:
        if any(part in name for part in options.k):
            print(measure(name, options.samples, options.rounds), flush=True)


if __name__ == "__main__":
    main()
