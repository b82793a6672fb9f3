"""Calibration: jfuse on XLA against TensorFlow's calibrator, on one float file and the same samples, in one run.

    python -m bench.calibrate [--json bench/results/calibrate.json] [-k SUBSTRING ...] [--samples 1000]

The file is jfuse's, of a Keras model with an open batch that is awake. TensorFlow's `Calibrator` runs it sample by
sample, as its converter does; jfuse takes what a conversion to int8 asks for (extremes, and means for the biases), then
histograms of the same values as well. Wall times, compilation included; "further" is what each sample costs beyond the
first ones, compilation left out. Seconds of the processor, of all threads, tell more where other programs run, too. The
ranges of inputs and outputs are compared.

Memory is measured in processes of their own, which have the file and the samples: how much the most that was held is
above what was held before, for the float model run over the samples, and for their calibration, with all that the
processes of LiteRT hold. What is left beside the statistics is given as a ratio of the first.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from tensorflow.lite.python.optimize.calibrator import Calibrator

import jfuse
from bench.models import phone_encoder, phone_u_net
from bench.verify import mlp, mobilenet, sequence
from jfuse.benchmark.peak_memory import begin_peak, peak_mib
from jfuse.ir.graph import Program
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.moments import Moments
from jfuse.quantization.statistics import Observed, Statistics
from jfuse.running.over_samples import OverSamples, samples_at_once

MODELS: dict[str, tuple[tuple[int, ...], Callable[[], Any]]] = {
    "lstm": ((50, 16), sequence(50, 16, lambda layers: layers.LSTM(64))),
    "lstm_keywords": ((98, 40), sequence(98, 40, lambda layers: layers.LSTM(128))),  # one second of 40 mel bands
    "lstm_speech": ((98, 40), sequence(98, 40, lambda layers: layers.LSTM(512))),
    "mobilenet": ((96, 96, 3), mobilenet),
    "mobilenet_224": ((224, 224, 3), lambda: mobilenet(224, 1.0)),
    "mlp": ((64,), mlp),
    "encoder": ((64, 128), phone_encoder),
    "u_net": ((64, 64, 3), phone_u_net),
    "gru": ((50, 32), sequence(50, 32, lambda layers: layers.GRU(64, return_sequences=True))),
}
JOBS = ("float", "extremes", "histograms")


@dataclass(frozen=True)
class ObservedValues:
    """Values of a program that an int8 conversion observes, and inputs of its products."""

    program: Program
    observed: Sequence[Observed]
    moments: Mapping[Observed, Moments]

    @classmethod
    def by(cls, lite: jfuse.Model, sample: np.ndarray) -> ObservedValues:
        """By the conversion of a float model.   sample: with a first axis of 1"""
        found: list[ObservedValues] = []

        def noted(program: Program, observed: Sequence[Observed], data: Any, **further: Any) -> Statistics:
            found.append(cls(program, observed, further["moments"]))
            return calibrate(program, observed, data, **further)

        with mock.patch("jfuse.quantization.calibrate.calibrate", noted):
            jfuse.quantize(lite, "int8", sample, verify=False)
        return found[-1]


def busy_s() -> float:
    """Seconds that the processor has computed for this process, and for those that it started and that have ended."""
    return sum(os.times()[:4])


def official(model: bytes, samples: np.ndarray) -> tuple[float, float, Any]:
    """Seconds, those of the processor, and the least and greatest numbers of the inputs and outputs."""

    def calls() -> Any:
        for sample in samples:
            yield [sample[None]]

    calibrator = Calibrator(model)
    started, busy = time.perf_counter(), busy_s()
    found = calibrator.calibrate(calls)
    seconds, processor = time.perf_counter() - started, busy_s() - busy
    graph = schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytes(found), 0)).subgraphs[0]
    stated = [graph.tensors[i].quantization for i in (*graph.inputs, *graph.outputs)]
    return seconds, processor, [(float(q.min[0]), float(q.max[0])) for q in stated]


def ours(asked: ObservedValues, samples: np.ndarray, histograms: bool) -> tuple[float, float, Statistics]:
    """Seconds, those of the processor, and the statistics."""
    started, busy = time.perf_counter(), busy_s()
    counted = asked.observed if histograms else ()
    found = calibrate(asked.program, asked.observed, samples, histograms=counted, moments=asked.moments)
    return time.perf_counter() - started, busy_s() - busy, found


def drawn(name: str, count: int) -> np.ndarray:
    """The samples of a model."""
    return np.random.default_rng(0).standard_normal((count, *MODELS[name][0])).astype(np.float32)


def memory(job: str, name: str, file: Path, count: int) -> tuple[float, float]:
    """The most MiB held in one job of this process above what was held before, and the MiB of the statistics."""
    lite, samples = jfuse.load(file), drawn(name, count)
    asked = ObservedValues.by(lite, samples[:1])
    statistics = Statistics(asked.program)
    begin_peak()
    before = peak_mib()
    others = _Others()
    if job == "float":
        (signature,) = lite.program.signatures
        most = samples_at_once(signature.graph, jax.default_backend())
        OverSamples.of(lite.jax(), most)([samples[:, None]])
    else:
        statistics = ours(asked, samples, job == "histograms")[2]
    after = peak_mib()
    if before is None or after is None:
        raise SystemExit("memory is measured on Linux")
    after += others.mib()
    kept = [a for record in statistics.records.values() for a in (record.counts, record.moments) if a is not None]
    return after - before, (sum(a.nbytes for a in kept) + 64 * len(statistics.records)) / 2**20


class _Others:
    """The most that the processes have held that this one started since, each by itself."""

    def __init__(self) -> None:
        self._kib: dict[str, int] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            for task in Path("/proc/self/task").iterdir():
                for child in (task / "children").read_text().split():
                    try:
                        lines = Path(f"/proc/{child}/status").read_text().splitlines()
                    except OSError:  # it has ended
                        continue
                    for line in lines:
                        if line.startswith("VmHWM"):
                            self._kib[child] = int(line.split()[1])

    def mib(self) -> float:
        """MiB of all of them together."""
        self._done.set()
        self._thread.join()
        return sum(self._kib.values()) / 2**10


def memories(name: str, model: bytes, count: int) -> dict[str, float]:
    """MiB of each job, and what calibration has beside its statistics, per what the float model has."""
    row: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.tflite"
        file.write_bytes(model)
        for job in JOBS:
            command = [sys.executable, "-m", "bench.calibrate", "--memory", job, name, str(file)]
            done = subprocess.run([*command, "--samples", str(count)], check=True, stdout=subprocess.PIPE)
            peak, statistics = json.loads(done.stdout.splitlines()[-1])
            row[f"{job}_mib"] = peak
            if job != "float":
                row[f"{job}_statistics_mib"] = statistics
                row[f"{job}_memory_ratio"] = (peak - statistics) / row["float_mib"]
    return row


def measured(name: str, count: int) -> dict[str, Any]:
    """One model's row."""
    make = MODELS[name][1]
    lite = jfuse.convert(make(), verify=False)
    samples = drawn(name, count)
    theirs, their_processor, stated = official(lite.to_bytes(), samples)
    few = len(samples) // 2
    asked = ObservedValues.by(lite, samples[:1])
    _, _, statistics = ours(asked, samples, False)
    row: dict[str, Any] = {
        "model": name,
        "samples": count,
        "official_s": theirs,
        "official_further_ms": 1000 * theirs / count,
    }
    for what, histograms in (("extremes", False), ("histograms", True)):
        half, _, _ = ours(asked, samples[:few], histograms)
        whole, processor, _ = ours(asked, samples, histograms)
        further = 1000 * (whole - half) / (count - few)
        row |= {f"{what}_s": whole, f"{what}_ratio": theirs / whole, f"{what}_further_ms": further}
        row |= {f"{what}_processor_s": processor, f"{what}_processor_ratio": their_processor / processor}
        row[f"{what}_further_ratio"] = row["official_further_ms"] / further
    (graph,) = asked.program.graphs()
    for var, ends in zip((*graph.inputs, *graph.outputs), stated, strict=True):
        np.testing.assert_allclose(statistics.range(Observed(var)), ends, rtol=1e-3, atol=1e-5)
    return row | memories(name, lite.to_bytes(), count)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[""])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--memory", nargs=3, metavar=("JOB", "MODEL", "FILE"), help="what a process of its own does")
    options = parser.parse_args(arguments)
    if options.memory:
        job, name, file = options.memory
        print(json.dumps(memory(job, name, Path(file), options.samples)))
        return
    rows = [measured(name, options.samples) for name in MODELS if any(part in name for part in options.k)]
    columns = [key for key in rows[0] if key != "model"]
    for row in rows:
        print(row["model"], *(f"{key} {row[key]:.4g}" for key in columns), sep="\n  ")
    if options.json:
        machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        versions = {"jax": jax.__version__, "tensorflow": tf.__version__}
        options.json.write_text(json.dumps({"machine": machine, "versions": versions, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
