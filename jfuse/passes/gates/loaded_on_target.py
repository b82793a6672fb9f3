"""The gate for files that CompiledModel, by which a target is reached, refuses as a whole."""

from __future__ import annotations

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Program
from jfuse.passes.context import Context
from jfuse.tflite.targets.compiled_model import why_not_loaded


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
