"""The passes in their order, and the runner. This list is the only place where order is decided."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jfuse.errors import JfuseError
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph, Program
from jfuse.passes.context import Context
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.fuse.recover import recover
from jfuse.passes.gates.builtins_only import no_lost_ops, only_operators, plain_numbers
from jfuse.passes.gates.custom_ops import custom_operators
from jfuse.passes.gates.debug_metadata import drop_debug_metadata
from jfuse.passes.legalize.complex_parts import complex_parts
from jfuse.passes.legalize.legalize_broadcast import spread
from jfuse.passes.legalize.legalize_dtypes import widen, widen_loops
from jfuse.passes.scans.fission.split_scans import split
from jfuse.passes.scans.fission.unpack import unpack
from jfuse.passes.scans.from_while.last_steps import last_steps
from jfuse.passes.scans.from_while.while_to_scan import loops
from jfuse.passes.scans.reroll.reroll import roll
from jfuse.passes.scans.to_loops.scan_to_loops import unloop
from jfuse.passes.simplify.fold_selects import settle
from jfuse.passes.simplify.simplify import simplify
from jfuse.passes.states.modes import streams
from jfuse.passes.states.placement import place_states, prepare_results

Pass = Callable[[Graph, Context], Graph]


@dataclass(frozen=True)
class Whole:
    """A pass over the whole program: it may change what signatures take, give and keep."""

    run: Callable[[Program, Context], Program]

    @property
    def __name__(self) -> str:
        return self.run.__name__


Step = Pass | Whole

PIPELINE: tuple[Step, ...] = (
    Whole(plain_numbers),  # before whatever reasons about what ops compute
    Whole(drop_debug_metadata),  # before whatever makes other equations of those that it tells of
    loops,  # first of all that rewrites: recurrences are looked for in scans only
    widen_loops,  # before whatever reads scans: rules speak of f32
    settle,  # before roll and split, which would take a decided choice for a mask
    Whole(no_lost_ops),  # before roll, fuse and whatever else takes time; after settle, which drops choices
    roll,  # before split: what code spells out step by step is a scan as well
    last_steps,  # before split and recover: a state whose last value alone is read needs no sequence
    unpack,  # before split, which would leave results in the packed form
    split,  # before recover, which takes a scan for one recurrence
    Whole(streams),  # each scan is one recurrence now, and what becomes of it must take any initial state
    recover,  # before fuse, which proves and places what recover proposes
    complex_parts,  # before fuse, which opens what complex numbers were made of
    fuse,  # before unloop, so that only what nothing fused takes becomes a loop of the file
    unloop,  # after it every equation is a builtin
    simplify,  # needs the whole graph in builtins: what merges is an operator of the file
    spread,  # once it is known which operators there are; before widen, which knows the types of what this adds
    widen,
    Whole(custom_operators),  # last of what makes operators: no rule or merge looks into them
    Whole(only_operators),  # before state, so that the message speaks of the source's ops and not of writers
    Whole(place_states),  # last that changes what operators do: nothing may reorder around a state's writer
    Whole(prepare_results),  # results that are inputs, constants or repeated get a tensor of their own
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
    for number, step in enumerate(passes):
        started = time.perf_counter()
        ctx.on_stage(step.__name__)
        program = _step(step, program, ctx, passes[:number], check_types)
        seconds = ctx.report.seconds
        seconds[step.__name__] = seconds.get(step.__name__, 0.0) + time.perf_counter() - started
        if dump_dir is not None:
            _dump(dump_dir, number, step, program)
    return program


def _step(step: Step, program: Program, ctx: Context, before: tuple[Step, ...], check_types: bool) -> Program:
    if not isinstance(step, Whole):
        return program.with_graphs(lambda graph: _checked(step, step(graph, ctx), before, check_types))
    result = step.run(program, ctx)
    for graph in result.graphs():
        _checked(step, graph, before, check_types)
    return result


def _checked(step: Step, result: Graph, before: tuple[Step, ...], check_types: bool) -> Graph:
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


def _dump(folder: Path, number: int, step: Step, program: Program) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(str(graph) for graph in program.graphs())
    (folder / f"{number:02d}_{step.__name__}.txt").write_text(text)
