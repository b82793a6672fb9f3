"""Whether LiteRT allocates the tensors of a file: what each operator checks before the first call."""

from __future__ import annotations

from collections.abc import Mapping

from jfuse.base.errors import LowerError
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Program, Signature, Var
from jfuse.running.loaded_file import LoadedFile
from jfuse.running.programs.device import Device
from jfuse.running.worker import LiteRtFailed, Refused, can_run
from jfuse.verification.file_answers import litert_takes, unknown_operators

_TRIED = (*range(1, 10), 12, 16)
"""Sizes for open dimensions; models that split an axis into blocks take only multiples."""


def need_allocation(
    program: Program, data: bytes, limits: Limits = DEFAULT_LIMITS, device: Device | None = None
) -> list[str]:
    """Raise LowerError where LiteRT refuses a file when it allocates tensors; notes on open sizes at which it does.

    Nothing is asked of operators that LiteRT does not know, nor on systems that cannot run a file. Of open sizes a few
    are tried, of which one must do: that none does is told, not refused, as others may. device: where; None for here.
    """
    if not can_run() or unknown_operators(program) or not litert_takes(program):
        return []
    try:
        file = LoadedFile(data, limits=limits, device=device)
        refused = {s.key: _why_not(file, s) for s in program.signatures}
    except LiteRtFailed as error:
        if error.cause == "crash":
            raise
        return [f"LiteRT was not seen to allocate the file: {error.message}"]
    open_ = {s.key for s in program.signatures if not all(v.type.is_static for v in _inputs(s).values())}
    notes = []
    for key, reason in refused.items():
        if reason is None:
            continue
        if key not in open_:
            raise LowerError(
                f"LiteRT does not allocate the tensors of the file, for the signature {key!r}",
                found=reason,
                remedy="report this model: no program can run such a file",
            )
        sizes = ", ".join(map(str, _TRIED))
        notes.append(f"LiteRT allocates the signature {key!r} with none of the sizes {sizes} for open ones: {reason}")
    return notes


def _inputs(signature: Signature) -> Mapping[str, Var]:
    return dict(zip(signature.input_names, signature.graph.inputs, strict=False))


def _why_not(file: LoadedFile, signature: Signature) -> str | None:
    """Why LiteRT allocates a signature with none of the sizes; None where it does."""
    reason = None
    for size in _TRIED:
        shapes = {n: [int(d) if is_known(d) else size for d in v.type.shape] for n, v in _inputs(signature).items()}
        try:
            file.ask("allocate", signature.key, shapes)
        except Refused as error:
            reason = reason or str(error)
            continue
        return None
    return reason
