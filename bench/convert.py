"""Conversion of Keras applications: jfuse against the official converter, on the same models, as ratios in one run.

    python -m bench.convert [--json bench/results/convert.json] [-k SUBSTRING] [--rounds 30] [--only jfuse]

Each conversion is a process of its own: it builds the model, converts it once with a fixed batch of 1 and reports what
that took: seconds, and the most memory that the process held meanwhile, TensorFlow and the model included. jfuse
converts without verification, as the official converter has none. Then both files are run in LiteRT, one thread, in
turns; a ratio of latency is taken in each round and their median given. A file is right where it answers like
TensorFlow: the differences are beside the rest. The models are awake (tests/models/applications.py). Needs Linux's
/proc.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.verification.measure import relative_error
from jfuse.verification.oracles import LiteRt

CONVERTERS = ("jfuse", "official")
_STARTS = 10
_NAMES = {code: name for name, code in vars(schema.BuiltinOperator).items() if not name.startswith("_")}


def fixed(name: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """The application with a batch of 1, an image for it, and what TensorFlow answers."""
    import keras

    from tests.models.applications import application, images

    model = application(name)
    image = images(model, 1, seed=1)
    source = keras.Input(batch_shape=image.shape)
    return keras.Model(source, model(source)), image, model(image, training=False).numpy()


def jfuse_file(model: Any) -> tuple[bytes, dict[str, float]]:
    """jfuse's file, and the seconds of each of its steps."""
    import jfuse

    lite = jfuse.convert(model, verify=False)
    return lite.to_bytes(), dict(lite.report.seconds)


def official_file(model: Any) -> tuple[bytes, dict[str, float]]:
    """The official converter's file."""
    import tensorflow as tf

    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it saves
        return bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert()), {}


def convert_here(converter: str, name: str, folder: Path) -> None:
    """What the process of one conversion does: it leaves file, image, answer and figures in a folder."""
    model, image, answer = fixed(name)
    convert: Callable[[Any], tuple[bytes, dict[str, float]]] = jfuse_file if converter == "jfuse" else official_file
    if converter == "jfuse":
        import jfuse  # noqa: F401   not a part of the conversion, as TensorFlow is not: fixed has imported that
    with ThreadPoolExecutor(1) as other:
        done = threading.Event()
        peak = other.submit(_peak_mib, done)
        started = time.perf_counter()
        try:
            data, steps = convert(model)
        finally:
            seconds = time.perf_counter() - started
            done.set()
    figures = {"seconds": seconds, "peak_mib": peak.result(), "steps": steps}
    (folder / "model.tflite").write_bytes(data)
    np.save(folder / "image.npy", image)
    np.save(folder / "answer.npy", answer)
    (folder / "figures.json").write_text(json.dumps(figures))


def _peak_mib(done: threading.Event) -> float:
    """The most memory that the process holds until `done`, looked at every 5 ms."""
    page = os.sysconf("SC_PAGE_SIZE")
    pages = 0
    while True:
        pages = max(pages, int(Path("/proc/self/statm").read_text().split()[1]))
        if done.wait(0.005):
            return pages * page / 2**20


def converted(converter: str, name: str, folder: Path) -> dict[str, Any]:
    """The figures of one conversion in a process of its own; only an error where it failed."""
    folder.mkdir()
    command = [sys.executable, "-m", "bench.convert", "--convert", converter, name, str(folder)]
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run(command, env={**os.environ, **quiet}, capture_output=True, text=True, check=False)
    if run.returncode:
        return {"error": (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]}
    figures = json.loads((folder / "figures.json").read_text())
    data = (folder / "model.tflite").read_bytes()
    counts = operators(data)
    answer, image = np.load(folder / "answer.npy"), np.load(folder / "image.npy")
    errors = [relative_error(found, answer) for call in [invoker(data, image)] for found in (call(), call())]
    size = {"operators": sum(counts.values()), "counts": dict(counts.most_common()), "file_mib": len(data) / 2**20}
    return {**figures, **size, "error": None, "difference": max(errors)}


