"""The gate for targets that plan their memory before the first call."""

from __future__ import annotations

from jfuse.errors import LowerError
from jfuse.ir.graph import Program
from jfuse.passes.context import Context


def fixed_sizes(program: Program, ctx: Context) -> Program:
    """The program as it is; raises LowerError for open sizes of inputs where the target takes none."""
    open_inputs = [
        f"{name}: {var.type}"
        for s in program.signatures
        for name, var in zip(s.input_names, s.graph.inputs, strict=False)
        if not var.type.is_static
    ]
    if ctx.target.static and open_inputs:
        raise LowerError(
            f"the target {ctx.target.name} plans its memory before the first call: all sizes must be fixed",
            expected="inputs without open dimensions",
            found=", ".join(open_inputs),
            remedy="fix the batch: batch=1 (--batch 1), or an input signature without open dimensions",
        )
    return program
