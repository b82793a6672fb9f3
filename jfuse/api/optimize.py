"""`jfuse.optimize`: a .tflite file in fewer operators, fewer bytes and less time; or the file as it is, and why."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.api.load import load
from jfuse.api.lower import lower, operator_counts
from jfuse.api.result_names import with_result_names
from jfuse.api.verify import verify as compare
from jfuse.base.errors import JfuseError
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.base.option_values import path_of, real
from jfuse.base.options import given
from jfuse.ir.graph import Const, Program
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.model import Model
from jfuse.passes.options import CountedStage, Forms, Pipeline
from jfuse.quantization.recipe import LEAST_HALVES
from jfuse.quantization.recipe_names import RecipeName
from jfuse.records.conversion import Report
from jfuse.reports.target_check import check_targets
from jfuse.tflite.associated_files import with_files_of
from jfuse.tflite.mapped_file import read_file
from jfuse.tflite.read.external import has_other_files
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.compiled_model import interpreter_only
from jfuse.tflite.targets.names import TargetName
from jfuse.verification.file_answers import unknown_operators
from jfuse.verification.file_times import Timing, timed
from jfuse.verification.verify import OnProgress

_FORMS = (Forms(), Forms(prefer="speed"), Forms(loop="while"), Forms(prefer="speed", loop="while"))
"""The forms of recurrences, in the order in which they are tried."""
_HALVES: RecipeName = "float16"
"""The recipe of a further form of files with f16 weights: they stay f16."""
_INPUT, _AGAIN = "the file itself", "the file itself, once more"


@only_jfuse_errors("optimization")
def optimize(
    source: str | Path,
    *,
    target: TargetName | Sequence[TargetName] = Forms.target,
    pipeline: Pipeline | None = None,
    verify: bool = True,
    slower: float = 1.0,
    unsafe: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Model:
    """Optimize any .tflite file: fuse loops, join unrolled steps, use fewer operators.

    The result never has more operators or bytes than the file, and never takes more time, where that can be measured
    here: in LiteRT, for targets that run it. Where nothing better is found the file is kept byte by byte, and
    `report.notes` says why. Signatures, metadata, the names of inputs and outputs and associated files stay. Files of
    integers are left as they are.
    source: the path of the file. target, pipeline: as `lower` has them.
    verify: compare the result with the file, both in LiteRT, on several calls in a row; raises VerifyFailed where they
        differ.
    slower: how many times as long as the file the result may take. Above 1 the smallest such form is taken, else the
        fastest.
    unsafe, limits: as in `load`.
    """
    path = path_of("a source to optimize", source)
    if path.suffix != ".tflite":
        raise JfuseError("only .tflite files are optimized", where=str(source), remedy="jfuse.convert takes sources")
    real("slower=", slower, positive=True)
    target_named(target)
    own = given(Pipeline, "pipeline", pipeline)
    own.on_stage("import")
    model = load(path, pipeline=own, unsafe=unsafe, limits=limits)
    if has_other_files(bytes(read_file(path)[0])):
        return _kept(model, path, target, ["its weights lie in other files"])
    data = bytes(read_file(path)[0])
    search = _Search(model, data, target, own, slower, limits)
    best, timing = search.best()
    if best is None:
        return _kept(model, path, target, search.reasons)
    result = _finished(best, with_files_of(data, best.to_bytes(), path, limits), data, timing)
    if timing is not None:
        result.report.seconds["measure"] = search.seconds
    unknown = sorted(unknown_operators(model.program))
    if unknown:
        result.report.notes.append(f"the result was not compared: LiteRT has no kernel for {', '.join(unknown)}")
    elif verify:
        own.on_stage("verify")
        _verified(result, path, limits, CountedStage.of(own.on_stage, "verify", "calls"))
    return result


@dataclass
class _Search:
    """Tries the forms of one file."""

    model: Model
    data: bytes
    target: TargetName | Sequence[TargetName]
    pipeline: Pipeline
    slower: float
    limits: Limits

    def __post_init__(self) -> None:
        self.reasons: list[str] = []
        self.seconds = 0.0  # of measuring

    def best(self) -> tuple[Model | None, Timing | None]:
        """The best form that is no larger, and its time relative to the file's; None if there is none."""
        forms: dict[str, Model] = {}
        for lowered in self._lowered():
            text = lowered.to_bytes()
            if text == self.data or any(text == other.to_bytes() for other in forms.values()):
                continue
            if self._is_no_larger(text):
                forms[f"form {len(forms) + 1}"] = lowered
        if not forms:
            self.reasons = self.reasons or ["it is in the best form known already"]
            return None, None
        if not target_named(self.target).is_timed_here or unknown_operators(self.model.program):
            return next(iter(forms.values())), None  # LiteRT's times on this machine say nothing of such a target
        self.pipeline.on_stage("measure")
        files = {_INPUT: self.data, _AGAIN: self.data, **{name: m.to_bytes() for name, m in forms.items()}}
        started = time.perf_counter()
        times = timed(files, self.model.program, limits=self.limits)
        self.seconds = time.perf_counter() - started
        # What one file takes beside itself is what cannot be told apart.
        limit = self.slower * max(1.0, times[_AGAIN].ratio, 1 / times[_AGAIN].ratio)
        ranked = sorted(forms, key=lambda n: times[n].ratio)
        fits = [name for name in ranked if times[name].ratio <= limit]
        if fits:  # where time may be spent, it is spent for bytes
            name = min(fits, key=lambda n: len(files[n])) if self.slower > 1 else fits[0]
            return forms[name], times[name]
        name = ranked[0]
        self.reasons.append(
            f"the fastest other form takes {times[name].ratio:.2f} times as long "
            f"({times[name].microseconds:.0f} instead of {times[_INPUT].microseconds:.0f} us in LiteRT on this machine)"
        )
        return None, None

    def _lowered(self) -> Iterator[Model]:
        halves = [_HALVES] if _holds_halves(self.model.program) else []
        for recipe, forms in ((recipe, form) for recipe in (*halves, None) for form in _FORMS):
            try:
                lowered = lower(self.model, target=self.target, forms=forms, quantize=recipe, pipeline=self.pipeline)
                if lowered.unquantized is not None and not _are_halves(lowered.unquantized.program):
                    continue
                program = with_result_names(lowered.program, self.model.program)
                yield Model(program, report=lowered.report, limits=self.limits)
            except JfuseError as error:
                reason = f"{error.message}" + (f" ({error.where})" if error.where else "")
                if reason not in self.reasons:
                    self.reasons.append(reason)

    def _is_no_larger(self, text: bytes) -> bool:
        sizes = [(operators_in(self.data), operators_in(text), "operators"), (len(self.data), len(text), "bytes")]
        more = [f"{after:,} {what} instead of {before:,}" for before, after, what in sizes if after > before]
        reason = f"another form has {' and '.join(more)}"
        if more and reason not in self.reasons:
            self.reasons.append(reason)
        return not more


