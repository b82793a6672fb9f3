"""A graph that also gives statistics of its own values, which loops and branches carry, or the values themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, get_args

import jax
import numpy as np

from jfuse.ir.graph import Eqn, Graph, Op, Params, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_graphs
from jfuse.kernels.control import composite, if_, scan, while_
from jfuse.quantization.moments import Moments
from jfuse.quantization.statistics import Observed
from jfuse.quantization.tallies import Tally, again, look, merge, start

T = TypeVar("T")
_WEIGHT = TensorType((), DType.i32)
_PART = TensorType((), DType.f32, ranked=False)  # of all steps: the shape is the op's own business
_Place = Literal["value", "part", "operand"]
"""Kind of an observed tensor: a value, a part of the fused op that makes it, or an operand of that op."""


@dataclass(frozen=True)
class ObservedSlot:
    """A value to observe, and its tally; for `Moments` an operand of the op that makes the value."""

    what: Observed
    tally: Tally


def _place(slot: ObservedSlot) -> _Place:
    if isinstance(slot.tally, Moments):
        return "operand"
    return "part" if slot.what.part else "value"


def instrumented(graph: Graph, slots: Sequence[ObservedSlot], given: Sequence[Observed] = ()) -> Graph:
    """The graph with a weight as its first input, and after its results one tally for each slot, then values.

    Values that the graph does not have, or that are computed out of sight, have an empty tally.
    given: values that are results themselves: of the graph, not of its bodies.
    """
    return _Instrument(slots, given).whole(graph)


class _Instrument:
    def __init__(self, slots: Sequence[ObservedSlot], given: Sequence[Observed]) -> None:
        self._slots = slots
        self._given = given
        self._parts: dict[Observed, Var] = {}
        self._of: dict[tuple[Var, _Place], list[int]] = {}
        for i, slot in enumerate(slots):
            self._of.setdefault((slot.what.var, _place(slot)), []).append(i)

    def whole(self, graph: Graph) -> Graph:
        weight = Var(_WEIGHT)
        tallies = {i: Var(slot.tally.type) for i, slot in enumerate(self._slots)}
        eqns = [Eqn(start(self._slots[i].tally), (), (var,)) for i, var in tallies.items()]
        inner, tallies = self._eqns(graph, weight, tallies)
        inputs = (self._parts.get(what, what.var) for what in self._given)
        outputs = (*graph.outputs, *tallies.values(), *inputs)
        return replace(graph, inputs=(weight, *graph.inputs), eqns=(*eqns, *inner), outputs=outputs)

    def _eqns(self, graph: Graph, weight: Var, tallies: dict[int, Var]) -> tuple[list[Eqn], dict[int, Var]]:
        """The equations with those that look at values, and the tallies after them."""
        tallies = dict(tallies)
        eqns: list[Eqn] = []
        for var in graph.inputs:
            eqns += self._looks(var, weight, tallies)
        for eqn in graph.eqns:
            eqns += self._eqn(eqn, weight, tallies)
            for var in eqn.outputs:
                eqns += self._looks(var, weight, tallies)
        return eqns, tallies

    def _looks(self, var: Var, weight: Var, tallies: dict[int, Var]) -> Iterator[Eqn]:
        for i in self._of.get((var, "value"), ()):
            yield self._look(i, var, weight, tallies)

    def _look(self, i: int, seen: Any, weight: Var, tallies: dict[int, Var]) -> Eqn:
        before, tallies[i] = tallies[i], Var(tallies[i].type)
        return Eqn(look(self._slots[i].tally), (before, seen, weight), (tallies[i],))

    def _eqn(self, eqn: Eqn, weight: Var, tallies: dict[int, Var]) -> Iterator[Eqn]:
        """The equation, with the tallies that are updated within it as further operands and results."""
        parts = self._of.get((eqn.outputs[0], "part"), ()) if eqn.outputs and eqn.op.parts else ()
        inside = [*dict.fromkeys(i for body in eqn.bodies for i in self._within(body))]
        if wanted := [*self._parts_of(eqn)]:
            seen = {what.part: Var(_PART) for what in wanted}
            self._parts |= {what: seen[what.part] for what in wanted}
            op = WatchedOp(eqn.op, tuple(seen))
            yield replace(eqn, op=op, outputs=(*eqn.outputs, *seen.values()))
            for i in parts:
                yield self._look(i, seen[self._slots[i].what.part], weight, tallies)
        elif inside and eqn.op in (while_, if_, scan, composite):
            yield from self._around(self._threaded(eqn, inside), inside, weight, tallies)
        else:
            yield eqn
        for i in self._of.get((eqn.outputs[0], "operand"), ()) if eqn.outputs else ():
            tally = self._slots[i].tally
            assert isinstance(tally, Moments), "_place"
            yield self._look(i, eqn.inputs[tally.operand], weight, tallies)

    def _parts_of(self, eqn: Eqn) -> Iterator[Observed]:
        """The parts of an equation's op that somebody wants to see."""
        if eqn.op.parts:
            yield from (self._slots[i].what for i in self._of.get((eqn.outputs[0], "part"), ()))
            yield from (what for what in self._given if what.part and what.var is eqn.outputs[0])

    def _within(self, graph: Graph) -> Iterator[int]:
        for inner in all_graphs(graph):
            for var in (*inner.inputs, *(v for eqn in inner.eqns for v in eqn.outputs)):
                for kind in get_args(_Place):
                    yield from self._of.get((var, kind), ())

    def _tallies(self, places: Sequence[int]) -> Iterator[Tally]:
        return (self._slots[i].tally for i in places)

    def _threaded(self, eqn: Eqn, inside: Sequence[int]) -> _ExtendedEqn:
        """The equation with bodies that take and return the tallies; they are the last carried values of a loop."""
        opened = _ExtendedEqn(eqn, len(eqn.inputs), len(eqn.outputs), eqn.op in (while_, scan))
        if eqn.op is scan:
            carries = eqn.params["carries"]
            params = {**eqn.params, "carries": carries + len(inside) + 1}
            opened = _ExtendedEqn(replace(eqn, params=params), eqn.params["consts"] + carries, carries, True)
        at_input = opened.at_input - (eqn.op is if_)  # the flag is no operand of the branches
        extended = replace(opened, at_input=at_input)
        bodies = [self._body(body, inside, extended) for body in eqn.bodies]
        if eqn.op is while_:  # its condition only takes what is carried
            bodies[0] = replace(eqn.bodies[0], inputs=bodies[0].inputs)
        return replace(opened, eqn=replace(opened.eqn, bodies=tuple(bodies)))

    def _body(self, body: Graph, inside: Sequence[int], places: _ExtendedEqn) -> Graph:
        """The body with the weight and tallies as further inputs, and the tallies after it as further results."""
        weight, tally_inputs = Var(_WEIGHT), {i: Var(self._slots[i].tally.type) for i in inside}
        eqns, after = self._eqns(body, weight, tally_inputs)
        added = (*([weight] if places.carries else []), *after.values())
        inputs = _inserted(body.inputs, places.at_input, (weight, *tally_inputs.values()))
        return replace(body, inputs=inputs, eqns=tuple(eqns), outputs=_inserted(body.outputs, places.at_output, added))

    def _around(
        self, opened: _ExtendedEqn, slots: Sequence[int], weight: Var, tallies: dict[int, Var]
    ) -> Iterator[Eqn]:
        """The equation, with equations before it that start its tallies, and others after it that merge them."""
        begun, ended = ([Var(t.type) for t in self._tallies(slots)] for _ in range(2))
        for i, var in zip(slots, begun, strict=True):
            yield Eqn(again(self._slots[i].tally), (tallies[i],), (var,))
        added = (*([Var(_WEIGHT)] if opened.carries else []), *ended)
        eqn = opened.eqn
        yield replace(
            eqn,
            inputs=_inserted(eqn.inputs, opened.at_input, (weight, *begun)),
            outputs=_inserted(eqn.outputs, opened.at_output, added),
        )
        for i, var in zip(slots, ended, strict=True):
            after = Var(var.type)
            yield Eqn(merge(self._slots[i].tally), (tallies[i], var), (after,))
            tallies[i] = after


@dataclass(frozen=True)
class _ExtendedEqn:
    """An equation that takes further operands and gives further results, from these places on.

    carries: whether it is a loop, whose bodies give all that they take.
    """

    eqn: Eqn
    at_input: int
    at_output: int
    carries: bool = False


def _inserted(items: Sequence[T], at: int, added: Sequence[T]) -> tuple[T, ...]:
    return (*items[:at], *added, *items[at:])


@dataclass(frozen=True)
class WatchedOp(Op):
    """An op with parts, which also gives some of them."""

    op: Op
    watched: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name in the printed program: `calibration.` and that of the op."""
        return f"calibration.{self.op.name}"

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """The results of the op, then the parts."""
        watched_results = self.op.run_watched(inputs, params, self.watched)
        traced = any(isinstance(i, jax.core.Tracer) for i in (*inputs, *watched_results))
        return watched_results if traced else tuple(map(np.asarray, watched_results))
