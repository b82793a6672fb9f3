"""The passes in their order, with the reason for each position, and the runner. Order is decided nowhere else."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal, TypeVar

from jfuse.base.errors import JfuseError, nearest, need_choice, note_place, shown
from jfuse.base.files import write_atomic
from jfuse.base.option_values import several
from jfuse.base.users_code import is_ours, users_code
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph, Program
from jfuse.ir.states import distinct
from jfuse.passes.context import Context, Lowered, SubPasses
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.fuse.recover import recover
from jfuse.passes.fuse.target_steps import step_by_step
from jfuse.passes.gates.builtins_only import no_lost_ops, only_operators, plain_numbers
from jfuse.passes.gates.callable_on_target import callable_on_target, loaded_on_target, states_on_target
from jfuse.passes.gates.custom_ops import custom_operators
from jfuse.passes.gates.debug_metadata import drop_debug_metadata
from jfuse.passes.legalize.complex_parts import complex_parts
from jfuse.passes.legalize.copies_in_bodies import copies_in_bodies
from jfuse.passes.legalize.float_precision import compute_in_f32, doubles_in_f32
from jfuse.passes.legalize.legalize_broadcast import legalize_broadcast
from jfuse.passes.legalize.legalize_dtypes import legalize_dtypes, promote_loops
from jfuse.passes.legalize.legalize_target import legalize_target
from jfuse.passes.legalize.memory_apart import memory_apart
from jfuse.passes.legalize.remade_weights import dense_weights, remade_weights
from jfuse.passes.options import CountedStage
from jfuse.passes.outline.target_composites import target_composites
from jfuse.passes.own import Pass, passes_of, registered_passes
from jfuse.passes.promises import (
    NO_COMPOSITES,
    NO_DEBUG_METADATA,
    NO_OPAQUE_OPS_LET_IN,
    NO_SCANS,
    NOTHING_DEAD,
    ONLY_BUILTINS,
    RESULTS_APART,
    Promise,
)
from jfuse.passes.quantize.quantize import quantize
from jfuse.passes.scans.fission.projections import projections_inside
from jfuse.passes.scans.fission.split_scans import split_scans
from jfuse.passes.scans.fission.unpack import unpack_states
from jfuse.passes.scans.from_while.last_steps import last_steps
from jfuse.passes.scans.from_while.while_to_scan import while_to_scan
from jfuse.passes.scans.reroll.reroll import reroll
from jfuse.passes.scans.to_loops.loop_cost import LoopSpelling
from jfuse.passes.scans.to_loops.scan_to_loops import scan_to_loops
from jfuse.passes.simplify.simplify import fold_selects, simplify
from jfuse.passes.states.modes import apply_state_mode
from jfuse.passes.states.placement import place_states, prepare_results
from jfuse.passes.states.state import computed_starts
from jfuse.records.conversion import Report

Of = TypeVar("Of", Graph, Program)
GraphPass = Callable[[Graph, Context], Graph]


@dataclass(frozen=True)
class Stage:
    """A pass in the pipeline, with the promise that is checked after it; bindings are always checked.

    run: takes and gives a graph, or, `on` the whole program, a program: what signatures take, give and keep may change.
    why: the reason of its place. own: the user's pass that it runs.
    """

    run: Callable[[Any, Context], Any]
    promise: Promise | None = None
    on: Literal["graph", "program"] = "graph"
    why: str = ""
    own: Pass | None = None

    @property
    def __name__(self) -> str:
        return getattr(self.run, "__name__", type(self.run).__name__) if self.own is None else self.own.name

    @property
    def is_ours(self) -> bool:
        """Whether the pass comes with jfuse."""
        return self.own is None and is_ours(self.run)

    @property
    def remedy(self) -> str:
        """The remedy for a graph that the pass has made invalid."""
        return (
            "report this model" if self.is_ours else "fix the pass: it must return a complete graph with equal results"
        )


PipelineStep = GraphPass | Stage


def alone(run: Callable[[Of], Of]) -> Callable[[Of, Context], Of]:
    """A pass that needs no context, as one that is given it."""

    @wraps(run)
    def given(of: Of, ctx: Context) -> Of:
        return run(of)

    return given


PIPELINE: tuple[PipelineStep, ...] = (
    Stage(callable_on_target, on="program", why="of what the user gave, before anything that takes time"),
    Stage(alone(dense_weights), why="before plain_numbers, which takes no operator without an op"),
    Stage(plain_numbers, on="program", why="before all passes that reason about what ops compute"),
    Stage(
        drop_debug_metadata,
        NO_DEBUG_METADATA,
        on="program",
        why="before any pass replaces the equations that it describes",
    ),
    Stage(
        compute_in_f32,
        on="program",
        why="before all passes that look for operators: what they look for is spelled in f32, without casts between",
    ),
    Stage(while_to_scan, why="first of all rewrites: recurrences are looked for in scans only"),
    Stage(promote_loops, why="before all passes that read scans: rules speak of f32"),
    Stage(alone(fold_selects), why="before reroll and split_scans, which would take a decided choice for a mask"),
    Stage(
        no_lost_ops,
        on="program",
        why="before reroll, fuse and everything that takes time; after fold_selects, which drops choices",
    ),
    Stage(alone(reroll), why="before split_scans: code that spells out step by step is a scan as well"),
    Stage(
        alone(last_steps),
        why="before split_scans and recover: a state needs no sequence where only its last value is read",
    ),
    Stage(
        alone(projections_inside),
        why="before recover and split_scans, which leaves the products in the step; after reroll, which makes scans",
    ),
    Stage(alone(unpack_states), why="before split_scans, which would leave results in the packed form"),
    Stage(split_scans, why="before recover, which takes a scan for one recurrence"),
    Stage(
        apply_state_mode,
        on="program",
        why="each scan is one recurrence now, and its replacement must take any initial state",
    ),
    Stage(recover, why="before fuse, which proves and places the proposals of recover"),
    Stage(alone(complex_parts), why="before fuse, which inlines bodies that complex numbers were made of"),
    Stage(
        fuse, NO_COMPOSITES, why="before scan_to_loops, so that only scans that nothing fused become loops of the file"
    ),
    Stage(step_by_step, why="before scan_to_loops, which writes the loops; after fuse, which knows other forms"),
    Stage(scan_to_loops, NO_SCANS, why="after it every equation is a builtin, or was never a TFLite op"),
    Stage(
        simplify, NOTHING_DEAD, why="needs the whole graph in builtins: peephole rules look at operators of the file"
    ),
    Stage(
        alone(legalize_broadcast),
        why="once the operators are known; before legalize_dtypes, which gives types to what it adds",
    ),
    Stage(
        doubles_in_f32,
        on="program",
        why="after simplify, which folds constants in f64; before legalize_dtypes, which moves f64 as integers",
    ),
    Stage(legalize_dtypes, why="before custom_operators, whose types are the user's"),
    Stage(computed_starts, why="before legalize_target, which respells the operators that make its zeros"),
    Stage(target_composites, why="before legalize_target, which respells what the target lacks"),
    Stage(legalize_target, why="after simplify and the other passes that choose operators, which know no target"),
    Stage(
        quantize,
        on="program",
        why="once operators and types are those of the file, and before custom_operators, which no kernel computes",
    ),
    Stage(remade_weights, why="once the weights have the types of the file"),
    Stage(
        custom_operators,
        NO_OPAQUE_OPS_LET_IN,
        on="program",
        why="last of the passes that make operators: no rule looks into them",
    ),
    Stage(
        only_operators,
        on="program",
        why="before place_states, so that the message speaks of the source's ops and not of writers",
    ),
    Stage(
        place_states,
        ONLY_BUILTINS,
        on="program",
        why="last that changes what operators do: nothing may reorder around a state's writer",
    ),
    Stage(states_on_target, on="program", why="once the home of each state is known"),
    Stage(
        alone(prepare_results),
        RESULTS_APART,
        on="program",
        why="results that are inputs, constants or repeated get a tensor of their own",
    ),
    Stage(loaded_on_target, on="program", why="of states and results as the file has them"),
    Stage(copies_in_bodies, why="before memory_apart, which reads its RESHAPEs; after all others that make operators"),
    Stage(alone(memory_apart), why="last: what it looks at is the order of the operators in the file"),
)


STAGES = tuple(step.__name__ for step in PIPELINE)
"""The names of the passes."""


def passes_until(name: str) -> tuple[PipelineStep, ...]:
    """The passes up to the one of this name. Raises JfuseError where there is none."""
    need_choice("stage", name, STAGES)
    return PIPELINE[: STAGES.index(name) + 1]


def with_own(passes: Sequence[Pass | Callable[..., Any]] = ()) -> tuple[PipelineStep, ...]:
    """The pipeline with the passes that this process registered, and further ones, at their places.

    Those for one place run in the order in which they are given. Raises JfuseError for a place that there is not, and
    for two passes of one name.
    """
    steps: list[Stage] = [step if isinstance(step, Stage) else Stage(step) for step in PIPELINE]
    given = passes_of(several("passes=", passes, "passes"))
    ends: dict[str, str] = {}  # the last pass behind each place
    for own in (*registered_passes(), *given):
        names = [step.__name__ for step in steps]
        if own.of not in names:
            raise JfuseError(
                f"{own.place}={own.of!r} is no place of the pass {own.name!r}",
                expected=", ".join(names),
                remedy=f"{own.place}={nearest(own.of, names)!r}",
            )
        if own.name in names:
            raise JfuseError(f"two passes are named {own.name!r}", remedy="name= of @jfuse.rewrites")
        where = names.index(ends.get(own.of, own.of) if own.place == "after" else own.of)
        made = Stage(own.run, on=own.on, why=own.about, own=own)
        if own.place == "after":
            steps.insert(where + 1, made)
            ends[own.of] = own.name
        elif own.place == "before":
            steps.insert(where, made)
        else:
            steps[where] = replace(made, promise=steps[where].promise)
    return tuple(steps)


def changes_results(passes: Sequence[PipelineStep]) -> bool:
    """Whether a user's pass among these is meant to compute something else than the source."""
    return any(isinstance(p, Stage) and p.own is not None and p.own.comparison.changes for p in passes)


