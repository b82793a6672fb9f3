"""`jfuse.tune`: each recurrence in the form that was measured to be the fastest, here or on a device."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jfuse.api.benchmark_output import benchmark_times
from jfuse.api.load import load_selected
from jfuse.api.lower import lower
from jfuse.api.verify import verify as compare
from jfuse.base.errors import JfuseError
from jfuse.base.files import write_atomic
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.option_values import path_of, real, several
from jfuse.base.options import given
from jfuse.frontends.selection import Inputs
from jfuse.model import Model
from jfuse.passes.options import FUSED, CountedStage, Forms, Pipeline
from jfuse.records.conversion import Report, TunedForms
from jfuse.running.loaded_file import asked
from jfuse.running.programs.device import Device
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.names import TargetName
from jfuse.verification.file_times import SECONDS, timed
from jfuse.verification.options import Verify
from jfuse.verification.verify import OnProgress

_MOST = 6  # forms of one recurrence that are measured
_FAR = 4.0  # times the expected time of the fastest form: what the cost model puts beyond is not measured
_LONGEST_S = 3600.0
_CHOSEN = "chosen"


@only_jfuse_errors("tuning")
def tune(
    source: Any,
    inputs: Inputs | Any = None,
    *,
    batch: int | None = None,
    target: TargetName | Sequence[TargetName] | None = None,
    forms: Forms | None = None,
    pipeline: Pipeline | None = None,
    timings: Sequence[str | Path] = (),
    candidates: str | Path | None = None,
    device: str | None = None,
    verify: bool = True,
    seconds: float = SECONDS,
    unsafe: bool = False,
) -> Model:
    """The model with each recurrence in its fastest form: fused, straight code, or WHILE with several steps a turn.

    Each form of one recurrence at a time is written and the whole file timed in LiteRT on this machine, in a process of
    its own, beside the others: they take turns. `report.tuned` has the times.

    source, inputs, batch, unsafe: as in `load`. target, forms, pipeline: as in `lower`.
    candidates: a folder; the files that are timed are written there, to be timed on a device.
    timings: files with output of LiteRT's benchmark_model on a device for these candidates, instead of timing here.
    device: a command that starts a Python with ai-edge-litert elsewhere, as `jfuse.Verify` has it: files are timed
        there, and the result is compared there, too.
    verify: compare the result with the source, as `convert` does. seconds: of calls for each file.
    Raises JfuseError if timings are not of this model's candidates.
    """
    own = given(Pipeline, "pipeline", pipeline)
    asked_for = given(Forms, "forms", forms, target=target)
    named = target_named(asked_for.target)
    real("seconds=", seconds, most=_LONGEST_S)
    logs = [path_of("timings=", log) for log in several("timings=", timings, "paths")]
    if logs and device is not None:
        raise JfuseError("timings= are of another device than device=", remedy="one of the two")
    there = None if device is None else Device(device)
    about = None if there is None else asked(there)  # before anything slow
    folder = None if candidates is None else path_of("candidates=", candidates)
    own.on_stage("import")
    model = load_selected(source, Inputs.of(inputs, batch=batch, unsafe=unsafe or None), own)
    tuning = _Tuning(model, asked_for, own)
    files = tuning.files
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            write_atomic(folder / f"{name}.tflite", data)
    if logs:
        result = tuning.best(_given(benchmark_times(logs), files), "on the device")
    elif there is not None and named.is_timed_here:
        own.on_stage("measure")
        times = timed(files, tuning.default.program, seconds, device=there)
        result = tuning.best({n: (t.microseconds, t.ratio) for n, t in times.items()}, f"in LiteRT on {about}")
    elif not named.in_interpreter:
        note = f"LiteRT's times on this machine say nothing of {named.name}"
        result = tuning.untimed(f"nothing was timed: {note}")
    else:
        own.on_stage("measure")
        times = timed(files, tuning.default.program, seconds)
        result = tuning.best({n: (t.microseconds, t.ratio) for n, t in times.items()}, "in LiteRT on this machine")
    if verify:
        own.on_stage("verify")
        is_file = isinstance(source, str | Path) and Path(source).suffix == ".tflite"
        on_progress = CountedStage.of(own.on_stage, "verify", "calls")
        _compared(result, source if is_file else None, device, on_progress)
    return result


@dataclass(frozen=True)
class _Candidate:
    """One recurrence in one form: the name of its file."""

    source: str
    form: str
    name: str


class _Tuning:
    """A model in all forms of its recurrences; `files` has their bytes by name, first the one that jfuse chooses."""

    def __init__(self, model: Model, forms: Forms, pipeline: Pipeline) -> None:
        self._model = model
        self._forms = forms
        self._pipeline = pipeline
        self.default = self._lowered({})
        data = self.default.to_bytes()
        self.files = {f"{_CHOSEN}-{_digest(data)}": data}
        self._candidates = [
            self._candidate(number, source, form)
            for number, (source, forms) in enumerate(_recurrences(self.default.report).items())
            for form in forms
        ]

    def best(self, times: Mapping[str, tuple[float, float]], where: str) -> Model:
        """The model with each recurrence in the form that took least.   times: microseconds and ratio, by name"""
        tuned = []
        for source in dict.fromkeys(c.source for c in self._candidates):
            timed = {c.form: times[c.name] for c in self._candidates if c.source == source and c.name in times}
            if timed:
                chosen = min(timed, key=lambda form: timed[form][1])
                columns = ({form: t[i] for form, t in timed.items()} for i in (0, 1))
                tuned.append(TunedForms(source, chosen, *columns))
        forms = {t.source: t.chosen for t in tuned}
        result = self._lowered(forms) if forms else self.default
        result.report.tuned = tuned
        note = f"forms were timed {where}" if tuned else "there is no recurrence with more than one form"
        return _reported(result, note)

    def untimed(self, why: str) -> Model:
        """The model as jfuse chooses, and why nothing was timed."""
        return _reported(self.default, why)

    def _lowered(self, forms: Mapping[str, str]) -> Model:
        asked_for = replace(self._forms, by_source={**self._forms.by_source, **forms})
        return lower(self._model, forms=asked_for, pipeline=self._pipeline)

    def _candidate(self, number: int, source: str, form: str) -> _Candidate:
        """A recurrence in a form; its file is an earlier one where that has the same bytes."""
        data = self._lowered({source: form}).to_bytes()
        same = next((name for name, known in self.files.items() if known == data), None)
        name = same or f"r{number}-{form}-{_digest(data)}"
        self.files[name] = data
        return _Candidate(source, form, name)


def _recurrences(report: Report) -> dict[str, list[str]]:
    """The recurrences by source, and the forms of each that may be the fastest by the cost model."""
    expected = {x.source: dict(x.forms) for x in reversed(report.loops)}
    expected |= {
        f.source: {FUSED: f.speed.fused_microseconds, **f.speed.forms} for f in report.fused if f.speed is not None
    }
    forms_by_source = {source: _near(forms) for source, forms in expected.items()}
    return {source: forms for source, forms in forms_by_source.items() if len(forms) > 1}


def _near(expected: Mapping[str, float]) -> list[str]:
    ranked = sorted(expected, key=lambda form: (form != FUSED, expected[form]))
    least = min(expected.values(), default=0.0)
    return [form for form in ranked if form == FUSED or expected[form] <= _FAR * least][:_MOST]


def _given(times: Mapping[str, float], files: Mapping[str, bytes]) -> dict[str, tuple[float, float]]:
    """The times of a device as microseconds and times of the file that jfuse chooses."""
    chosen = next(iter(files))
    if chosen not in times or len(times.keys() & files.keys()) < min(2, len(files)):
        raise JfuseError(
            "the timings are of other files than this model's candidates",
            expected=f"{chosen} and some of {', '.join(name for name in files if name != chosen) or 'no others'}",
            found=", ".join(times),
            remedy="write the candidates again (candidates=, --candidates) and time these",
        )
    return {name: (us, us / times[chosen]) for name, us in times.items() if name in files}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]


def _reported(result: Model, told: str) -> Model:
    result.report.notes.append(told)
    result.report.size_bytes = result.size_bytes
    return result


def _compared(result: Model, against: Any, device: str | None, on_progress: OnProgress) -> None:
    started = time.perf_counter()
    compare(result, against, Verify(device=device), on_progress=on_progress)
    result.report.seconds["verify"] = time.perf_counter() - started
