"""The passes in their order, and the runner. This list is the only place where order is decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from jfuse.errors import JfuseError
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.passes.context import Context
from jfuse.passes.fuse import fuse
from jfuse.passes.legal import legal
from jfuse.passes.loops import loops
from jfuse.passes.outputs import prepare_outputs
from jfuse.passes.recover import recover
from jfuse.passes.simplify import simplify
from jfuse.passes.state import state
from jfuse.passes.unloop import unloop

Pass = Callable[[Graph, Context], Graph]


@dataclass(frozen=True)
class Gate:
    """A check of all graphs together, which raises or lets them pass as they are."""

    check: Callable[[Iterable[Graph]], None]

    @property
    def __name__(self) -> str:
        return self.check.__name__


Step = Pass | Gate

PIPELINE: tuple[Step, ...] = (
    loops,  # first: recurrences are looked for in scans only
    recover,  # before fuse, which proves and places what recover proposes
    fuse,  # before unloop, so that only what nothing fused takes becomes a loop of the file
    unloop,  # after it every equation is a builtin
    simplify,  # needs the whole graph in builtins: what merges is an operator of the file
    Gate(legal),  # before state, so that the message speaks of the source's ops and not of writers
    state,  # last that changes what operators do: nothing may reorder around a state's writer
    prepare_outputs,  # results that are inputs, constants or repeated get a tensor of their own
)


def run_pipeline(
    program: Program,
    ctx: Context,
    passes: tuple[Step, ...] = PIPELINE,
    *,
    check_types: bool = False,
    dump_dir: Path | None = None,
) -> Program:
    """The program with the passes applied to each of its graphs, checked after each.

    check_types: derive every type again after every pass (tests), instead of checking bindings only.
    dump_dir: a folder to write the text after each pass to.
    """
    lowered = {id(graph): graph for graph in program.graphs()}
    for number, step in enumerate(passes):
        started = time.perf_counter()
        ctx.on_stage(step.__name__)
        if isinstance(step, Gate):
            step.check(lowered.values())
        else:
            lowered = {key: _apply(step, graph, ctx, passes[:number], check_types) for key, graph in lowered.items()}
        seconds = ctx.report.seconds
        seconds[step.__name__] = seconds.get(step.__name__, 0.0) + time.perf_counter() - started
        if dump_dir is not None:
            _dump(dump_dir, number, step, lowered)
    signatures = tuple(
        Signature(s.key, lowered[id(s.graph)], s.input_names, s.output_names) for s in program.signatures
    )
    return Program(signatures, program.assumptions)


def _apply(step: Pass, graph: Graph, ctx: Context, before: tuple[Step, ...], check_types: bool) -> Graph:
    result = step(graph, ctx)
    try:
        check_graph(result, types=check_types)
    except JfuseError as error:
        names = ", ".join(p.__name__ for p in before) or "none"
        raise JfuseError(
            f"the pass {step.__name__!r} broke the graph (passes before it: {names}): {error.message}",
            where=error.where,
            expected=error.expected,
            found=error.found,
            remedy="report this model",
        ) from error
    return result


def _dump(folder: Path, number: int, step: Step, graphs: dict[int, Graph]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(str(graph) for graph in graphs.values())
    (folder / f"{number:02d}_{step.__name__}.txt").write_text(text)