def around_quantization(passes: tuple[PipelineStep, ...]) -> tuple[tuple[PipelineStep, ...], tuple[PipelineStep, ...]]:
    """The passes before the first that asks the recipe, and it with those after it: none where `quantize` is not there.

    What `legalize_target` spells for integers may err by as much as these do: floats have a spelling of their own.
    """
    runs = [step.run if isinstance(step, Stage) else step for step in passes]
    place = min(map(runs.index, {legalize_target, quantize} & {*runs})) if quantize in runs else len(runs)
    return passes[:place], passes[place:]


def as_lowered(graph: Graph, ctx: Context, compact: bool) -> Lowered:
    """Run `scan_to_loops` and `simplify` on a graph without a report."""
    apart = replace(ctx, report=Report())
    if not compact:
        return Lowered(simplify(scan_to_loops(graph, apart), apart))
    loops = scan_to_loops(
        graph, replace(apart, forms=replace(ctx.forms, loop="auto")), lambda size, room: LoopSpelling()
    )
    return Lowered(simplify(loops, apart), tuple(apart.report.loops))


SUB_PASSES = SubPasses(
    recover=lambda graph, ctx, single_steps: recover(graph, ctx, single_steps=single_steps),
    simplify=lambda graph, ctx, done: simplify(graph, ctx, done=done),
    as_lowered=as_lowered,
    in_loops=lambda graph, ctx: scan_to_loops(last_steps(graph), ctx),
    last_steps=last_steps,
)
"""The passes that others run on parts of a graph: `fuse` recover and as_lowered, `scan_to_loops` simplify, `quantize`
simplify and in_loops, `fuse` and `step_by_step` last_steps."""


