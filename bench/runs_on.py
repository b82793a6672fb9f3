"""Which runtime runs which model, and answers like TensorFlow: five calls in a row each.

    python -m bench.runs_on [--json bench/results/runs_on.json] [--python tflite-runtime=/path/to/python] [PART ...]
    python -m bench.runs_on --markdown > docs/runs-on.md      # from the committed result

Of a stream the five calls are pieces of one sequence, which TensorFlow gets as a whole; states that the file takes and
returns are handed on from call to call.

Every runtime runs in a process of its own. LiteRT and tflite-micro are those of this Python; others need one where they
are installed (tflite-runtime 2.14 needs numpy < 2). A file is converted for the target of the runtime.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import jfuse
from bench.runtimes.models import Stream
from jfuse.errors import JfuseError
from jfuse.measure import relative_error
from jfuse.proof.inputs import draws
from jfuse.running.micro import MicroInterpreter, has_micro, measured_arena
from jfuse.verification.runners.in_tensorflow import InTensorFlow, variables_restored

RESULT = Path("bench/results/runs_on.json")
WORKER = Path(__file__).parent / "runtimes" / "worker.py"
CALLS = 5
RIGHT = 1e-5  # of the largest output: f32 sums in another order
LIMIT_S = 120.0


@dataclass(frozen=True)
class Column:
    """One runtime. target: what files are converted for; runs: whether it is run here, or only converted for."""

    runtime: str
    target: str
    runs: bool = True


COLUMNS = (
    Column("ai-edge-litert", "litert"),
    Column("tflite-runtime", "litert>=2.14"),
    Column("onert", "litert>=2.14"),
    Column("tflite-micro", "tflite-micro"),
    *(Column(runtime, "litert-gpu") for runtime in ("openvino", "apache-tvm", "iree-base-runtime")),
    Column("LiteRT GPU", "litert-gpu", runs=False),
    Column("Google Tensor", "google-tensor", runs=False),
    Column("Ethos-U55", "ethos-u55", runs=False),
)
Calls = Sequence[Sequence[np.ndarray]]


def measured(source: Any, pythons: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What each column says of one model."""
    task = _streamed(source) if isinstance(source, Stream) else _called(source)
    files: dict[str, Any] = {}
    found = {}
    for column in COLUMNS:
        if column.target not in files:
            files[column.target] = _converted(task, column.target)
        lite = files[column.target]
        if isinstance(lite, str):
            found[column.runtime] = lite
        elif not column.runs:
            found[column.runtime] = "converts"
        elif column.runtime != "tflite-micro" and column.runtime not in pythons:
            found[column.runtime] = "not installed"
        else:
            found[column.runtime] = _told(lite, column.runtime, pythons, task, folder)
    lite = files["tflite-micro"]
    if not isinstance(lite, str) and has_micro():
        arena, _ = measured_arena(lite.program, lite.to_bytes())
        found["arena"] = "" if arena is None else str(arena.needed)
    return found


@dataclass(frozen=True)
class _Task:
    """A model, what its state becomes, the inputs of each call, and what TensorFlow answers."""

    model: jfuse.Model
    state: Any
    calls: Calls
    wanted: Calls


def _called(source: Any) -> _Task:
    """A model that is called with random inputs."""
    model = jfuse.load(source)
    assert model.imported is not None
    (signature, *_) = model.program.signatures
    named = list(draws(signature, {}, seed=0, count=CALLS))
    with variables_restored(model.imported):
        reference = InTensorFlow(model.imported).start()
        results = [reference.run(call, signature.key) for call in named]
    wanted = [[np.asarray(r[name]) for name in signature.output_names] for r in results]
    return _Task(model, "source", [[call[name] for name in signature.input_names] for call in named], wanted)


def _streamed(stream: Stream) -> _Task:
    """A model that gets a random sequence piece by piece."""
    shape = (1, CALLS * stream.steps, stream.model.inputs[0].shape[-1])
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    pieces, answers = (np.split(whole, CALLS, axis=1) for whole in (x, np.asarray(stream.model(x))))
    (name,) = jfuse.load(stream.model).program.signatures[0].input_names
    model = jfuse.load(stream.model, shapes={name: pieces[0].shape})
    return _Task(model, stream.state, [[piece] for piece in pieces], [[answer] for answer in answers])


def _converted(task: _Task, target: Any) -> jfuse.Model | str:
    try:
        return jfuse.lower(task.model, target=target, state=task.state)
    except JfuseError as error:
        return f"no file: {' '.join(str(error.found or error.message).split())[:160]}"


def _told(lite: jfuse.Model, runtime: str, pythons: Mapping[str, str], task: _Task, folder: Path) -> str:
    """Say that the answers are right, or what is wrong."""
    exposed = lite.program.signatures[0].exposed
    first = [*task.calls[0], *(np.asarray(state.initial.array) for state in exposed)]
    calls = [first, *task.calls[1:]]
    try:
        if runtime == "tflite-micro":
            answers = _in_micro(lite, calls)
        else:
            answers = _in_a_process(lite, runtime, pythons[runtime], calls, folder)
    except (JfuseError, RuntimeError) as error:
        return f"refused: {' '.join(str(getattr(error, 'found', '') or error).split())[-160:]}"
    errors = [
        relative_error(f.reshape(w.shape), w) if f.size == w.size else float("inf")
        for ours, theirs in zip(answers, task.wanted, strict=True)
        for f, w in zip(ours[: len(ours) - len(exposed)], theirs, strict=True)
    ]
    return "right" if max(errors) <= RIGHT else f"wrong: {max(errors):.1e}"


