"""Conversions in processes of their own: how long they take, and how much memory."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jfuse.base.errors import KernelFailed
from jfuse.base.options import texts_of
from jfuse.benchmark.one_conversion import FIGURES, FILE, REQUEST
from jfuse.frontends.selection import Inputs
from jfuse.running.programs.guarded_run import guarded_run

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}
_LONGEST = 400  # characters of an error


@dataclass(frozen=True)
class BenchmarkSource:
    """The source of a conversion: its path and its inputs."""

    path: Path
    inputs: Inputs = Inputs()

    @property
    def load(self) -> dict[str, Any]:
        """The fields of the inputs that a command line has: a file needs no others."""
        return {f.name: getattr(self.inputs, f.name) for f, text in texts_of(Inputs) if text.flag != ""}


@dataclass(frozen=True)
class ConversionRun:
    """File, time and memory of one conversion, or its `error`.   recurrent: whether it has recurrences"""

    data: bytes = b""
    error: str = ""
    seconds: float | None = None
    peak_mib: float | None = None
    recurrent: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)


def converted(by: str, source: BenchmarkSource, options: Mapping[str, Any], limit_s: float) -> ConversionRun:
    """One conversion.   by: "jfuse", "official" or "xla", which loads and compiles; options: of `jfuse.convert`

    limit_s: seconds after which the process is ended.
    """
    request = {
        "by": by,
        "source": str(source.path.resolve()),
        "load": source.load,
        "options": dict(options),
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
        command = [sys.executable, "-m", "jfuse.benchmark.one_conversion", temporary]
        environment = {**os.environ, **_QUIET, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        try:
            run = guarded_run(command, folder, limit_s, name="the conversion", environment=environment)
        except KernelFailed as error:
            return ConversionRun(error=_cut(f"{error.message}: {error.found or error.expected}"))
        if not (folder / FIGURES).exists():
            words = run.stderr.strip().splitlines()
            return ConversionRun(error=_cut(f"the process ended with {run.returncode}: {words[-1] if words else ''}"))
        figures = json.loads((folder / FIGURES).read_text(encoding="utf-8"))
        file = folder / FILE
        data = file.read_bytes() if file.exists() else b""
    return ConversionRun(**{"data": data, **figures, "error": _cut(figures["error"])})


def _cut(text: str) -> str:
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
