"""LiteRT latency of Keras 3 LSTMs: jfuse's fused file, jfuse's loop, and the official converter's file, in one run.

    python bench/latency.py [--json bench/results/latency.json]

Batch 1, one thread, random input. The three files take turns, some calls each, so that a noisy machine disturbs all of
them alike; figures are medians, and what counts are the ratios. The official converter needs a fixed batch, so it gets
the model with batch 1; jfuse gets the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

import keras
import numpy as np

import jfuse
from jfuse.frontends.official_converter import of_keras_model, official_bytes
from jfuse.running.interpreter import LiteRt
from jfuse.verification.file_times import in_turns, litert_turn

SHAPES = [(20, 8, 16), (50, 16, 32), (50, 32, 64), (100, 64, 256)]  # steps, features, units
SECONDS = 2.0  # of calls for each file


def official(model: keras.Model) -> bytes:
    """The official converter's file, from the model with a fixed batch."""
    return official_bytes(of_keras_model(model))


def medians_us(files: list[bytes], x: np.ndarray, seconds: float = SECONDS) -> list[float]:
    """The median time of a call of each file in microseconds, taken in turns."""
    turns = {}
    for number, data in enumerate(files):
        ((key, (names, _)),) = LiteRt(data).signatures().items()
        turns[str(number)] = litert_turn(data, [(key, {names[0]: x})])
    found = in_turns(turns, seconds)
    return [1e6 * statistics.median(s for turn in calls for s in turn) for calls in found.values()]


def measure(steps: int, features: int, units: int) -> dict[str, Any]:
    """One row: sizes, microseconds of each file, and the ratios to the fused one."""
    keras.utils.set_random_seed(0)
    source = keras.Input((steps, features), batch_size=1, name="x")
    model = keras.Model(source, keras.layers.LSTM(units, return_sequences=True)(source))
    x = np.random.default_rng(0).standard_normal((1, steps, features)).astype(np.float32)
    files = [jfuse.convert(model).to_bytes(), jfuse.convert(model, recover=False).to_bytes(), official(model)]
    fused, loop, theirs = medians_us(files, x)
    return {
        "steps": steps,
        "features": features,
        "units": units,
        "fused_us": fused,
        "loop_us": loop,
        "official_us": theirs,
        "loop_per_fused": loop / fused,
        "official_per_fused": theirs / fused,
    }


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    print(f"{'steps':>6}{'features':>9}{'units':>6}{'fused µs':>10}{'loop':>8}{'official':>10}")
    for shape in SHAPES:
        row = measure(*shape)
        rows.append(row)
        print(
            f"{row['steps']:>6}{row['features']:>9}{row['units']:>6}{row['fused_us']:>10.1f}"
            f"{row['loop_per_fused']:>7.2f}x{row['official_per_fused']:>9.2f}x",
            flush=True,
        )
    if arguments.json:
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        report = {"machine": machine, "jfuse": jfuse.__version__, "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
