"""Gates for what a target can call, load, and keep between calls."""

from __future__ import annotations

from dataclasses import replace

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Program, Signature
from jfuse.passes.context import Context
from jfuse.tflite.schema import VARIABLES
from jfuse.tflite.targets.compiled_model import why_not_loaded
from jfuse.tflite.targets.target import Target

_INDENT = "\n            "
_USUAL = "serving_default"


def callable_on_target(program: Program, ctx: Context) -> Program:
    """The program, with equal signatures as one where the target calls one.

    Raises LowerError for several functions where it calls one, and for open sizes of inputs where it takes none.
    """
    signatures = _one_of_equals(program, ctx) if ctx.target.single else program.signatures
    lacks = [*_several(signatures, ctx), *_open_sizes(signatures, ctx)]
    if lacks:
        messages, expected, reasons, remedies = zip(*lacks, strict=True)
        raise LowerError(
            f"the target {_names(ctx.target)} {', and '.join(messages)}",
            expected=", ".join(expected),
            found=_INDENT.join(reasons),
            remedy=_INDENT.join(remedies),
        )
    return program if len(signatures) == len(program.signatures) else replace(program, signatures=signatures)


def _names(target: Target) -> str:
    """The targets, of several, that call one signature or plan their memory."""
    return ", ".join(t.name for t in target.each() if t.single or t.static)


def _one_of_equals(program: Program, ctx: Context) -> tuple[Signature, ...]:
    """A signature for each graph: the one that TensorFlow calls by default, else the first."""
    usual_first = sorted(program.signatures, key=lambda s: s.key != _USUAL)
    by_graph: dict[int, Signature] = {}
    for signature in usual_first:
        first = by_graph.setdefault(id(signature.graph), signature)
        if first is not signature:
            ctx.report.notes.append(f"the signature {signature.key!r} is the same as {first.key!r}, which the file has")
    return tuple(s for s in program.signatures if by_graph[id(s.graph)] is s)


def _several(signatures: tuple[Signature, ...], ctx: Context) -> list[tuple[str, str, str, str]]:
    if not ctx.target.single or len(signatures) == 1:
        return []
    keys = ", ".join(s.key for s in signatures)
    remedy = f"convert one of them: inputs=jfuse.Inputs(signatures=[{signatures[0].key!r}])"
    return [("runs files with one signature", "one function", f"several signatures: {keys}", remedy)]


def _open_sizes(signatures: tuple[Signature, ...], ctx: Context) -> list[tuple[str, str, str, str]]:
    open_inputs = {
        f"{name}: {var.type}": None
        for s in signatures
        for name, var in zip(s.input_names, s.graph.inputs, strict=False)
        if not var.type.is_static
    }
    if not ctx.target.static or not open_inputs:
        return []
    message = "plans its memory before the first call: all sizes must be fixed"
    remedy = "fix the batch: batch=1, or an input signature without open dimensions"
    return [(message, "inputs without open dimensions", ", ".join(open_inputs), remedy)]


# The gate for files that CompiledModel, by which a target is reached, refuses as a whole.


def loaded_on_target(program: Program, ctx: Context) -> Program:
    """The program as it is; raises LowerError where the target is reached by CompiledModel and that refuses it."""
    reasons = why_not_loaded(program) if ctx.target.compiled_model else []
    if reasons:
        names = ", ".join(t.name for t in ctx.target.each() if t.compiled_model)
        raise LowerError(
            f"LiteRT's CompiledModel, by which the target {names} is reached, does not run the file",
            expected="a file that it loads",
            found="; ".join(reasons),
            remedy='target="litert", for Interpreter alone; or outputs whose sizes follow from those of inputs',
        )
    return program


# The gate for states that a target cannot keep.


def states_on_target(program: Program, ctx: Context) -> Program:
    """The program as it is; raises LowerError for states in variables where the target has none."""
    variables = [s.name for s in program.states() if s.home == "variable"]
    without = [t.name for t in ctx.target.each() if any(t.place_of(builtin) == "refused" for builtin in VARIABLES)]
    if variables and without:
        raise LowerError(
            f"the target {', '.join(without)} keeps nothing from call to call",
            expected="no states in variables",
            found=", ".join(variables),
            remedy='state="io" (the states become inputs and outputs), or state="reset" (every call starts anew)',
        )
    return program
