"""Conversion of whole models: jfuse against the official converter, on the same models, as ratios in one run.

    python -m bench.convert [--json bench/results/convert.json] [-k SUBSTRING ...] [--rounds 50] [--only jfuse]

The models are those of bench/models.py: Keras applications, transformers, a U-Net, detectors, text, sounds. Each
conversion is a process of its own: it builds the model, converts it once with a fixed batch of 1 and reports what that
took: seconds, and the most memory that the process held meanwhile, TensorFlow and the model included. jfuse converts
without verification, as the official converter has none; that one reads functions from a SavedModel, which is written
before. Then both files are run in LiteRT, one thread, in turns; a ratio of latency is taken in each round and their
median given. A file is right where it answers like TensorFlow: the differences are beside the rest. Rows of models that
-k leaves out stay in the JSON as they are; each says how many cores it had. Needs Linux's /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

from jfuse.base.measure import relative_error
from jfuse.benchmark.peak_memory import begin_peak, peak_mib
from jfuse.frontends.official_converter import official_bytes
from jfuse.running.cores import cores
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.targets.file_operators import operators_of

CONVERTERS = ("jfuse", "official")
_STARTS = 10
_TURN_MS = 1.0  # long enough for the clock, short enough to be interrupted seldom


def jfuse_file(convert: Callable[..., Any], model: Any) -> tuple[bytes, dict[str, float]]:
    """jfuse's file, and the seconds of each of its steps.   convert: `jfuse.convert`"""
    lite = convert(model, verify=False)
    return lite.to_bytes(), dict(lite.report.seconds)


def official_converter(source: Any, folder: Path) -> Any:
    """The official converter of a Keras model or a tf.function."""
    import keras
    import tensorflow as tf

    if isinstance(source, keras.Model):
        return tf.lite.TFLiteConverter.from_keras_model(source)
    concrete = source.get_concrete_function()
    module = tf.Module()
    module.variables_of_it = concrete.graph.variables  # a function alone keeps none
    tf.saved_model.save(module, str(folder), signatures=concrete)
    return tf.lite.TFLiteConverter.from_saved_model(str(folder))


def official_file(converter: Any) -> tuple[bytes, dict[str, float]]:
    """The official converter's file."""
    return official_bytes(converter), {}


