"""The passes in their order, and the runner. This list is the only place where order is decided."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jfuse.errors import JfuseError, note_place
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph, Program
from jfuse.passes.context import Context
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.fuse.recover import recover
from jfuse.passes.gates.builtins_only import no_lost_ops, only_operators, plain_numbers
from jfuse.passes.gates.custom_ops import custom_operators
from jfuse.passes.gates.debug_metadata import drop_debug_metadata
from jfuse.passes.legalize.complex_parts import complex_parts
from jfuse.passes.legalize.legalize_broadcast import legalize_broadcast
from jfuse.passes.legalize.legalize_dtypes import legalize_dtypes
from jfuse.passes.legalize.promote_loops import promote_loops
from jfuse.passes.scans.fission.split_scans import split_scans
from jfuse.passes.scans.fission.unpack import unpack_states
from jfuse.passes.scans.from_while.last_steps import last_steps
from jfuse.passes.scans.from_while.while_to_scan import while_to_scan
from jfuse.passes.scans.reroll.reroll import reroll
from jfuse.passes.scans.to_loops.scan_to_loops import scan_to_loops
from jfuse.passes.simplify.fold_selects import fold_selects
from jfuse.passes.simplify.simplify import simplify
from jfuse.passes.states.modes import apply_state_mode
from jfuse.passes.states.placement import place_states, prepare_results

Pass = Callable[[Graph, Context], Graph]


@dataclass(frozen=True)
class Whole:
    """A pass over the whole program: it may change what signatures take, give and keep."""

    run: Callable[[Program, Context], Program]

    @property
    def __name__(self) -> str:
        return self.run.__name__


PipelineStep = Pass | Whole

PIPELINE: tuple[PipelineStep, ...] = (
    Whole(plain_numbers),  # before all passes that reason about what ops compute
    Whole(drop_debug_metadata),  # before any pass replaces the equations that it describes
    while_to_scan,  # first of all rewrites: recurrences are looked for in scans only
    promote_loops,  # before all passes that read scans: rules speak of f32
    fold_selects,  # before reroll and split_scans, which would take a decided choice for a mask
    Whole(no_lost_ops),  # before reroll, fuse and everything that takes time; after fold_selects, which drops choices
    reroll,  # before split_scans: code that spells out step by step is a scan as well
    last_steps,  # before split_scans and recover: a state of which only the last value is read needs no sequence
    unpack_states,  # before split_scans, which would leave results in the packed form
    split_scans,  # before recover, which takes a scan for one recurrence
    Whole(apply_state_mode),  # each scan is one recurrence now, and its replacement must take any initial state
    recover,  # before fuse, which proves and places the proposals of recover
    complex_parts,  # before fuse, which inlines bodies that complex numbers were made of
    fuse,  # before scan_to_loops, so that only scans that nothing fused become loops of the file
    scan_to_loops,  # after it every equation is a builtin
    simplify,  # needs the whole graph in builtins: peephole rules look at operators of the file
    legalize_broadcast,  # once the operators are known; before legalize_dtypes, which gives types to what this adds
    legalize_dtypes,  # before custom_operators, whose types are the user's
    Whole(custom_operators),  # last of the passes that make operators: no rule looks into them
    Whole(only_operators),  # before place_states, so that the message speaks of the source's ops and not of writers
    Whole(place_states),  # last that changes what operators do: nothing may reorder around a state's writer
    Whole(prepare_results),  # results that are inputs, constants or repeated get a tensor of their own
)


def run_pipeline(
    program: Program,
    ctx: Context,
    passes: tuple[PipelineStep, ...] = PIPELINE,
    *,
    check_types: bool = False,
    dump_dir: Path | None = None,
) -> Program:
    """The program with the passes applied to each of its graphs, checked after each.

    check_types: derive every type again after every pass (tests), instead of checking bindings only.
    dump_dir: a folder to write the text after each pass to.
    """
    for number, step in enumerate(passes):
        started = time.perf_counter()
        ctx.on_stage(step.__name__)
        try:
            program = _step(step, program, ctx, passes[:number], check_types)
        except Exception as error:
            note_place(error, step=f"pass {step.__name__}")
            raise
        seconds = ctx.report.seconds
        seconds[step.__name__] = seconds.get(step.__name__, 0.0) + time.perf_counter() - started
        if dump_dir is not None:
            _dump(dump_dir, number, step, program)
    return program


def _step(
    step: PipelineStep, program: Program, ctx: Context, before: tuple[PipelineStep, ...], check_types: bool
) -> Program:
    if not isinstance(step, Whole):
        return program.with_graphs(lambda graph: _checked(step, step(graph, ctx), before, check_types))
    result = step.run(program, ctx)
    for graph in result.graphs():
        _checked(step, graph, before, check_types)
    return result


def _checked(step: PipelineStep, result: Graph, before: tuple[PipelineStep, ...], check_types: bool) -> Graph:
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


def _dump(folder: Path, number: int, step: PipelineStep, program: Program) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(str(graph) for graph in program.graphs())
    (folder / f"{number:02d}_{step.__name__}.txt").write_text(text)