def run_pipeline(
    program: Program,
    ctx: Context,
    passes: tuple[PipelineStep, ...] = PIPELINE,
    *,
    check_types: bool = False,
    dump_dir: Path | None = None,
    dumped: int = 0,
) -> Program:
    """The program with the passes applied to each of its graphs, checked after each.

    check_types: derive every type again after every pass (tests), instead of checking bindings only.
    dump_dir: a folder to write the text after each pass to. dumped: how many passes before these have done so.
    """
    ctx = replace(ctx, sub=SUB_PASSES)
    steps = tuple(step if isinstance(step, Stage) else Stage(step) for step in passes)
    for number, step in enumerate(steps):
        started = time.perf_counter()
        ctx.on_stage(CountedStage(step.__name__, number + 1, len(steps), "passes"))
        try:
            checked = program.graphs() if number else ()  # by the step before
            program = _step(step, program, ctx, _Checks(steps[:number], checked, check_types))
        except Exception as error:  # raised again, with the name of the pass
            note_place(error, step=f"pass {step.__name__}")
            raise
        seconds = ctx.report.seconds
        seconds[step.__name__] = seconds.get(step.__name__, 0.0) + time.perf_counter() - started
        if dump_dir is not None:
            _dump(dump_dir, dumped + number, step, program)
    return program