def _holds_halves(program: Program) -> bool:
    """Whether weights lie in a file as halves, and are made floats when it runs."""
    eqns = (eqn for graph in program.graphs() for eqn in all_eqns(graph) if eqn.op.scales == "out_of")
    return any(isinstance(x := eqn.inputs[0], Const) and x.type.dtype is DType.f16 for eqn in eqns)


def _are_halves(program: Program) -> bool:
    """Whether no constant that the recipe makes halves loses a digit by it."""
    atoms = (a for graph in program.graphs() for eqn in all_eqns(graph) for a in eqn.inputs)
    large = (
        a.array for a in atoms if isinstance(a, Const) and a.type.dtype is DType.f32 and a.type.size >= LEAST_HALVES
    )
    with np.errstate(over="ignore"):
        return all(np.array_equal(a, a.astype(np.float16), equal_nan=True) for a in large)


def operators_in(data: bytes) -> int:
    """How many operators a file holds, in all subgraphs."""
    model = schema.Model.GetRootAs(data, 0)
    return sum(model.Subgraphs(i).OperatorsLength() for i in range(model.SubgraphsLength()))


def _kept(model: Model, path: Path, target: TargetName | Sequence[TargetName], reasons: list[str]) -> Model:
    """The file as it is, and which targets do not take it."""
    data = bytes(read_file(path)[0])
    report = replace(model.report, size_bytes=len(data), operators=operator_counts(model.program.graphs()))
    report.interpreter_only = interpreter_only(model.program, target_named(target))
    report.notes = [*model.report.notes, *(f"the file is kept as it is: {reason}" for reason in reasons)]
    refusing = [t for t in check_targets(model.program, data, target_named(target).each()).targets if not t.runs]
    report.notes += [
        f"{t.target} does not take the file: {next(t.why_not())}; jfuse.convert(…, target=) writes another one"
        for t in refusing
    ]
    return model.with_bytes(data, report)


def _finished(found: Model, text: bytes, data: bytes, timing: Timing | None) -> Model:
    """The model as `text`, with a report that compares it with the original file, `data`."""
    report: Report = replace(found.report, size_bytes=len(text))
    before = f"{operators_in(data)} operators and {len(data):,} bytes"
    report.notes = [*report.notes, f"the file had {before}; now {operators_in(text)} and {len(text):,}"]
    if timing is None:
        report.notes.append("times were not compared: this machine does not run files of this target")
    else:
        report.notes.append(
            f"it takes {timing.ratio:.2f} of the time ({timing.microseconds:.0f} us in LiteRT on this machine)"
        )
    return found.with_bytes(text, report)


def _verified(result: Model, path: Path, limits: Limits, on_progress: OnProgress) -> None:
    started = time.perf_counter()
    compare(result, path, limits=limits, on_progress=on_progress)
    result.report.seconds["verify"] = time.perf_counter() - started
