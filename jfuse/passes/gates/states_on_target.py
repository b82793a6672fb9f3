"""The gate for states that a target cannot keep."""

from __future__ import annotations

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Program
from jfuse.passes.context import Context
from jfuse.tflite.schema import VARIABLES


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
