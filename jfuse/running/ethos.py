"""Arm's compiler for Ethos-U (`jfuse[ethos]`), as a check: which operators of a file run on the NPU."""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from jfuse.errors import VerifyFailed
from jfuse.running.programs.guarded_run import guarded_run

_CONFIGURATIONS = {"ethos-u55": "ethos-u55-128", "ethos-u65": "ethos-u65-256", "ethos-u85": "ethos-u85-256"}
_LIMIT_S = 300.0
_FAILED = "Compilation failed:"
_SAID = 300  # characters of what it says
_COUNTS = re.compile(r"^(CPU|NPU) operators = (\d+)", re.MULTILINE)
_ON_CPU = re.compile(r"^ +CPU: \S+ = (.*?) \(outputs", re.MULTILINE)


@dataclass(frozen=True)
class Placed:
    """How many operators the compiler made for the NPU, and the tensors that the CPU is left to make, by name."""

    npu: int
    cpu: tuple[str, ...]


def has_ethos() -> bool:
    """Whether Ethos-U's compiler, the package ethos-u-vela, is installed."""
    return find_spec("ethosu") is not None


def placed(data: bytes, target: str) -> Placed:
    """What the compiler makes of a file for a target.

    Raises VerifyFailed where it refuses the file, KernelFailed where it does not come to an end.
    """
    with tempfile.TemporaryDirectory(prefix="jfuse-") as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(data)
        options = ["--accelerator-config", _CONFIGURATIONS[target], "--output-dir", folder, "--show-cpu-operations"]
        command = [sys.executable, "-m", "ethosu.vela", str(path), *options]
        ran = guarded_run(command, Path(folder), _LIMIT_S, name="Arm's compiler")
    counts = {place: int(count) for place, count in _COUNTS.findall(ran.stdout)}
    if ran.returncode or counts.keys() != {"CPU", "NPU"}:
        said = " ".join((ran.stderr.partition(_FAILED)[2] or ran.stderr or ran.stdout).split())
        raise VerifyFailed("Arm's compiler refuses the file", found=said[:_SAID] or f"exit code {ran.returncode}")
    return Placed(counts["NPU"], tuple(_ON_CPU.findall(ran.stdout)))
