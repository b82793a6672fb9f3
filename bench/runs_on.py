"""Which runtime runs which model, and answers like TensorFlow: five calls in a row each.

    python -m bench.runs_on [--json bench/results/runs_on.json] [--python tflite-runtime=/path/to/python] [PART ...]
    python -m bench.runs_on --columns CompiledModel "LiteRT.js" ... --json ...      # others stay as they were measured
    python -m bench.runs_on --markdown > docs/runs-on.md      # from the committed result

Of a stream the five calls are pieces of one sequence, which TensorFlow gets as a whole; states that the file takes and
returns are handed on from call to call.

Every runtime runs in a process of its own. LiteRT and tflite-micro are those of this Python; LiteRT.js runs in Chromium
(`bench.runtimes.litert_js`), arm64 is emulated (`bench.runtimes.emulated`); others need a Python where they are
installed (tflite-runtime 2.14 needs numpy < 2). A file is converted for the target of the runtime.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import jfuse
from bench.runtimes import emulated, litert_js
from bench.runtimes.models import Stream
from jfuse.base.errors import JfuseError
from jfuse.base.limits import Limits
from jfuse.base.measure import relative_error
from jfuse.proof.inputs import draws
from jfuse.running.file_process import CompiledModelProcess
from jfuse.running.interpreter import LiteRt
from jfuse.running.micro import MicroInterpreter, has_micro, measured_arena
from jfuse.running.programs.device import Device
from jfuse.verification.runners.in_tensorflow import InTensorFlow, variables_restored
from tests.browser import Browser, chromium, started

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
    *(Column(f"arm64 {cpu}", "litert") for cpu in emulated.CPUS),
    Column("CompiledModel", "compiled-model"),
    Column("LiteRT.js", "compiled-model"),
    Column("tflite-runtime", "litert>=2.14"),
    Column("onert", "litert>=2.14"),
    Column("tflite-micro", "tflite-micro"),
    *(Column(runtime, "litert-gpu") for runtime in ("openvino", "apache-tvm", "iree-base-runtime")),
    Column("LiteRT GPU", "litert-gpu", runs=False),
    Column("Google Tensor", "google-tensor", runs=False),
    Column("Ethos-U55", "ethos-u55", runs=False),
)
Calls = Sequence[Sequence[np.ndarray]]


@dataclass(frozen=True)
class Place:
    """Where runtimes are.   pythons: by name, those of other Pythons; browser: that of LiteRT.js; folder: for files"""

    pythons: Mapping[str, str]
    browser: Browser | None
    folder: Path

    def why_missing(self, runtime: str) -> str:
        """Why a runtime does not run here; empty where it does."""
        if runtime.startswith("arm64 "):
            return emulated.why_missing()
        if runtime == "LiteRT.js":
            return litert_js.why_missing() if self.browser is None else ""
        known = runtime in ("CompiledModel", *self.pythons) or (runtime == "tflite-micro" and has_micro())
        return "" if known else "not installed"


def measured(source: Any, place: Place, columns: Sequence[Column] = COLUMNS) -> dict[str, str]:
    """The word of each column on one model."""
    task = _streamed(source) if isinstance(source, Stream) else _called(source)
    files: dict[str, Any] = {}
    found = {}
    for column in columns:
        if column.target not in files:
            files[column.target] = _converted(task, column.target)
        lite = files[column.target]
        if isinstance(lite, str):
            found[column.runtime] = lite
        elif not column.runs:
            found[column.runtime] = "converts"
        elif missing := place.why_missing(column.runtime):
            found[column.runtime] = missing
        else:
            found[column.runtime] = _told(lite, column.runtime, place, task)
    lite = files.get("tflite-micro", "")
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
    model = jfuse.load(stream.model, jfuse.Inputs(shapes={name: pieces[0].shape}))
    return _Task(model, stream.state, [[piece] for piece in pieces], [[answer] for answer in answers])


def _converted(task: _Task, target: Any) -> jfuse.Model | str:
    try:
        return jfuse.lower(task.model, target=target, state=task.state)
    except JfuseError as error:
        return f"no file: {' '.join(str(error.found or error.message).split())[:160]}"


def _told(lite: jfuse.Model, runtime: str, place: Place, task: _Task) -> str:
    """Say that the answers are right, or what is wrong."""
    exposed = lite.program.signatures[0].exposed
    first = [*task.calls[0], *(np.asarray(state.initial.array) for state in exposed)]
    calls = [first, *task.calls[1:]]
    try:
        if runtime in place.pythons:
            answers = _in_a_process(lite, runtime, place.pythons[runtime], calls, place.folder)
        else:
            answers = _by_name(lite, runtime, place, calls)
    except (JfuseError, RuntimeError) as error:
        return f"refused: {' '.join(str(getattr(error, 'found', '') or error).split())[-160:]}"
    errors = [
        relative_error(f.reshape(w.shape), w) if f.size == w.size else float("inf")
        for ours, theirs in zip(answers, task.wanted, strict=True)
        for f, w in zip(ours[: len(ours) - len(exposed)], theirs, strict=True)
    ]
    return "right" if max(errors) <= RIGHT else f"wrong: {max(errors):.1e}"


def _by_name(lite: jfuse.Model, runtime: str, place: Place, calls: Calls) -> list[list[np.ndarray]]:
    """Calls in a runtime whose inputs and outputs have names."""
    (signature,) = lite.program.signatures
    found: list[list[np.ndarray]] = []
    with _caller(lite, runtime, place) as run:
        for call in calls:
            states = found[-1][len(signature.output_names) - len(signature.exposed) :] if found else []
            results = run(dict(zip(signature.input_names, [*call, *states], strict=True)))
            found.append([results[name] for name in signature.output_names])
    return found


@contextmanager
def _caller(lite: jfuse.Model, runtime: str, place: Place) -> Iterator[Callable[..., Mapping[str, np.ndarray]]]:
    """The function of one call by names, of a file that is loaded as long as the block lasts."""
    data = lite.to_bytes()
    if runtime == "tflite-micro":
        with MicroInterpreter(data) as micro:
            yield micro.run
    elif runtime == "CompiledModel":
        with CompiledModelProcess(data, lite.program) as compiled:
            yield compiled.run
    elif runtime == "LiteRT.js":
        assert place.browser is not None, "why_missing"
        with litert_js.LiteRtJs(place.browser) as page:
            page.load(data)
            yield page.call
    else:
        device = Device(emulated.command(runtime.removeprefix("arm64 ")))
        limits = Limits(seconds=LIMIT_S)
        yield partial(LiteRt(data, limits=limits, device=device).run, lite.program.signatures[0].key)


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
    names = [c.runtime for c in COLUMNS if any(c.runtime in told for told in result["models"].values())]
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
        cells = [_cell(told.get(n, ""), notes) for n in names]
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--columns", nargs="*", choices=[c.runtime for c in COLUMNS])
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    if arguments.markdown:
        sys.stdout.write(markdown(json.loads(RESULT.read_text())))
        return
    from bench.runtimes.models import MODELS

    pythons = {"ai-edge-litert": sys.executable} | dict(p.split("=", 1) for p in arguments.python)
    columns = [c for c in COLUMNS if not arguments.columns or c.runtime in arguments.columns]
    names = [name for name in MODELS if not arguments.parts or any(part in name for part in arguments.parts)]
    path: Path | None = arguments.json
    old = json.loads(path.read_text()) if path is not None and path.exists() else {"versions": {}, "models": {}}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        executable = None if litert_js.why_missing() else chromium()
        browser = None if executable is None else stack.enter_context(started(executable, folder / "profile"))
        place = Place(pythons, browser, folder)
        for name in names:
            begun = time.perf_counter()
            try:
                found = measured(MODELS[name](), place, columns)
            except Exception as error:  # a row of its own: the other models are measured all the same
                found = {c.runtime: f"no file: {type(error).__name__}: {error}"[:160] for c in columns}
            print(f"{name} ({time.perf_counter() - begun:.0f} s): {found}", flush=True)
            old["models"][name] = old["models"].get(name, {}) | found
            if path is not None:  # other rows and columns stay as they were measured
                versions = old["versions"] | {k: v for k, v in _versions(pythons, columns).items() if v}
                result = {"machine": f"{platform.machine()}, one thread", "versions": versions, "models": old["models"]}
                path.write_text(json.dumps(result, indent=1) + "\n")


def _versions(pythons: Mapping[str, str], columns: Sequence[Column]) -> dict[str, str]:
    code = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"
    ours = {**pythons, **({"tflite-micro": sys.executable} if has_micro() else {})}
    installed = {
        name: subprocess.run([python, "-c", code, name], capture_output=True, text=True, check=False).stdout.strip()
        for name, python in ours.items()
    }
    asked = {c.runtime for c in columns}
    return {k: v for k, v in {**installed, "LiteRT.js": litert_js.version()}.items() if k in asked}


if __name__ == "__main__":
    main()