@dataclass(frozen=True)
class _Checks:
    """The checks after a pass, on graphs that are not among those `checked` before: with `types`, or bindings only.

    before: the passes before it. held: of a user's pass, the promises of these that held before it.
    """

    before: tuple[Stage, ...]
    checked: tuple[Graph, ...]
    types: bool
    held: tuple[Promise, ...] = ()

    def promises(self) -> Iterator[Promise]:
        """The promises of the passes before it, but that nothing is dead, which any pass may leave for a while."""
        yield from (p.promise for p in self.before if p.promise not in (None, NOTHING_DEAD))


def _hold(promise: Promise, program: Program, ctx: Context) -> bool:
    return all(promise.broken_by(s.graph, ctx, len(s.states)) is None for s in distinct(program))


def _step(step: Stage, program: Program, ctx: Context, checks: _Checks) -> Program:
    held = [] if step.own is None else [p for p in checks.promises() if _hold(p, program, ctx)]
    checks = replace(checks, types=checks.types or step.own is not None, held=tuple(held))

    def checked(graph: Graph) -> Graph:
        result = _result(step, graph, ctx)
        _check(step, result, ctx, checks)
        return result

    if step.on == "graph":
        changed = program.with_graphs(checked)
    else:
        changed = _result(step, program, ctx)
        for signature in distinct(changed):
            _check(step, signature.graph, ctx, checks, len(signature.states))
    if step.own is not None:
        step.own.need_equal(program, changed)
    return changed


def _result(step: Stage, of: Of, ctx: Context) -> Of:
    """Run a pass on a graph or program. Raises JfuseError where it returns something else."""
    with nullcontext() if is_ours(step.run) or step.own is not None else users_code():
        result = step.run(of, ctx)
    if not isinstance(result, type(of)):
        raise JfuseError(
            f"the pass {step.__name__!r} gives no {type(of).__name__}", found=shown(result), remedy=step.remedy
        )
    return result


def _check(step: Stage, result: Graph, ctx: Context, checks: _Checks, states: int = 0) -> None:
    """Raise JfuseError where a pass broke the graph, or its promise."""
    names = ", ".join(p.__name__ for p in checks.before) or "none"
    try:
        if not any(result is graph for graph in checks.checked):
            check_graph(result, types=checks.types)
    except JfuseError as error:
        raise JfuseError(
            f"the pass {step.__name__!r} broke the graph (passes before it: {names}): {error.message}",
            where=error.where,
            expected=error.expected,
            found=error.found,
            remedy=step.remedy,
        ) from error
    for promise in (*([] if step.promise is None else [step.promise]), *checks.held):
        broken_by = promise.broken_by(result, ctx, states)
        if broken_by is not None:
            whose = "its promise" if promise is step.promise else "a promise of a pass before it"
            raise JfuseError(
                f"the pass {step.__name__!r} broke {whose} (passes before it: {names})",
                expected=promise.text,
                found=str(broken_by),
                remedy=step.remedy,
            )


def _dump(folder: Path, number: int, step: PipelineStep, program: Program) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(str(graph) for graph in program.graphs())
    name = re.sub(r"[^\w.<>-]", "_", step.__name__)
    write_atomic(folder / f"{number:02d}_{name}.txt", text.encode())
