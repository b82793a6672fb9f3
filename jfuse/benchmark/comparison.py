"""`jfuse.bench`: measures a model's files by jfuse and by the official converter side by side."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.api.load import load
from jfuse.api.verify import verify as compare
from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.benchmark.conversions import BenchmarkSource, ConversionRun, converted
from jfuse.benchmark.result import ALL_THREADS, Benchmark, BenchRow, Latency
from jfuse.frontends.selection import Inputs
from jfuse.model import Model
from jfuse.passes.options import CountedStage, OnStage
from jfuse.programs.operator_times import operator_times
from jfuse.quantization.data import RANDOM
from jfuse.quantization.recipe_names import RecipeName
from jfuse.running.cores import cores
from jfuse.running.loaded_file import asked
from jfuse.running.programs.device import Device
from jfuse.running.worker import LiteRtFailed, Refused
from jfuse.tflite.mapped_file import read_file
from jfuse.tflite.targets.file_operators import operators_of
from jfuse.tflite.write.named_file import with_signature
from jfuse.verification.file_times import SECONDS, Turn, drawn_inputs, in_turns, litert_turn
from jfuse.verification.options import Verify

FORMS: Mapping[str, Mapping[str, Any]] = {
    "jfuse": {},
    'jfuse, prefer="speed"': {"prefer": "speed"},
    "jfuse, WHILE": {"recover": False, "loop": "while"},
    "jfuse, unrolled": {"recover": False, "loop": "unroll"},
}
"""The forms of jfuse's file: those after the first are of models with recurrences."""
OFFICIAL, XLA, SOURCE_FILE = "official converter", "XLA", "the file"
_XLA_CALLS = 6  # in a row


@only_jfuse_errors("measuring")
def bench(
    source: str | Path,
    inputs: Inputs | None = None,
    *,
    batch: int | None = None,
    against: str | Path | None = None,
    quantize: RecipeName | Path | None = None,
    calibration: str | Path | None = None,
    threads: Sequence[int] = (1, 2, 4),
    profile: bool = True,
    seconds: float = SECONDS,
    device: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    on_stage: OnStage = lambda stage: None,
) -> Benchmark:
    """jfuse's file in each form of its recurrences, the official converter's, and the source on XLA, measured.

    Each conversion is a process of its own that starts from the file: its time, and the most memory held. Latencies of
    random inputs are taken in turns. A failure is a row with the reason.

    source: the path of a model, or of a .tflite file, which then stands in the place of the official converter's.
    inputs, batch: as `load` has them; sizes that stay open are the smallest that are tried.
    against: the path of another .tflite file with the same inputs, to be measured as well.
    quantize: a recipe by name, or a .json file: one more row, of jfuse's file by it. calibration: the path of its data,
        as `lower` has it; by default drawn ones.
    threads: of LiteRT. XLA takes as many as it likes. profile: also time each operator alone, with one thread.
    seconds: of calls for each file and number of threads.
    limits: as `load` has them; its `conversion_seconds` are what one conversion may take.
    device: a command that starts a Python with ai-edge-litert elsewhere, as `jfuse.Verify` has it: files are timed and
        compared there. Conversions and XLA run here.
    Raises JfuseError where the source cannot be loaded: then there is nothing to measure.
    """
    if not isinstance(source, str | Path):
        raise JfuseError(
            "only files are measured, as each conversion is a process of its own",
            found=type(source).__name__,
            remedy="save the model first: model.export(folder), or tf.saved_model.save(module, folder)",
        )
    if not threads or min(threads) < 1:
        raise JfuseError("threads= are positive numbers", found=list(threads))
    what = BenchmarkSource(Path(source), Inputs.of(inputs, batch=batch))
    there = None if device is None else Device(device)
    about = None if there is None else asked(there, limits)  # before anything slow
    on_stage("import")
    model = load(what.path, what.inputs, limits=limits)
    bench_ = _Bench(model, what, limits, on_stage, there)
    recipe = None if quantize is None else (str(quantize), _data(calibration))
    files = dict(bench_.files(None if against is None else Path(against), limits.conversion_seconds, recipe))
    rows = bench_.measured(files, tuple(threads), seconds)
    rows = [bench_.compared(row, files[row.name].data) for row in rows]
    if profile:
        rows = [bench_.profiled(row, files[row.name].data) for row in rows]
    signature = model.program.signatures[0]
    types = {n: str(v.type) for n, v in zip(signature.input_names, signature.graph.inputs, strict=False)}
    machine = _machine() if about is None else f"{about}; conversions and XLA on {_machine()}"
    return Benchmark(str(source), machine, _versions(), types, tuple(rows))


def _data(calibration: str | Path | None) -> str:
    """Calibration data in the form that the process of a conversion reads."""
    return RANDOM if calibration in (None, RANDOM) else str(Path(str(calibration)).resolve())