def _in_micro(lite: jfuse.Model, calls: Calls) -> list[list[np.ndarray]]:
    (signature,) = lite.program.signatures
    found: list[list[np.ndarray]] = []
    with MicroInterpreter(lite.to_bytes()) as interpreter:
        for call in calls:
            states = found[-1][len(signature.output_names) - len(signature.exposed) :] if found else []
            results = interpreter.run(dict(zip(signature.input_names, [*call, *states], strict=True)))
            found.append([results[name] for name in signature.output_names])
    return found


def _in_a_process(lite: jfuse.Model, runtime: str, python: str, calls: Calls, folder: Path) -> list[list[np.ndarray]]:
    model, inputs, outputs = (folder / name for name in ("model.tflite", "inputs.npz", "outputs.npz"))
    outputs.unlink(missing_ok=True)
    lite.save(model)
    arrays: dict[str, Any] = {f"{c}/{i}": array for c, call in enumerate(calls) for i, array in enumerate(call)}
    np.savez(inputs, **arrays)
    command = [python, str(WORKER), runtime, str(model), str(inputs), str(outputs)]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"no answer after {LIMIT_S:g} s") from error
    if ran.returncode:
        last = [line for line in ran.stderr.strip().splitlines() if line.strip()]
        raise RuntimeError(last[-1] if ran.returncode > 0 and last else f"the process ended with {ran.returncode}")
    found = np.load(outputs)
    count = len(lite.program.signatures[0].output_names)
    return [[found[f"{c}/{i}"] for i in range(count)] for c in range(len(calls))]


def markdown(result: Mapping[str, Any]) -> str:
    """The page of a result."""
    names = [c.runtime for c in COLUMNS]
    lines = [
        "# Runs on",
        "",
        f"Which runtime runs which model, and answers like TensorFlow within {RIGHT:g} of the largest output on",
        f"{CALLS} calls in a row (`python -m bench.runs_on`, which writes this page, too). Of a stream these are",
        'pieces of one sequence; its states are kept in the file (`state="keep"`) or go in and out (`"io"`).',
        "",
        "Files are for the [target](targets.md) of the runtime, for OpenVINO, TVM and IREE in straight code of",
        "plain operators. For the last three columns, which do not run here, the table says whether there is such a",
        "file. The arena is what tflite-micro counts besides the model on this machine.",
        "",
        f"Measured on {result['machine']}, with {', '.join(f'{n} {v}' for n, v in result['versions'].items())}.",
        "",
        f"| model | {' | '.join(names)} | arena, bytes |",
        f"|---|{'---|' * (len(names) + 1)}",
    ]
    notes: list[str] = []
    for model, told in result["models"].items():
        cells = [_cell(told[n], notes) for n in names]
        lines.append(f"| {model} | {' | '.join(cells)} | {told.get('arena', '')} |")
    lines += ["", *(f"{i}. {note}" for i, note in enumerate(notes, 1)), ""]
    return "\n".join(lines)


def _cell(told: str, notes: list[str]) -> str:
    word, _, reason = told.partition(": ")
    if not reason:
        return {"right": "yes", "converts": "file"}.get(told, told)
    note = reason.replace("|", "/")
    if note not in notes:
        notes.append(note)
    return f"{word} ({notes.index(note) + 1})"


def main() -> None:
    """Measure, print a line for each model, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    if arguments.markdown:
        sys.stdout.write(markdown(json.loads(RESULT.read_text())))
        return
    from bench.runtimes.models import MODELS

    pythons = {"ai-edge-litert": sys.executable} | dict(p.split("=", 1) for p in arguments.python)
    found: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, build in MODELS.items():
            if arguments.parts and not any(part in name for part in arguments.parts):
                continue
            started = time.perf_counter()
            try:
                found[name] = measured(build(), pythons, Path(folder))
            except Exception as error:  # a row of its own: the other models are measured all the same
                found[name] = {c.runtime: f"no file: {type(error).__name__}: {error}"[:160] for c in COLUMNS}
            print(f"{name} ({time.perf_counter() - started:.0f} s): {found[name]}", flush=True)
    if arguments.json is not None:
        if arguments.parts and arguments.json.exists():  # other rows stay as they were measured
            found = json.loads(arguments.json.read_text())["models"] | found
        result = {"machine": f"{platform.machine()}, one thread", "versions": _versions(pythons), "models": found}
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def _versions(pythons: Mapping[str, str]) -> dict[str, str]:
    code = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
    ours = {**pythons, **({"tflite-micro": sys.executable} if has_micro() else {})}
    return {
        name: subprocess.run([python, "-c", code, name], capture_output=True, text=True, check=False).stdout.strip()
        for name, python in ours.items()
    }


if __name__ == "__main__":
    main()
