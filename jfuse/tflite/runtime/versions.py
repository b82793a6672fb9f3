"""The least version of each operator that has what an equation needs, and the oldest runtime with that version.

The rows follow the converter's own tables (tflite/converter/tools/versioning/op_version.cc and runtime_version.cc). A
file with too low a version may run on a runtime that computes something else; too high a one is refused by runtimes
that could run it.
"""

from __future__ import annotations

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Eqn
from jfuse.tflite.runtime.row import Versions
from jfuse.tflite.runtime.table import litert_of


def version_of(eqn: Eqn) -> int:
    """The version to write for an equation of a builtin op."""
    versions = _versions(str(eqn.op.builtin))
    return next((version for version, needs in versions.rules if needs(eqn)), versions.default)


def own_version(eqn: Eqn) -> int | None:
    """As `version_of`; None for what the table does not know, as only files that were read have it."""
    try:
        return version_of(eqn)
    except (JfuseError, IndexError, ValueError, ZeroDivisionError):
        return None


def has_runtime(builtin: str, version: int) -> bool:
    """Whether a runtime is known that has a version of a builtin."""
    runtime = litert_of(builtin)
    runtimes = () if runtime is None else runtime.versions.runtimes
    return 1 <= version <= len(runtimes) and runtimes[version - 1] != "-"


def min_runtime(builtin: str, version: int) -> str:
    """The oldest runtime that has a version of a builtin."""
    runtimes = _versions(builtin).runtimes
    if not has_runtime(builtin, version):
        raise JfuseError(f"{builtin} has no version {version}", expected=f"1 to {len(runtimes)}")
    return runtimes[version - 1]


def _versions(builtin: str) -> Versions:
    runtime = litert_of(builtin)
    if runtime is None:
        raise JfuseError(
            f"no runtime has a kernel for {builtin}", remedy="add its row to jfuse/tflite/runtime/rows if one has"
        )
    return runtime.versions
