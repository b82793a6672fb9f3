"""Verification and calibration over many samples in two processes of `jax.distributed`, against one, a core for each.

    python -m bench.processes [--json bench/results/processes.json] [--samples 1000] [--rounds 3]

Every process may use one core only, so two of them have twice what one has, as two machines would. They take turns:
one process, then two. Seconds are those of the slowest process of a turn, the second time that it does the job: what
every process does alike (compiling, and reading all calls of a calibration) is in them, so the ratio stays below two,
and is little above one where that takes most of the time. It is the median of the rounds. What comes out must be the
same. Needs Linux, and two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jfuse
from bench.verify import sequence
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.statistics import Observed

_MODELS = {"LSTM 512, the last of 100 steps": sequence(100, 64, lambda layers: layers.LSTM(512))}
_PROCESSES = 2


def work(address: str, processes: int, process: int, file: Path, samples: int) -> None:
    """Run the jobs of one process; print the seconds and result of each."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[process]})
    if processes > 1:
        jax.distributed.initialize(address, processes, process)
    model = jfuse.load(file)
    signature = model.signature()
    observed = [Observed(output) for eqn in signature.graph.eqns for output in eqn.outputs]
    shape = (samples, *signature.graph.inputs[0].type.shape)
    drawn = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    calls = [{signature.input_names[0]: x} for x in drawn]

    def verification() -> Any:
        return [(d.output, d.samples) for d in jfuse.verify(model, samples=samples, edges="none").differences]

    def calibration() -> Any:
        records = calibrate(model.program, observed, calls).records
        return sorted((key, record.calls, np.float32(record.extremes).tolist()) for key, record in records.items())

    seconds, results = {}, {}
    for job in (verification, calibration):
        job()
        started = time.perf_counter()
        results[job.__name__] = job()
        seconds[job.__name__] = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "results": results}))


def turn(processes: int, file: Path, samples: int) -> tuple[dict[str, float], Any]:
    """The seconds of each job in so many processes, and their results, which are all the same."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "bench.processes", "--work", address, str(processes)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu"}
    running = [
        subprocess.Popen([*command, str(i), str(file), str(samples)], stdout=subprocess.PIPE, env=environment)
        for i in range(processes)
    ]
    found = [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]
    assert all(f["results"] == found[0]["results"] for f in found), "processes disagree"
    return {job: max(f["seconds"][job] for f in found) for job in found[0]["seconds"]}, found[0]["results"]


def measure(name: str, folder: Path, samples: int, rounds: int) -> list[dict[str, Any]]:
    """A row for each job on a model."""
    import keras

    keras.utils.set_random_seed(0)
    source = _MODELS[name]()
    fixed = keras.Input(source.inputs[0].shape[1:], batch_size=1)
    file = folder / "model.tflite"
    jfuse.convert(keras.Model(fixed, source(fixed)), verify=False).save(file)
    turns = []
    for _ in range(rounds):
        (alone, wanted), (together, found) = (turn(n, file, samples) for n in (1, _PROCESSES))
        assert found == wanted, f"{name}: two processes find something else than one"
        turns.append((alone, together))
    return [
        {
            "model": name,
            "job": job,
            "samples": samples,
            "seconds": {1: min(a[job] for a, _ in turns), _PROCESSES: min(t[job] for _, t in turns)},
            "ratio": statistics.median(a[job] / t[job] for a, t in turns),
        }
        for job in turns[0][0]
    ]


def line(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    seconds = "".join(f"{s:>9.2f} s" for s in row["seconds"].values())
    return f"{row['model']:<32}{row['job']:<14}{row['samples']:>7}{seconds}{row['ratio']:>7.2f}x"


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", nargs=5, help=argparse.SUPPRESS)  # address, processes, process, file, samples
    arguments = parser.parse_args()
    if arguments.work:
        address, processes, process, file, samples = arguments.work
        work(address, int(processes), int(process), Path(file), int(samples))
        return
    rows = []
    print(f"{'':46}{'samples':>7}{'1 process':>11}{_PROCESSES:>2}{' processes':>9}")
    with tempfile.TemporaryDirectory() as temporary:
        for name in _MODELS:
            for row in measure(name, Path(temporary), arguments.samples, arguments.rounds):
                rows.append(row)
                print(line(row), flush=True)
    if arguments.json:
        report = {"machine": f"{platform.machine()}, a core for each process", "jax": jax.__version__, "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
