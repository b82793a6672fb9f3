"""A verification, and the conversion before it, as JSON: docs/reports.md says what each field means.

verification.schema.json beside this file is the JSON Schema. A field that goes, or changes its meaning, makes a new
VERSION; new fields do not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jfuse.base.files import write_atomic
from jfuse.base.measure import Measure, as_json_number
from jfuse.records.conversion import Difference, LatencyRatio, Refusal, Report, Speed
from jfuse.records.verification import EquationError, Verification
from jfuse.reports.explain import remedy_of

FORMAT, VERSION = "jfuse.verification", 1


def to_json(verification: Verification, report: Report | None = None) -> dict[str, Any]:
    """The content of `write_json` as dicts, lists, texts, numbers, bools and None.

    report: of the conversion that made the compared file, if there was one.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "subject": verification.subject,
        "reference": verification.reference,
        "passed": verification.passed,
        "backend": verification.backend,
        "samples": verification.samples,
        "seconds": _numbers(verification.seconds),
        "differences": [_difference(d) for d in verification.differences],
        "first": None if verification.first is None else _equation(verification.first),
        "equations": [_equation(e) for e in verification.equations],
        "notes": list(verification.notes),
        "failing": None if verification.failing is None else str(verification.failing),
        "command": verification.command,
        "unfinished": verification.unfinished,
        "conversion": None if report is None else conversion(report),
    }


def write_json(verification: Verification, path: str | os.PathLike[str], report: Report | None = None) -> Path:
    """Write the verification as JSON: whole or not at all. Raises JfuseError where that cannot be written."""
    return write_data(to_json(verification, report), path)


def write_report(report: Report, path: str | os.PathLike[str] | None, subject: str, reference: object) -> None:
    """Write the report of a conversion in the same form; nothing without a path.

    subject, reference: the file that was made, and the source.
    """
    if path is not None:
        verification = Verification(subject, str(reference), list(report.differences), seconds=dict(report.seconds))
        write_json(verification, path, report)


def write_data(data: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write dicts, lists, texts and numbers as JSON: whole or not at all."""
    text = json.dumps(data, indent=1, allow_nan=False)
    write_atomic(path, (text + "\n").encode("ascii"))
    return Path(path)


def measure(found: Measure | None) -> dict[str, float | str | None] | None:
    """The errors of a measure by name, as JSON has numbers; None where nothing was measured."""
    if found is None:
        return None
    fields = ("absolute", "relative", "ulp", "cosine", "snr")
    return {name: as_json_number(float(getattr(found, name))) for name in fields}


def conversion(report: Report) -> dict[str, Any]:
    """A conversion's report as a dict, without the differences, which the verification has."""
    return {
        "fused": [
            {
                "composite": f.composite,
                "rule": f.rule,
                "source": f.source,
                "becomes": list(f.becomes),
                "proof": f.proof,
                "conditions": list(f.conditions),
                "stopped": f.stopped,
                "samples": f.samples,
                "error": as_json_number(f.error),
                "recovered": f.recovered,
                "cell": f.cell,
                "unproven": f.unproven,
                "speed": _speed(f.speed),
            }
            for f in report.fused
        ],
        "refused": [_refusal(r) for r in report.refused],
        "assumptions": list(report.assumptions),
        "promises": [str(p) for p in report.promises],
        "loops": [
            {"source": x.source, "size": x.size, "form": x.form, "expected": _numbers(x.forms)} for x in report.loops
        ],
        "tuned": [
            {"source": t.source, "chosen": t.chosen, "microseconds": _numbers(t.microseconds)} for t in report.tuned
        ],
        "notes": list(report.notes),
        "interpreter_only": report.interpreter_only,
        "quantized": [
            {"op": q.op, "form": q.form, "count": q.count, "source": q.source, "reason": q.reason}
            for q in report.quantized
        ],
        "noise": [
            {
                "signature": n.signature,
                "output": n.output,
                "snr_db": as_json_number(n.snr_db),
                "count": n.count,
                "where": n.where,
                "part": n.part,
                "error": as_json_number(n.error),
            }
            for n in report.noise
        ],
        "latency": _latency(report.latency),
        "kept": [{"name": k.name, "type": k.type, "where": k.where} for k in report.kept],
        "custom": [
            {"code": c.code, "op": c.op, "count": c.count, "source": c.source, "cost": c.cost} for c in report.custom
        ],
        "operators": dict(report.operators),
        "size_bytes": report.size_bytes,
        "seconds": _numbers(report.seconds),
    }


def _latency(latency: LatencyRatio | None) -> dict[str, Any] | None:
    if latency is None:
        return None
    return _numbers(
        {"ratio": latency.ratio, "microseconds": latency.microseconds, "floats": latency.float_microseconds}
    )


def _speed(speed: Speed | None) -> dict[str, Any] | None:
    if speed is None:
        return None
    return {
        "fused_microseconds": as_json_number(speed.fused_microseconds),
        "plain_microseconds": as_json_number(speed.plain_microseconds),
        "plain": speed.plain,
        "kept": speed.is_kept,
        "expected": _numbers(speed.forms),
        "text": str(speed),
    }


def _refusal(refusal: Refusal) -> dict[str, str]:
    return {
        "what": refusal.what,
        "rule": refusal.rule,
        "condition": refusal.condition,
        "source": refusal.source,
        "detail": refusal.detail,
        "remedy": remedy_of(refusal.condition),
    }


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "signature": difference.signature,
        "output": difference.output,
        "pair": difference.pair,
        "error": as_json_number(difference.error),
        "tolerance": as_json_number(difference.tolerance),
        "passed": difference.error <= difference.tolerance,
        "reason": difference.reason,
        "samples": difference.samples,
        "measure": measure(difference.measure),
    }


def _equation(error: EquationError) -> dict[str, Any]:
    return {
        "signature": error.signature,
        "path": list(error.path),
        "op": error.op,
        "text": error.text,
        "source": error.source,
        "layer": error.layer,
        "pair": error.pair,
        "measure": measure(error.measure),
        "own": as_json_number(error.own),
        "operands": list(error.operands),
        "steps": list(error.steps),
        "first": error.first,
        "state": error.state,
        "call": error.call,
        "scale": error.scale,
        "delegate": error.delegate,
        "together": error.together,
    }


def _numbers(values: Mapping[str, float]) -> dict[str, float | str | None]:
    return {name: as_json_number(value) for name, value in values.items()}
