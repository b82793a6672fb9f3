"""`jfuse.check`: checks a file against a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

from jfuse.api.load import load_selected
from jfuse.base.errors import JfuseError
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.frontends.selection import Inputs
from jfuse.ir.walk import all_eqns
from jfuse.model import Model
from jfuse.reports.device_check import check_device
from jfuse.reports.target_check import RuntimesCheck, TargetCheck, check_target, check_targets
from jfuse.running.programs.device import Device
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.names import TARGETS, TargetName


@overload
def check(
    model: Model | str | Path, target: TargetName, *, device: str | None = None, unsafe: bool = False
) -> TargetCheck: ...


@overload
def check(
    model: Model | str | Path,
    target: tuple[TargetName, ...] | list[TargetName] | None = None,
    *,
    device: str | None = None,
    unsafe: bool = False,
) -> RuntimesCheck: ...


@only_jfuse_errors("check")
def check(
    model: Model | str | Path,
    target: TargetName | Sequence[TargetName] | None = None,
    *,
    device: str | None = None,
    unsafe: bool = False,
) -> TargetCheck | RuntimesCheck:
    """Check a lowered Model or any .tflite file against a target: operators, losses and memory.

    target: as `lower` has it, one for a `TargetCheck`; several for a `RuntimesCheck`, which has one of each; None for
    all of them, without what would have to be measured. Nothing is changed; `convert(..., target=)` writes another
    file.
    device: a command that starts a Python with ai-edge-litert elsewhere, as `jfuse.verify` has it: `device` of the
        result says whether LiteRT's Interpreter takes the file there, and CompiledModel, where a target is reached by
        it.
    """
    named = None if target is None else target_named(target)
    loaded = model if isinstance(model, Model) else load_selected(model, Inputs(unsafe=unsafe))
    not_lowered = next((e for g in loaded.program.entries() for e in all_eqns(g) if e.op.builtin is None), None)
    if not_lowered is not None:
        raise JfuseError(
            "a source is no file yet", found=not_lowered.op.name, remedy="jfuse.convert it, and check the result"
        )
    data = loaded.to_bytes()
    found: TargetCheck | RuntimesCheck
    if named is None:
        found = check_targets(loaded.program, data, map(target_named, TARGETS))
    else:
        checks = tuple(check_target(loaded.program, data, each) for each in named.each())
        found = RuntimesCheck(checks) if len(checks) > 1 else checks[0]
    if device is None:
        return found
    there = check_device(
        loaded.program, data, Device(device), with_compiled=None if named is None else named.compiled_model
    )
    return replace(found, device=there)