def operators(data: bytes) -> Counter[str]:
    """How many operators of each kind a file has."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    codes = [_NAMES[max(code.builtinCode, code.deprecatedBuiltinCode)] for code in model.operatorCodes]
    return Counter(codes[op.opcodeIndex] for graph in model.subgraphs for op in graph.operators or ())


def invoker(data: bytes, image: np.ndarray) -> Callable[[], np.ndarray]:
    """A function that runs the file once and returns its result."""
    interpreter = LiteRt(data)
    ((key, ((name,), (result,))),) = interpreter.signatures().items()
    return lambda: interpreter.run(key, {name: image})[result]


def latencies(files: Mapping[str, Path], rounds: int) -> dict[str, float]:
    """Median milliseconds of each file, and the median of the ratio of each round.

    The interpreters are made anew several times, in either order: where memory happens to lie makes one file up to a
    tenth slower than itself.
    """
    times: dict[str, list[float]] = {name: [] for name in files}
    for start in range(_STARTS):
        order = list(files)[:: 1 if start % 2 else -1]
        calls = {n: invoker((files[n] / "model.tflite").read_bytes(), np.load(files[n] / "image.npy")) for n in order}
        for call in calls.values():
            call()
        for turn in range(-(-rounds // _STARTS)):
            for name in order[:: 1 if turn % 2 else -1]:
                started = time.perf_counter()
                calls[name]()
                times[name].append(1e3 * (time.perf_counter() - started))
    found = {f"{name}_ms": statistics.median(t) for name, t in times.items()}
    if len(times) == len(CONVERTERS):
        ours, theirs = (times[name] for name in CONVERTERS)
        found["latency"] = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return found


def measure(name: str, converters: tuple[str, ...], rounds: int) -> dict[str, Any]:
    """One row: the figures of each converter, and jfuse's as a part of the official ones."""
    with tempfile.TemporaryDirectory() as temporary:
        folders = {converter: Path(temporary, converter) for converter in converters}
        row: dict[str, Any] = {"model": name}
        row |= {converter: converted(converter, name, folder) for converter, folder in folders.items()}
        fine = {c: folder for c, folder in folders.items() if row[c]["error"] is None}
        row |= latencies(fine, rounds)
    if len(fine) == len(CONVERTERS):
        ours, theirs = row["jfuse"], row["official"]
        row |= {f"{figure}_ratio": ours[figure] / theirs[figure] for figure in ("seconds", "peak_mib", "operators")}
    return row


_COLUMNS = (("seconds", "seconds"), ("peak MiB", "peak_mib"), ("operators", "operators"))


def line(row: Mapping[str, Any]) -> str:
    """A row of the table: ours, theirs and the ratio of each figure."""
    cells = [f"{row['model']:<18}"]
    for _, figure in _COLUMNS:
        ours, theirs = (row.get(c, {}).get(figure) for c in CONVERTERS)
        cells.append(_cell(ours, theirs, row.get(f"{figure}_ratio")))
    cells.append(_cell(row.get("jfuse_ms"), row.get("official_ms"), row.get("latency")))
    cells += [f"{row[c]['difference']:>9.1e}" for c in CONVERTERS if row.get(c, {}).get("difference") is not None]
    cells += [f"{c}: {row[c]['error']}" for c in CONVERTERS if row.get(c, {}).get("error")]
    return "".join(cells)


def _cell(ours: float | None, theirs: float | None, ratio: float | None) -> str:
    numbers = "".join(" " * 8 if v is None else f"{v:>8.0f}" if v >= 100 else f"{v:>8.2f}" for v in (ours, theirs))
    return numbers + (" " * 8 if ratio is None else f"{ratio:>7.2f}x")


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", default="", metavar="SUBSTRING", help="models whose name holds this")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", choices=CONVERTERS)
    parser.add_argument("--convert", nargs=3, help=argparse.SUPPRESS)  # converter, model, folder
    arguments = parser.parse_args()
    if arguments.convert:
        converter, name, folder = arguments.convert
        return convert_here(converter, name, Path(folder))
    from tests.models.applications import APPLICATIONS

    print(
        f"{'':<18}"
        + "".join(f"{title:>16}{'ratio':>8}" for title in (*(t for t, _ in _COLUMNS), "latency ms"))
        + "  differences"
    )
    rows = []
    for name in APPLICATIONS:
        if arguments.k in name:
            rows.append(measure(name, (arguments.only,) if arguments.only else CONVERTERS, arguments.rounds))
            print(line(rows[-1]), flush=True)
    if arguments.json:
        import tensorflow as tf

        import jfuse

        about = {"machine": f"{platform.machine()}, {os.cpu_count()} cores", "jfuse": jfuse.__version__}
        report = {**about, "tensorflow": tf.__version__, "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
