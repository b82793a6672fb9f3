"""Samples per second of integer files: integer bodies on XLA against LiteRT with one process per core, in one run.

    python -m bench.integers [--json bench/results/integers.json] [-k SUBSTRING ...] [--samples 4096] [--rounds 3]
    python -m bench.integers --save FOLDER [-k SUBSTRING ...]
    python -m bench.integers --files FOLDER [--device cpu|gpu] ...

Answers must be equal in every bit. The two take turns; each figure is the best round's, on whatever load there is.
A machine with a GPU may have no TensorFlow: `--save` writes the files, and `--files` measures them there.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jfuse
from bench.quantize_models import cnn, drawn, fixed, keywords, mlp
from jfuse.running.cores import cores
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.over_samples import OverSamples, samples_at_once


def lstm() -> Any:
    """An LSTM over features of sound."""
    from keras import Input, Sequential, layers

    return Sequential([Input((49, 40)), layers.LSTM(64), layers.Dense(12, activation="softmax")])


def gru() -> Any:
    """A GRU over features of sound."""
    from keras import Input, Sequential, layers

    return Sequential([Input((49, 40)), layers.GRU(64), layers.Dense(12, activation="softmax")])


MODELS: dict[str, Callable[[], Any]] = {"mlp": mlp, "cnn": cnn, "keywords": keywords, "lstm": lstm, "gru": gru}
MODES = ("int8", "int16x8")


@dataclass(frozen=True)
class Row:
    """Samples per second of one file. runner: how XLA computes it."""

    name: str
    xla: float
    litert: float
    runner: str

    def __str__(self) -> str:
        hosted = "" if self.runner == "one program" else f"; {self.runner}"
        return (
            f"{self.name:20s} xla {self.xla:12,.0f}/s  litert {self.litert:12,.0f}/s"
            f"  {self.xla / self.litert:7.2f}x{hosted}"
        )


def converted(parts: list[str]) -> Iterator[tuple[str, bytes]]:
    """The name and the bytes of each file whose name has one of the parts."""
    for name, build in MODELS.items():
        for mode in MODES:
            if any(part in f"{name}-{mode}" for part in parts):
                model = fixed(build())
                calibration = list(drawn(model.inputs[0], 32, 0)[:, None])
                yield (
                    f"{name}-{mode}",
                    jfuse.convert(model, verify=False, quantize=mode, calibration=calibration).to_bytes(),
                )


def measure(name: str, data: bytes, count: int, rounds: int) -> Row:
    """A line of the table."""
    loaded = jfuse.load(data)
    signature = loaded.signature()
    most = samples_at_once(signature.graph, jax.default_backend())
    program, workers = OverSamples.of(loaded.jax(), most=most), LiteRtWorkers(data)
    shape = signature.graph.inputs[0].type.shape
    samples = np.random.default_rng(1).standard_normal((count, *shape)).astype(np.float32)
    runs: dict[str, Callable[[], np.ndarray]] = {
        "xla": lambda: program([samples])[0],
        "litert": lambda: workers.run({signature.input_names[0]: samples}, signature.key)[signature.output_names[0]],
    }
    answers = {side: run() for side, run in runs.items()}  # compiles, starts
    assert np.array_equal(answers["xla"], answers["litert"]), name
    best = {side: min(_seconds(run) for _ in range(rounds)) for side, run in runs.items()}
    workers.close()
    return Row(name, count / best["xla"], count / best["litert"], str(loaded.runner()))


def _seconds(run: Callable[[], np.ndarray]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[""])
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    parser.add_argument("--files", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    if options.device:
        jax.config.update("jax_platforms", {"gpu": "cuda"}.get(options.device, options.device))
    if options.files:
        paths = sorted(options.files.glob("*.tflite"))
        chosen = (path for path in paths if any(part in path.stem for part in options.k))
        files: Iterator[tuple[str, bytes]] = ((path.stem, path.read_bytes()) for path in chosen)
    else:
        files = converted(options.k)
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        for name, data in files:
            (options.save / f"{name}.tflite").write_bytes(data)
        return
    rows = []
    for name, data in files:
        rows.append(measure(name, data, options.samples, options.rounds))
        print(rows[-1], flush=True)
    if options.json:
        report = {
            "machine": f"{platform.machine()}, {cores()} of {os.cpu_count()} cores",
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
