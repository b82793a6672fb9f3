"""Golden texts of passes: a small graph, and what the pass makes of it or why it refuses it."""

from __future__ import annotations

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.text import format_program
from jfuse.passes.context import Context
from jfuse.passes.pipeline import PIPELINE, run_pipeline

STEPS = {step.__name__: step for step in PIPELINE}


def before_and_after(name: str, source: Graph | Program, ctx: Context | None = None) -> str:
    """The pass of that name on a graph or program: both texts, and what the pass noted in the report."""
    ctx = ctx or Context()
    program = source if isinstance(source, Program) else one_signature(source)
    try:
        after = format_program(run_pipeline(program, ctx, (STEPS[name],), check_types=True))
    except LowerError as error:
        after = f"refused: {error}"
    notes = "".join(f"\nnote: {note}" for note in ctx.report.notes)
    return f"before {name}\n\n{format_program(program)}\n\nafter {name}\n\n{after}{notes}"


def one_signature(graph: Graph) -> Program:
    """A program of one graph."""
    inputs, outputs = (tuple(f"{side}{i}" for i in range(len(some))) for side, some in _sides(graph))
    return Program((Signature("main", graph, inputs, outputs),))


def _sides(graph: Graph) -> tuple[tuple[str, tuple[object, ...]], ...]:
    return ("x", graph.inputs), ("y", graph.outputs)
