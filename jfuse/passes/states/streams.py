"""Finds the inputs that can be streamed piece by piece, and proves that the pieces answer as the whole sequence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from jfuse.base.errors import LowerError
from jfuse.ir.dims import same
from jfuse.ir.graph import Eqn, Graph, Signature, Var
from jfuse.ir.states import places
from jfuse.ir.walk import producers
from jfuse.lowering.rule_tools.broadcast_constants import Known
from jfuse.passes.states.buffered_steps import ADDS_STEPS, Buffer
from jfuse.passes.states.steps import CallValue, StepAxis
from jfuse.passes.states.stream_walk import Meeting, Mixing, StreamWalk, same_at_every_step

_WHOLE = 'convert with state="source", where every call has the whole sequence'


@dataclass
class _Streams:
    """The walks over one signature.   kept: the equations whose carries go from call to call"""

    signature: Signature
    kept: Collection[Eqn]
    tried: dict[tuple[Var, int], StreamWalk] = field(default_factory=dict)
    facts: dict[Graph, tuple[Known, frozenset[Var]]] = field(default_factory=dict)

    def inputs(self) -> Sequence[Var]:
        """The inputs that are no states."""
        count = len(self.signature.states)
        return self.signature.graph.inputs[: len(self.signature.graph.inputs) - count]

    def walk(self, axes: Mapping[Var, int], *, forwards: bool = True) -> StreamWalk:
        """A walk with the steps of these inputs along these axes."""
        graph = self.signature.graph
        held = frozenset(graph.inputs[p.input] for p in places(self.signature))
        steps = {v: StepAxis(axis, v.type.shape[axis], forwards=forwards) for v, axis in axes.items()}
        return StreamWalk(graph, self.kept, held, self.facts).run(steps)

    def alone(self, var: Var, axis: int) -> StreamWalk:
        """A walk with the steps of one input alone."""
        if (var, axis) not in self.tried:
            self.tried[var, axis] = self.walk({var: axis})
        return self.tried[var, axis]

    def axes(self) -> dict[Var, int]:
        """The axis of the steps, of each input that recurrences step through or causal windows look back at."""
        axis_of: dict[Var, int] = {}
        for var in self.inputs():
            walks = {axis: self.alone(var, axis) for axis in range(var.type.rank)}
            stepped = [axis for axis, walk in walks.items() if walk.reached]
            # A batch or a width of 1 could be taken for a single step.
            stepped = [a for a in stepped if same(var.type.shape[a], 1) is not True] or stepped[-1:]
            causal = [axis for axis, walk in walks.items() if walk.is_causal]
            if len(stepped) > 1:
                raise self._along_two_axes(var, stepped)
            if stepped or len(causal) == 1:  # padding of two axes is an image's
                axis_of[var] = (stepped or causal)[0]
        return axis_of

    def with_met(self, axes: dict[Var, int]) -> dict[Var, int]:
        """The axes, with those of inputs that are combined with the steps of the others step by step."""
        while added := {v: axis for m in self.walk(axes).meetings for v, axis in self._behind(m, axes)}:
            axes = {**axes, **added}
        return axes

    def _behind(self, met: Meeting, axes: Collection[Var]) -> Iterator[tuple[Var, int]]:
        for var in self.inputs():
            for axis in range(var.type.rank) if var not in axes else ():
                value = self.alone(var, axis).of(met.var)
                if isinstance(value, StepAxis) and value.axis == met.axis:
                    yield var, axis
                    break

    def mixing(self, walk: StreamWalk) -> Sequence[Mixing]:
        """The equations that mix steps, in the order of the graph; then results that are not made of the steps."""
        graph = self.signature.graph
        made, (known, _) = producers(graph), self.facts[graph]
        met = [
            Mixing(m.eqn, "it combines steps with what may have another value for each of them")
            for m in walk.meetings
            if walk.of(m.var) is None and not same_at_every_step(m.var, m.axis, made, known)
        ]
        order = {id(eqn): i for i, eqn in enumerate(graph.eqns)}
        mixing = sorted([*walk.mixing, *met], key=lambda m: order.get(id(m.eqn), 0))
        return [*mixing, *self._unlike_results(walk, made)]

    def _unlike_results(self, walk: StreamWalk, made: Mapping[Var, Eqn]) -> Iterator[Mixing]:
        values = map(walk.of, self.inputs())
        forwards = all(value.forwards for value in values if isinstance(value, StepAxis))
        for atom in self.signature.graph.outputs[: len(self.signature.output_names)]:
            value = walk.of(atom)
            if not isinstance(atom, Var) or atom not in made:
                continue
            if isinstance(value, StepAxis) and value.before:
                yield Mixing(made[atom], f"it gives {value.before} steps again that the call before had")
            if isinstance(value, StepAxis) and forwards and not value.forwards:
                yield Mixing(made[atom], "it gives the steps of each piece in reverse")
            if isinstance(value, CallValue) and value.rank == 1:
                yield Mixing(made[atom], "it gives what depends on the number of steps of the piece")

    def unread(self, axes: Collection[Var], reached: Collection[Eqn]) -> Mixing | None:
        """Why it is not known what a kept recurrence steps through, where some other input is behind it.

        axes: the inputs whose steps are known. reached: the recurrences that step through these.
        """
        others = [(var, axis) for var in self.inputs() if var not in axes for axis in range(var.type.rank)]
        walks = (self.alone(var, axis) for var, axis in others)
        unread = frozenset(self.kept).difference(reached)
        return next((walk.mixing[0] for walk in walks if walk.mixing and not unread.isdisjoint(walk.unknown)), None)

    def _along_two_axes(self, var: Var, axes: Sequence[int]) -> LowerError:
        name = self.signature.input_names[self.signature.graph.inputs.index(var)]
        return LowerError(
            f"steps_mix: recurrences step through several axes of the input {name!r}, and keep their states",
            expected="one axis of steps, as a sequence comes in pieces along one",
            found=f"axes {', '.join(map(str, axes))} of {var.type}",
            remedy=_WHOLE,
        )


@dataclass(frozen=True)
class PieceStream:
    """How the pieces of a sequence answer as the whole does.

    buffers: the states that this takes besides those of recurrences. backwards: the pieces come from the last one to
    the first.
    """

    buffers: Sequence[Buffer] = ()
    backwards: bool = False


def stream_of(signature: Signature, carrying: Collection[Eqn], mode: str) -> PieceStream:
    """Find the buffers with which pieces of a sequence give the results of the whole sequence.

    Raises LowerError where no state can do that. carrying: the equations whose carries go from call to call.
    """
    if not carrying and not any(eqn.op in ADDS_STEPS for eqn in signature.graph.eqns):
        return PieceStream()
    streams = _Streams(signature, carrying)
    axes = streams.with_met(streams.axes())
    walk = streams.walk(axes)
    unread = streams.unread(axes, walk.reached)
    if unread is not None:
        raise _refusal(unread)
    if not axes:
        return PieceStream()
    mixing = streams.mixing(walk)
    if mixing and mode == "io" and not streams.mixing(streams.walk(axes, forwards=False)):
        return PieceStream(backwards=True)
    if mixing and (carrying or walk.buffers):
        raise _refusal(mixing[0])
    return PieceStream(walk.buffers)


def _refusal(mixing: Mixing) -> LowerError:
    eqn = mixing.eqn
    return LowerError(
        f"steps_mix: {eqn.op.name} mixes steps of a sequence that comes in pieces",
        where=str(eqn.source) or None,
        expected="results that follow from the same step and a known number of steps before it",
        found=mixing.reason,
        remedy=f"{mixing.remedy}, or {_WHOLE}" if mixing.remedy else _WHOLE,
    )
