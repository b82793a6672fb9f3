"""Calls of the reference on inputs that it takes: on the drawn ones, or on others where it refuses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from jfuse.base.errors import KernelFailed, NoEnd, VerifyFailed
from jfuse.ir.graph import Signature
from jfuse.proof.inputs import LONGER, CallInputs
from jfuse.verification.inputs.redraw import Manners, Redraw
from jfuse.verification.subject import Arrays, Calls


def accepted(
    step: CallInputs, calls: Calls, redraw: Redraw, signatures: Mapping[str, Signature], *, resets: bool
) -> tuple[CallInputs, Arrays]:
    """The call with inputs that the reference takes, and its outputs: those drawn, or others where it refuses them.

    Inputs of edges get other integers and texts only in the manner in which random ones were taken.
    resets: go back to the initial states before each other try, as a call may have written variables before it fails.
    """
    if step.kind == "given":
        return step, calls.run(step.inputs, step.key)
    signature = signatures[step.key]
    step = replace(step, inputs=redraw.as_needed(signature, step.inputs))
    drawn = redraw.as_kept(step.key, step.inputs) if step.kind in ("random", LONGER) else step.inputs
    try:
        outputs = calls.run(drawn, step.key)
    except (KernelFailed, NoEnd):
        raise
    except VerifyFailed as refused:
        replacement = _others(step, calls, redraw, signature, str(refused.found), resets)
        if replacement is None:
            raise
        return replacement
    if step.kind == "random" and step.key not in redraw.kept and not signature.states and _has_nan(outputs):
        # A factor of a matrix that is not definite is NaN, beside what happened to be in memory.
        replacement = _taken(step, calls, redraw, redraw.definite(signature, step.inputs), numbers=True)
        if replacement is not None:
            return replacement
    return replace(step, inputs=drawn), outputs


def _others(
    step: CallInputs, calls: Calls, redraw: Redraw, signature: Signature, message: str, resets: bool
) -> tuple[CallInputs, Arrays] | None:
    """The first of other inputs that the reference takes, and its outputs."""
    tried = redraw.others(signature, step.inputs, message)
    if step.kind != "random":
        kept = redraw.kept.get(step.key, {})
        exact = {n: m for n, m in kept.items() if m.axes or step.inputs[n].dtype.kind not in "fcV"}
        tried = iter([(exact, redraw.changed(step.inputs, exact))] if exact else [])
    return _taken(step, calls, redraw, tried, resets=resets)


def _taken(
    step: CallInputs,
    calls: Calls,
    redraw: Redraw,
    tried: Iterable[tuple[Manners, Arrays]],
    *,
    resets: bool = False,
    numbers: bool = False,
) -> tuple[CallInputs, Arrays] | None:
    """The first inputs of those tried that the reference takes, and its outputs.   numbers: none of them NaN"""
    for manners, inputs in tried:
        if resets:
            calls.reset()
        try:
            outputs = calls.run(inputs, step.key)
        except (KernelFailed, NoEnd):
            raise
        except VerifyFailed:
            continue
        if numbers and _has_nan(outputs):
            continue
        if step.kind == "random":
            redraw.kept[step.key] = manners
        return replace(step, inputs=inputs), outputs
    return None


def _has_nan(outputs: Arrays) -> bool:
    return any(a.dtype.kind in "fcV" and bool(np.isnan(a).any()) for a in outputs.values())