@dataclass(frozen=True)
class _Bench:
    """One model that is measured."""

    model: Model
    source: BenchmarkSource
    limits: Limits
    on_stage: OnStage
    device: Device | None = None

    def files(
        self, against: Path | None, limit_s: float, recipe: tuple[str, str] | None
    ) -> Iterator[tuple[str, ConversionRun]]:
        """Every file by name, with the cost of its conversion; XLA has none.   recipe: with its data, of one more"""
        is_file = self.source.path.suffix == ".tflite"
        if is_file:
            yield SOURCE_FILE, ConversionRun(bytes(read_file(self.source.path)[0]))
        forms = iter(FORMS.items())
        name, options = next(forms)
        first = self._converted(name, "jfuse", options, limit_s)
        name_by_file = {first.data: name}
        yield name, first
        for name, options in forms if first.recurrent else ():
            run = self._converted(name, "jfuse", options, limit_s)
            if run.data in name_by_file and not run.error:
                run = replace(run, error=f"the same file as {name_by_file[run.data]}", data=b"")
            name_by_file.setdefault(run.data, name)
            yield name, run
        if recipe is not None:
            options = {"quantize": recipe[0], "calibration": recipe[1]}
            yield f"jfuse, {recipe[0]}", self._converted(f"jfuse, {recipe[0]}", "jfuse", options, limit_s)
        if not is_file:
            yield OFFICIAL, self._converted(OFFICIAL, "official", {}, limit_s)
        yield XLA, self._converted(XLA, "xla", {}, limit_s)
        if against is not None:
            yield against.name, ConversionRun(bytes(read_file(against)[0]))

    def _converted(self, name: str, by: str, options: Mapping[str, Any], limit_s: float) -> ConversionRun:
        self.on_stage(f"converting: {name}")
        return converted(by, self.source, options, limit_s)

    def measured(self, files: Mapping[str, ConversionRun], threads: Sequence[int], seconds: float) -> list[BenchRow]:
        """A row for each file with its latencies."""
        rows = {name: _row(name, latencies) for name, latencies in files.items()}
        self.on_stage("measure: XLA")
        latencies: dict[str, dict[int, Latency]] = {name: {} for name in files}
        for count in threads:
            self.on_stage(f"measure: {count} thread{'s' if count > 1 else ''}")
            turns: dict[str, Turn] = {}
            for name, file in files.items():
                if not file.data:
                    continue
                try:
                    named, inputs = self._named(file.data), self._calls()
                    turns[name] = litert_turn(named, inputs, threads=count, limits=self.limits, device=self.device)
                except (Refused, LiteRtFailed) as error:
                    if count == threads[0]:
                        rows[name] = rows[name].noted(f"LiteRT does not run it: {error}".replace("\n", " "))
            if count == threads[0] and not rows[XLA].error:
                turns[XLA] = self._xla_turn()
            for name, calls in in_turns(turns, seconds).items():
                latencies[name][ALL_THREADS if name == XLA else count] = Latency.of([s for turn in calls for s in turn])
        return [replace(row, latency=latencies[name]) for name, row in rows.items()]

    def _named(self, data: bytes) -> bytes:
        return with_signature(data, self.model.program)

    def _calls(self) -> list[tuple[str, dict[str, np.ndarray]]]:
        program = self.model.program
        return [(s.key, drawn_inputs(program, number)) for number, s in enumerate(program.signatures)]

    def _xla_turn(self) -> Turn:
        calls = [(self.model.runner(key), self._arguments(key, inputs)) for key, inputs in self._calls()]
        return xla_turn(calls)

    def _arguments(self, key: str, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        signature = self.model.signature(key)
        states = [state.initial.array for state in signature.states]
        return [*(inputs[name] for name in signature.input_names), *states]

    def compared(self, row: BenchRow, data: bytes) -> BenchRow:
        """The row with the largest error of the file against the source."""
        if not data:
            return row
        self.on_stage(f"comparing: {row.name}")
        try:
            against = self.source.path if self.source.path.suffix == ".tflite" else self.model
            device = None if self.device is None else self.device.command
            verification = compare(data, against, Verify(edges="none", shrink=0, device=device), limits=self.limits)
        except VerifyFailed as failed:
            if failed.verification is None:
                return row.noted(" ".join(f"not compared: {failed.reason}".split()))
            verification = failed.verification
            row = row.noted(f"differs from the source: {failed.message}")
        except JfuseError as error:
            return row.noted(" ".join(f"not compared: {error.reason}".split()))
        errors = [d.error for d in verification.differences if "litert" in d.pair.lower()] or [
            d.error for d in verification.differences
        ]
        return replace(row, difference=max(errors, default=None))

    def profiled(self, row: BenchRow, data: bytes) -> BenchRow:
        """The row with the time of each operator of its first signature."""
        if not data or not row.latency:
            return row
        stage = f"profile: {row.name}"
        self.on_stage(stage)
        counted = CountedStage.of(self.on_stage, stage, "operators")
        key, inputs = self._calls()[0]
        try:
            profile = operator_times(self._named(data), key, inputs, self.limits, self.device, counted)
            return replace(row, profile=profile)
        except JfuseError as error:
            return row.noted(" ".join(f"no profile: {error.reason}".split()))


def xla_turn(calls: Sequence[tuple[Callable[[list[np.ndarray]], Any], list[np.ndarray]]]) -> Turn:
    """A turn of runners on XLA: some calls in a row, each of all of them one after the other."""

    def turn() -> list[float]:
        times = []
        for _ in range(_XLA_CALLS):
            started = time.perf_counter()
            for runner, arguments in calls:
                runner(arguments)
            times.append(time.perf_counter() - started)
        return times[1:]

    turn()
    return turn


def _row(name: str, found: ConversionRun) -> BenchRow:
    return BenchRow(
        name,
        found.error,
        found.seconds,
        found.peak_mib,
        len(found.data) or None,
        operators_of(found.data) if found.data else {},
    )


def _machine() -> str:
    return f"{platform.system()} {platform.machine()}, {cores()} cores"


def _versions() -> dict[str, str]:
    versions = {}
    for name in ("jfuse", "jax", "ai-edge-litert", "tensorflow", "keras"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