def answers(source: Any, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of TensorFlow, in order."""
    import tensorflow as tf

    values = [tf.constant(v.tolist() if v.dtype.kind in "OU" else v) for v in inputs.values()]
    found = source(*values) if hasattr(source, "python_function") else source(values)
    return [value.numpy() for value in tf.nest.flatten(found)]


def convert_here(converter: str, name: str, folder: Path) -> None:
    """Run one conversion in this process; write file, image, answer and figures to a folder."""
    from bench.models import MODELS

    source, inputs = MODELS[name]()
    answer = answers(source, inputs)
    if converter == "jfuse":
        import jfuse

        # Names are imported at their first use. That is no part of the conversion, as TensorFlow's import is not: the
        # models have imported that.
        convert = partial(jfuse_file, jfuse.convert, source)
    else:
        convert = partial(official_file, official_converter(source, folder / "saved"))
    begin_peak()
    started = time.perf_counter()
    data, steps = convert()
    figures = {"seconds": time.perf_counter() - started, "peak_mib": peak_mib(), "steps": steps}
    (folder / "model.tflite").write_bytes(data)
    (folder / "arrays.pickle").write_bytes(pickle.dumps((dict(inputs), answer)))
    (folder / "figures.json").write_text(json.dumps(figures))


def converted(converter: str, name: str, folder: Path) -> dict[str, Any]:
    """The figures of one conversion in a process of its own; only an error where it failed."""
    folder.mkdir()
    command = [sys.executable, "-m", "bench.convert", "--convert", converter, name, str(folder)]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run(command, env={**os.environ, **quiet}, capture_output=True, text=True, check=False)
    if run.returncode:
        return {"error": _reason(run.stderr) or f"exit status {run.returncode}"}
    figures = json.loads((folder / "figures.json").read_text())
    data = (folder / "model.tflite").read_bytes()
    counts = Counter(operators_of(data))
    inputs, answer = pickle.loads((folder / "arrays.pickle").read_bytes())
    figures["difference"] = difference(data, inputs, answer)
    size = {"operators": sum(counts.values()), "counts": dict(counts.most_common()), "file_mib": len(data) / 2**20}
    return {**figures, **size, "error": None}


def _reason(stderr: str) -> str:
    """Which ops the official converter lacks, or the exception."""
    lines = stderr.strip().splitlines()
    lacking = [line for line in lines if line.startswith("TF Select ops:")]
    return (
        lacking + [line for line in lines if re.match(r"[\w.]+(Error|Exception|Failed)\b", line)] + lines[-1:] + [""]
    )[0]


def difference(data: bytes, inputs: Mapping[str, np.ndarray], answer: Sequence[np.ndarray]) -> float:
    """How far a file's answers are from TensorFlow's, of two invokes."""
    runtime = LiteRt(data)
    ((key, _),) = runtime.signatures().items()
    found = [runtime.run(key, inputs) for _ in range(2)]
    return max(relative_error(f[n], v) for f in found for n, v in zip(sorted(f), answer, strict=True))


def invoker(folder: Path) -> Callable[[int], float]:
    """A function that runs a file some times, and gives the milliseconds that one takes."""
    inputs, _ = pickle.loads((folder / "arrays.pickle").read_bytes())
    interpreter = Interpreter(model_content=(folder / "model.tflite").read_bytes(), num_threads=1)
    ((key, _),) = interpreter.get_signature_list().items()
    runner = interpreter.get_signature_runner(key)
    runner(**inputs)  # sizes tensors and fills the inputs, which stay as they are

    def invoke(count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            interpreter.invoke()
        return 1e3 * (time.perf_counter() - started) / count

    return invoke


def latencies(folders: Mapping[str, Path], rounds: int) -> dict[str, float]:
    """Median milliseconds of each file, and the median of the ratio of each round.

    The interpreters are made anew several times, in either order: where memory happens to lie makes one file up to a
    tenth slower than itself.
    """
    times: dict[str, list[float]] = {name: [] for name in folders}
    for start in range(_STARTS):
        order = list(folders)[:: 1 if start % 2 else -1]
        calls = {name: invoker(folders[name]) for name in order}
        count = max(1, int(_TURN_MS / max(min(call(1) for _ in range(3)) for call in calls.values())))
        for turn in range(-(-rounds // _STARTS)):
            for name in order[:: 1 if turn % 2 else -1]:
                times[name].append(calls[name](count))
    found = {f"{name}_ms": statistics.median(t) for name, t in times.items()}
    if len(times) == len(CONVERTERS):
        ours, theirs = (times[name] for name in CONVERTERS)
        found["latency"] = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return found


def measure(name: str, converters: tuple[str, ...], rounds: int) -> dict[str, Any]:
    """One row: the figures of each converter, and jfuse's as a part of the official ones."""
    with tempfile.TemporaryDirectory() as temporary:
        folders = {converter: Path(temporary, converter) for converter in converters}
        row: dict[str, Any] = {"model": name, "machine": f"{platform.machine()}, {cores()} of {os.cpu_count()} cores"}
        row |= {converter: converted(converter, name, folder) for converter, folder in folders.items()}
        fine = {c: folder for c, folder in folders.items() if row[c]["error"] is None}
        row |= latencies(fine, rounds) if fine else {}
    if len(fine) == len(CONVERTERS):
        ours, theirs = row["jfuse"], row["official"]
        row |= {f"{figure}_ratio": ours[figure] / theirs[figure] for figure in ("seconds", "peak_mib", "operators")}
    return row


_COLUMNS = (("seconds", "seconds"), ("peak MiB", "peak_mib"), ("operators", "operators"))


def line(row: Mapping[str, Any]) -> str:
    """A row of the table: ours, theirs and the ratio of each figure."""
    cells = [f"{row['model']:<25}"]
    for _, figure in _COLUMNS:
        ours, theirs = (row.get(c, {}).get(figure) for c in CONVERTERS)
        cells.append(_cell(ours, theirs, row.get(f"{figure}_ratio")))
    cells.append(_cell(row.get("jfuse_ms"), row.get("official_ms"), row.get("latency")))
    cells += [f"{row[c]['difference']:>9.1e}" for c in CONVERTERS if row.get(c, {}).get("difference") is not None]
    cells += [f"  {c}: {row[c]['error'][:90]}" for c in CONVERTERS if row.get(c, {}).get("error")]
    return "".join(cells)


def _cell(ours: float | None, theirs: float | None, ratio: float | None) -> str:
    numbers = "".join(" " * 8 if v is None else f"{v:>8.{_digits(v)}f}" for v in (ours, theirs))
    return numbers + (" " * 8 if ratio is None else f"{ratio:>7.2f}x")


def _digits(value: float) -> int:
    return 0 if value >= 100 else 2 if value >= 1 else 3


def write(path: Path, row: Mapping[str, Any], order: Sequence[str]) -> None:
    """Put a row into a report, in the place of what was measured of the model before."""
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = {**{r["model"]: r for r in known}, row["model"]: row}
    about = {name: version(name) for name in ("jfuse", "tensorflow", "keras")}
    report = {**about, "rows": [rows[name] for name in order if name in rows]}
    path.write_text(json.dumps(report, indent=1) + "\n")


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[""], metavar="SUBSTRING", help="models whose name holds one of these")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--only", choices=CONVERTERS)
    parser.add_argument("--convert", nargs=3, help=argparse.SUPPRESS)  # converter, model, folder
    arguments = parser.parse_args()
    if arguments.convert:
        converter, name, folder = arguments.convert
        return convert_here(converter, name, Path(folder))
    from bench.models import MODELS

    print(
        f"{'':<25}"
        + "".join(f"{title:>16}{'ratio':>8}" for title in (*(t for t, _ in _COLUMNS), "latency ms"))
        + "  differences"
    )
    for name in MODELS:
        if any(part in name for part in arguments.k):
            row = measure(name, (arguments.only,) if arguments.only else CONVERTERS, arguments.rounds)
            print(line(row), flush=True)
            if arguments.json:
                write(arguments.json, row, list(MODELS))
    return None


if __name__ == "__main__":
    main()
