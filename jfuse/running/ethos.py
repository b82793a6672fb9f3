"""Arm's compiler for Ethos-U (`jfuse[ethos]`), as a check: which operators of a file run on the NPU."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from jfuse.base.errors import VerifyFailed
from jfuse.running.programs.guarded_run import guarded_run
from jfuse.tflite.schema import custom_code
from jfuse.tflite.targets.file_operators import first_results, operators_of

CONFIGURATIONS = {"ethos-u55": "ethos-u55-128", "ethos-u65": "ethos-u65-256", "ethos-u85": "ethos-u85-256"}
"""Of each target, as the compiler names them."""
_LIMIT_S = 300.0
_FAILED = "Compilation failed:"
_SAID = 300  # characters of what it says
_PROGRAM = custom_code("ethos-u")


@dataclass(frozen=True)
class Placement:
    """How many of a file's operators run on the NPU, and the tensors that the CPU is left to make, by name.

    What the compiler prints is not it: of 5.2 it counts a GATHER that the NPU runs among those of the CPU, and ends in
    an error of its own for operators that became several.
    """

    npu: int
    cpu: tuple[str, ...]


def has_ethos() -> bool:
    """Whether Ethos-U's compiler, the package ethos-u-vela, is installed."""
    return find_spec("ethosu") is not None


def placed(data: bytes, target: str) -> Placement:
    """Compile a file for a target, and list the operators that stay on the CPU.

    Raises VerifyFailed where it refuses the file, KernelFailed where it does not come to an end.
    """
    with tempfile.TemporaryDirectory(prefix="jfuse-") as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(data)
        options = ["--accelerator-config", CONFIGURATIONS[target], "--output-dir", folder]
        command = [sys.executable, "-m", "ethosu.vela", str(path), *options]
        ran = guarded_run(command, Path(folder), _LIMIT_S, name="Arm's compiler")
        made = path.with_name(f"{path.stem}_vela.tflite")
        compiled = made.read_bytes() if made.is_file() else None
    if compiled is None:
        said = " ".join((ran.stderr.partition(_FAILED)[2] or ran.stderr or ran.stdout).split())
        raise VerifyFailed("Arm's compiler refuses the file", found=said[:_SAID] or f"exit code {ran.returncode}")
    left = tuple(name for builtin, name in first_results(compiled) if builtin != _PROGRAM)
    return Placement(sum(operators_of(data).values()) - len(left), left)
