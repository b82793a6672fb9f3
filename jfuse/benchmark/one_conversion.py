"""Run one conversion in a process of its own.

    python -m jfuse.benchmark.one_conversion FOLDER

FOLDER/request.json names the source and the converter; model.tflite and figures.json are written there.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jfuse.api.convert import convert
from jfuse.api.load import load
from jfuse.base.errors import JfuseError
from jfuse.benchmark.peak_memory import begin_peak, peak_mib
from jfuse.frontends.official_converter import official_bytes, official_converter
from jfuse.frontends.selection import Inputs
from jfuse.verification.file_times import drawn_inputs

REQUEST, FIGURES, FILE = "request.json", "figures.json", "model.tflite"
_LACKING = "TF Select ops:"
_ERROR = re.compile(r"[\w.]+(Error|Exception|Failed)\b|error:")


def main(folder: Path) -> None:
    """Convert, and write the file with time and memory."""
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    for module in request["load"]["modules"]:
        importlib.import_module(module)
    figures: dict[str, Any] = {"error": ""}
    try:
        work = _WORKS[request["by"]](request)
        begin_peak()
        started = time.perf_counter()
        data, told = work()
        figures |= {"seconds": time.perf_counter() - started, "peak_mib": peak_mib(), **told}
        if data:
            (folder / FILE).write_bytes(data)
    except JfuseError as error:
        figures["error"] = " ".join(error.reason.split())
    except Exception as error:  # the official converter raises whatever it meets
        figures["error"] = _reason(error)
    (folder / FIGURES).write_text(json.dumps(figures), encoding="utf-8")


_Work = Callable[[], tuple[bytes, dict[str, Any]]]


def _by_jfuse(request: Mapping[str, Any]) -> _Work:
    def work() -> tuple[bytes, dict[str, Any]]:
        inputs = Inputs(**request["load"])
        result = convert(Path(request["source"]), inputs, verify=False, **request["options"])
        data = result.to_bytes()
        report = result.report
        recurrent = bool(report.loops) or any(fusion.speed is not None for fusion in report.fused)
        return data, {"recurrent": recurrent, "steps": dict(report.seconds)}

    return work


def _officially(request: Mapping[str, Any]) -> _Work:
    def work() -> tuple[bytes, dict[str, Any]]:
        asked, source = request["load"], Path(request["source"])
        return official_bytes(
            official_converter(source, asked["signatures"], asked["shapes"] or {}, asked["batch"])
        ), {}

    return work


def _on_xla(request: Mapping[str, Any]) -> _Work:
    def work() -> tuple[bytes, dict[str, Any]]:
        model = load(Path(request["source"]), Inputs(**request["load"]))
        for number, signature in enumerate(model.program.signatures):
            model.run(drawn_inputs(model.program, number), signature.key)
        return b"", {}

    return work


_WORKS: Mapping[str, Callable[[Mapping[str, Any]], _Work]] = {
    "jfuse": _by_jfuse,
    "official": _officially,
    "xla": _on_xla,
}


def _reason(error: Exception) -> str:
    """Which ops the official converter lacks, else the line of the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lacking = [line for line in lines if line.startswith(_LACKING)]
    said = [line for line in lines if _ERROR.search(line)]
    return f"{type(error).__name__}: {next(iter([*lacking, *said, *lines]), '')}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
