"""Lowers the scans and reserved lists that are left to builtins: the fastest form of each loop, and zeros."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import active_trace, as_atom
from jfuse.ir.walk import all_eqns, expanded_size, users, with_bodies, with_new_bodies
from jfuse.kernels import ops
from jfuse.kernels.array.lists import reserve
from jfuse.kernels.control import scan, while_
from jfuse.kernels.core.op import draws
from jfuse.lowering.rule_tools.broadcast_constants import broadcast_constants, constant_of, unbroadcast
from jfuse.opaque_ops.state_operands import has_open_state, keeps_state, state_operands
from jfuse.passes.context import Context
from jfuse.passes.options import FUSED
from jfuse.passes.rewrite import rewrite
from jfuse.passes.scans.fission.split_scans import hoisted
from jfuse.passes.scans.to_loops.fused_cost import fused_microseconds
from jfuse.passes.scans.to_loops.linear_step import LinearLoop, linear_loop
from jfuse.passes.scans.to_loops.loop_cost import (
    LARGER,
    ROOMS,
    LoopSize,
    LoopSpelling,
    Room,
    fastest,
    smallest,
)
from jfuse.passes.scans.to_loops.loop_forms import Loop, written
from jfuse.passes.scans.to_loops.parallel_scan import parallel_sizes, written_in_parallel
from jfuse.passes.scans.to_loops.run_time_zeros import COMPUTED, Homes, empty, spread
from jfuse.records.conversion import LoopForm

Choice = Callable[[LoopSize, Room], LoopSpelling]
"""Which form a loop of this size takes where it has so much room."""


def scan_to_loops(graph: Graph, ctx: Context, choose: Choice | None = None) -> Graph:
    """An equal graph without `scan` and `reserve`, in bodies too.

    What needs no carry of a scan is hoisted; the rest takes the form that `choose` says (None: the fastest), or the
    option `loop` ("while", "unroll"). What became of each loop is noted in the report. Random numbers in loops have no
    seed after it.
    """
    return _Unlooping(ctx, choose).graph(graph)


class _Unlooping:
    """The pass at work: `done` has what came out for each body, so that equations that share one go on sharing it."""

    def __init__(self, ctx: Context, choose: Choice | None) -> None:
        self._ctx = ctx
        self._choose = choose
        self._done: dict[Graph, Graph] = {}
        self._simplified: dict[Graph, Graph] = {}  # so that a loop does not simplify the loops within it anew

    def graph(self, graph: Graph) -> Graph:
        """A graph without loops, its bodies first."""
        if graph not in self._done:
            inner = with_bodies(graph, self.graph)
            seedless = tuple(_without_seeds(eqn) if eqn.op in (scan, while_) else eqn for eqn in inner.eqns)
            inner = inner if all(map(operator.is_, seedless, inner.eqns)) else replace(inner, eqns=seedless)
            if any(eqn.op is scan or eqn.op is reserve or has_open_state(eqn) for eqn in inner.eqns):
                # Loops of one step each are read best when what they share with others is out of them.
                inner = rewrite(inner, lambda eqn: hoisted(eqn) if eqn.op is scan else None)
                inner = rewrite(inner, _Visitor(inner, self._ctx, self._choose, self._simplified).visit)
            self._done[graph] = inner
        return self._done[graph]


class _Visitor:
    """Replaces the loops of one graph."""

    def __init__(self, graph: Graph, ctx: Context, choose: Choice | None, simplified: dict[Graph, Graph]) -> None:
        self._ctx = ctx
        self._choose = choose
        self._simplified = simplified
        self._homes = Homes(graph.inputs)
        self._known = broadcast_constants(graph)
        self._readers = users(graph)
        # The state pass knows these constants when it sees FILL, and writes them in its own way.
        self._states = {eqn.inputs[i] for eqn in graph.eqns if keeps_state(eqn) for i in state_operands(eqn)}
        self._held = expanded_size(graph)  # operators: passes copy the bodies that places share

    def visit(self, eqn: Eqn) -> Sequence[Any] | None:
        """The equation in builtins; None where it is one already."""
        results: Sequence[Any] | None = None
        if eqn.op is reserve:
            results = (empty(eqn.outputs[0].type.shape, eqn.params["dtype"], self._homes),)
        elif eqn.op is scan:
            results = self._loop(eqn)
        elif (eqn.op is ops.fill or eqn.op.moves == "repeats") and eqn.outputs[0] not in self._states:
            ready = self._spread(eqn)
            results = None if ready is None else (ready,)
        self._homes.add(eqn.outputs)
        return results

    def _spread(self, eqn: Eqn) -> Atom | None:
        """Repeat a value along open axes without a computed shape; None where that is impossible or not needed."""
        (out,) = eqn.outputs
        readers = self._readers.get(out, ())
        if readers and all(self._is_absorbed(eqn, by) for by in readers):
            return None
        ready = self._ready(out)
        if ready is not out:
            return ready
        source = unbroadcast(out, {out: eqn})
        if source is out or eqn.op is ops.fill or out.type.dtype not in COMPUTED:
            return None
        axes = range(-out.type.rank, 0)
        sizes = [source.type.shape[a] if a >= -source.type.rank else 1 for a in axes]
        shape = tuple(1 if same(d, e) is True else d for d, e in zip(out.type.shape, sizes, strict=True))
        zeros = spread(np.zeros((), out.type.dtype.numpy), shape, self._homes)
        return None if zeros is None else as_atom(ops.add(source, zeros))

    def _is_absorbed(self, eqn: Eqn, reader: Eqn) -> bool:
        """Whether `simplify` may leave a repeated value out: broadcasting does as well, and zeros at an end are PAD."""
        (out,) = eqn.outputs
        if reader.op is ops.concatenation:
            constant = constant_of(out, self._known)
            return constant is not None and not constant.any() and is_known(out.type.shape[reader.params["axis"]])
        return reader.op.elementwise and eqn.op is not ops.fill

    def _loop(self, eqn: Eqn) -> Sequence[Atom]:
        body = self._ctx.sub.simplify(eqn.bodies[0], self._ctx, self._simplified)
        loop = Loop.of(replace(eqn, inputs=tuple(map(self._ready, eqn.inputs)), bodies=(body,)))
        rows = body.inputs[len(body.inputs) - len(loop.xs) :], body.outputs[len(loop.carries) :]
        sequences, collected = ([atom.type for atom in part] for part in rows)
        cell_us = partial(fused_microseconds, machine=self._ctx.forms.machine)
        linear = self._linear(loop)
        parallel = {} if linear is None else parallel_sizes(loop, linear, active_trace().producer)
        size = LoopSize.of(body, loop.length, sequences, collected, cell_us, parallel)
        form = self._form(loop, size)
        expected = size.expected(self._room("speed"), self._ctx.forms.machine)
        self._held += size.added_operators(form)
        self._ctx.report.loops.append(_told(loop, size, form, expected, self._ctx.forms.machine))
        if linear is not None and form.is_parallel:
            return written_in_parallel(loop, linear, form)
        return written(loop, form, self._homes)

    def _linear(self, loop: Loop) -> LinearLoop | None:
        """The loop as a linear recurrence; None where it is none, or where its values become integers.

        Products of many factors would err more in few bits than the steps one by one.
        """
        recipe = self._ctx.recipe
        return None if recipe is not None and recipe.needs_ranges else linear_loop(loop)

    def _room(self, prefer: str) -> Room:
        """The room that is left in the graph where this is preferred."""
        room = ROOMS[prefer]
        return replace(room, operators=room.operators - self._held)

    def _form(self, loop: Loop, size: LoopSize) -> LoopSpelling:
        if same(loop.length, 1):
            return LoopSpelling(unrolled=True)
        if any(map(_is_opaque_draw, all_eqns(loop.body))):
            return self._one_step_a_turn(loop)
        asked_for = self._ctx.forms.by_source.get(str(loop.eqn.source), FUSED)
        if asked_for != FUSED and _can_be(asked_for, loop, size):
            return LoopSpelling.named(asked_for)
        loop_form = self._ctx.forms.loop
        prefer, whiles = self._ctx.forms.prefer, self._ctx.whiles
        if loop_form == "auto" and prefer in ("auto", "fused") and whiles is not None:
            loop_form = "while" if str(loop.eqn.source) in whiles or not is_known(loop.length) else "unroll"
        if loop_form == "unroll" or (loop_form == "auto" and not self._ctx.target.has("WHILE")):
            if not is_known(loop.length):
                raise _open_length(loop)
            return LoopSpelling(unrolled=True)
        room = self._room(prefer)
        if prefer == "auto" and self._ctx.recipe is not None:
            room = replace(room, larger=LARGER)  # who quantizes wants a small file
        if self._choose is not None and loop_form != "while":
            return self._choose(size, room)
        if prefer == "size":
            return smallest(size, room, unroll=loop_form != "while")
        return fastest(size, room, self._ctx.forms.machine, unroll=loop_form != "while")

    def _one_step_a_turn(self, loop: Loop) -> LoopSpelling:
        """The only form in which each operator of a step is one operator of the file."""
        if self._ctx.forms.loop == "unroll" or not self._ctx.target.has("WHILE"):
            raise _copied_draw(loop)
        return LoopSpelling()

    def _ready(self, atom: Atom | None) -> Atom:
        """A value; a constant that is broadcast to an open shape in a way that needs no computed shape."""
        assert atom is not None, "scans have no optional operands"
        if isinstance(atom, Const) or atom.type.is_static:
            return atom
        constant = constant_of(atom, self._known)
        spread_zeros = None if constant is None else spread(constant, atom.type.shape, self._homes)
        return spread_zeros if isinstance(spread_zeros, Var) else atom


def _can_be(asked_for: str, loop: Loop, size: LoopSize) -> bool:
    """Whether a loop can have the form that is asked for by its word."""
    form = LoopSpelling.named(asked_for)
    return asked_for in size.parallel if form.is_parallel else is_known(loop.length) or not form.unrolled


def _without_seeds(eqn: Eqn) -> Eqn:
    """The equation, its random numbers and those of its bodies without seeds, so that no two steps draw the same.

    In TensorFlow one operator draws for all steps of all calls, and goes on where it has ended. In a file copies of it
    would begin at the same seed, and LiteRT begins a WHILE's body anew at each run.
    """
    if eqn.op.draws and eqn.op.is_kernel and (eqn.params["seed"] or eqn.params["seed2"]):
        return replace(eqn, params={**eqn.params, "seed": 0, "seed2": 0})
    return with_new_bodies(eqn, lambda b: replace(b, eqns=tuple(map(_without_seeds, b.eqns)))) if draws(eqn) else eqn


def _is_opaque_draw(eqn: Eqn) -> bool:
    """Whether an operator that jfuse does not know draws: a copy may begin at the same seed and draw the same."""
    return eqn.op.draws and not eqn.op.is_kernel


def _copied_draw(loop: Loop) -> LowerError:
    return LowerError(
        "a loop whose random numbers come from an operator of the file's own cannot be unrolled",
        where=str(loop.eqn.source) or None,
        expected="one operator in WHILE, which continues where its last call ended",
        found="copies of it, which may all begin at the same seed",
        remedy='forms=jfuse.Forms(loop="auto"), and a target with WHILE',
    )


def _open_length(loop: Loop) -> LowerError:
    return LowerError(
        "a loop cannot be unrolled",
        where=str(loop.eqn.source) or None,
        expected="a number of steps that is known",
        found=f"{loop.length} steps, known only at run time",
        remedy='forms=jfuse.Forms(loop="auto"), or give the model a fixed sequence length',
    )


def _told(loop: Loop, size: LoopSize, form: LoopSpelling, expected: Mapping[str, float], machine: str) -> LoopForm:
    """Describe the chosen form of a loop for the report.   expected: microseconds by form, the fastest first"""
    steps = f"{loop.length} steps" if is_known(loop.length) else f"{loop.length} steps, taken for {size.steps},"
    best, microseconds = next(iter(expected.items()))
    return LoopForm(
        str(loop.eqn.source),
        f"{steps} of {size.operators} operators and {size.weights} bytes of weights",
        str(form),
        size.steps * size.operators,
        microseconds,
        size.microseconds(form, machine),
        str(LoopSpelling.named(best)),
        expected,
    )
