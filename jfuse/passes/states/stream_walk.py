"""Follows the steps of sequences through a graph: which equations mix them, and which need the steps before a piece."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jfuse.ir.dims import same, symbols_in
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.kernels import ops
from jfuse.kernels.control import composite, if_, scan, scan_parts
from jfuse.kernels.core.op import TflOp, static_value
from jfuse.lowering.rule_tools.broadcast_constants import Known, broadcast_constants, constant_of
from jfuse.passes.states import step_moves, step_windows  # noqa: F401 (they register their rules)
from jfuse.passes.states.buffered_steps import ADDS_STEPS, Buffer, added_before, other_padding
from jfuse.passes.states.step_windows import elementwise
from jfuse.passes.states.stepped import STEP_RULES, SteppedEqn
from jfuse.passes.states.steps import LAST, LENGTH, MIXED, UNKNOWN, CallValue, StepAxis, StepsMix, Value


@dataclass(frozen=True)
class Mixing:
    """An equation that mixes steps, and why."""

    eqn: Eqn
    reason: str
    remedy: str | None = None


@dataclass(frozen=True)
class Meeting:
    """An equation that combines steps with another tensor that may differ from step to step."""

    eqn: Eqn
    var: Var
    axis: int


@dataclass
class StreamWalk:
    """One walk over a graph, from what its inputs have to do with sequences.

    kept: the equations whose carries go from call to call. held: inputs that are states of the source.
    facts: what walks over the same graphs share: which tensors are constants, and which are needed.
    """

    graph: Graph
    kept: Collection[Eqn]
    held: Collection[Var]
    facts: dict[Graph, tuple[Known, frozenset[Var]]]
    values: dict[Var, Value] = field(default_factory=dict)
    mixing: list[Mixing] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)
    reached: set[Eqn] = field(default_factory=set)
    unknown: set[Eqn] = field(default_factory=set)
    is_causal: bool = False
    _at: list[Eqn] = field(default_factory=list)
    _symbols: frozenset[str] = frozenset()

    def run(self, inputs: Mapping[Var, Value]) -> StreamWalk:
        """Walk, with what is given for inputs of the graph; others have nothing to do with a sequence."""
        self._symbols = symbols_in(tuple(v.length for v in inputs.values() if isinstance(v, StepAxis)))
        self.values.update(inputs)
        self._graph(self.graph)
        return self

    def of(self, atom: Atom | None) -> Value:
        """Look up how a tensor depends on the sequence."""
        return self.values.get(atom) if isinstance(atom, Var) else None

    def _graph(self, graph: Graph) -> None:
        if graph not in self.facts:
            constants = broadcast_constants(graph)
            self.facts[graph] = constants, needed(graph, constants)
        known, read = self.facts[graph]
        for eqn in graph.eqns:
            if not read.isdisjoint(eqn.outputs):
                self._visit(eqn, read, known)

    def _visit(self, eqn: Eqn, read: frozenset[Var], known: Known) -> None:
        self._at.append(eqn)
        try:
            values = self._results(eqn, read, known)
        except StepsMix as mix:
            self.mixing.append(Mixing(eqn, mix.reason, mix.remedy))
            values = [mix.result] * len(eqn.outputs)
        finally:
            self._at.pop()
        for var, value in zip(eqn.outputs, values, strict=True):
            self.values[var] = self._settled(eqn, var, value, known)

    def _settled(self, eqn: Eqn, var: Var, value: Value, known: Known) -> Value:
        if isinstance(value, StepAxis):
            if _fits(value, var.type.shape):
                return value
            self.mixing.append(Mixing(eqn, "its result has another number of steps"))
            return UNKNOWN
        if var.value is not None:  # sizes, of which some may not be those of the sequence
            return LENGTH if symbols_in(var.value) & self._symbols else None
        return None if var in known else value

    def _results(self, eqn: Eqn, read: frozenset[Var], known: Known) -> Sequence[Value]:
        values = [self.of(atom) for atom in eqn.inputs]
        if all(v is None for v in values):
            return [None] * len(eqn.outputs)
        if eqn.op is scan:
            return self._scan(eqn, values)
        if eqn.op is composite:
            return self._body(eqn.bodies[0], values)
        if eqn.op is if_ and values[0] is None:
            return self._branches(eqn, values[1:])
        if not isinstance(eqn.op, TflOp):
            return self._other(eqn, values)
        stepped = SteppedEqn(eqn, tuple(values), lambda a, axis: self._meet(eqn, a, axis, known), _reader(eqn, read))
        return [self._builtin(stepped, eqn.op, known)] * len(eqn.outputs)

    def _builtin(self, stepped: SteppedEqn, op: TflOp, known: Known) -> Value:
        if op is ops.shape or op is ops.rank:
            return LENGTH  # those that are not the sequence's are told by their known values
        data = stepped.data
        if not any(isinstance(v, StepAxis) for v in data):
            worst = _worst(stepped.values)
            return worst if worst in (MIXED, UNKNOWN) else _worst(data) or self._sized(stepped, op)
        if op in ADDS_STEPS:
            buffered = self._buffered(stepped, known)
            if buffered is not None:
                return buffered
        rule = STEP_RULES.get(op) or (elementwise if op.elementwise else None)
        if rule is None:
            raise StepsMix("jfuse does not know which steps it reads", UNKNOWN)
        value = rule(stepped)
        self.is_causal |= _takes_context(stepped, value)
        return value

    def _sized(self, stepped: SteppedEqn, op: TflOp) -> Value:
        """Classify a value that the number of steps alone decides: one element a step, or one of the length."""
        if op is not ops.fill and op.moves != "repeats":
            return LENGTH if op is ops.range_ else None
        axes = [i for i, d in enumerate(stepped.result) if symbols_in((d,)) & self._symbols]
        return StepAxis(axes[0], stepped.result[axes[0]]) if len(axes) == 1 else LENGTH

    def _meet(self, eqn: Eqn, atom: Atom, axis: int, known: Known) -> None:
        constant = constant_of(atom, known)
        if constant is not None:
            if not _is_uniform(constant, axis - atom.type.rank):
                reason = "it has another constant for each step, and starts with the first one in every piece"
                self.mixing.append(Mixing(eqn, reason))
        elif isinstance(atom, Var):
            self.meetings.append(Meeting(eqn, atom, axis))

    def _buffered(self, stepped: SteppedEqn, known: Known) -> Value:
        """The steps with what a buffer, or a state of the source, puts before them; None where nothing is put there."""
        added = added_before(stepped, known, self.held)
        if added is None:
            return None
        steps, x, initial, count = added
        steps_after = replace(steps, before=steps.before + count, length=stepped.result[steps.axis])
        if initial is not None:
            if len(self._at) > 1:
                raise StepsMix(
                    "it pads the steps inside of a marked function or branch, where no state can be", steps_after
                )
            rest = other_padding(stepped.eqn, steps.axis)
            self.buffers.append(Buffer(stepped.eqn, x, steps.axis, steps.before, initial, count, rest))
        return steps_after

    def _body(self, body: Graph, values: Sequence[Value]) -> list[Value]:
        self.values.update(zip(body.inputs, values, strict=True))
        self._graph(body)
        return [self.of(atom) for atom in body.outputs]

    def _branches(self, eqn: Eqn, values: Sequence[Value]) -> list[Value]:
        first, second = (self._body(body, values) for body in eqn.bodies)
        if first != second:
            raise StepsMix("its branches have the steps at different places")
        return first

    def _other(self, eqn: Eqn, values: Sequence[Value]) -> Sequence[Value]:
        worst = _worst(values)
        if any(isinstance(v, StepAxis) for v in values):
            raise StepsMix(f"jfuse does not know which steps {eqn.op.name} reads", UNKNOWN)
        return [worst] * len(eqn.outputs)

    def _scan(self, eqn: Eqn, values: Sequence[Value]) -> Sequence[Value]:
        consts, carries, xs = scan_parts(values, eqn.params)
        count = len(carries)
        if worst := next((v for v in values if isinstance(v, CallValue) and v.rank > LENGTH.rank), None):
            self.unknown.add(self._at[0])
            return [worst] * len(eqn.outputs)
        if not any(isinstance(v, StepAxis) for v in xs):
            return self._scan_over_others(eqn, values)
        steps = next(v for v in xs if isinstance(v, StepAxis))
        if not all(self._is_stepped(v) for v in xs if isinstance(v, StepAxis)):
            if count:
                raise StepsMix("it steps through something else, while its input has steps of the sequence")
            return self._mapped(eqn, values)
        if any(isinstance(v, StepAxis) for v in (*consts, *carries)):
            raise StepsMix("each of its steps reads several steps of the sequence")
        self._check_operands(eqn, values, steps)
        if count:
            self._check_recurrence(eqn, steps)
        return [*[LAST] * count, *[replace(steps, axis=0)] * (len(eqn.outputs) - count)]

    def _is_stepped(self, value: Value) -> bool:
        return isinstance(value, StepAxis) and value.stands_alone and (value.axis == 0 or value.is_single)

    def _check_operands(self, eqn: Eqn, values: Sequence[Value], steps: StepAxis) -> None:
        """Raise where a scan combines steps with what is not the same for every piece."""
        consts, carries, xs = scan_parts(values, eqn.params)
        once = next((v for v in (*consts, *carries, *xs) if isinstance(v, CallValue)), None)
        if once is not None and not (once == LAST and steps.is_single):
            raise StepsMix(f"it combines every step with {once.kind} of the piece", replace(steps, axis=0))
        if len({(v.before, v.forwards) for v in xs if isinstance(v, StepAxis)}) > 1:
            raise StepsMix("it combines steps with other steps of the sequence", replace(steps, axis=0))
        known: Known = {}
        for atom, value in zip(scan_parts(eqn.inputs, eqn.params)[2], xs, strict=True):
            if value is None and same(eqn.params["length"], 1) is not True:
                self._meet(eqn, atom, 0, known)

    def _check_recurrence(self, eqn: Eqn, steps: StepAxis) -> None:
        if self._at[0] in self.kept:
            self.reached.add(self._at[0])
        elif any(around.op is not composite for around in self._at[:-1]):
            raise StepsMix("it starts anew whenever the loop or branch around it runs", LAST)
        if steps.forwards == bool(eqn.params["reverse"]):
            raise StepsMix("it steps through each piece from its end", replace(steps, axis=0))
        if steps.before:
            raise StepsMix("it goes again through steps that the call before had", replace(steps, axis=0))

    def _scan_over_others(self, eqn: Eqn, values: Sequence[Value]) -> Sequence[Value]:
        _, carries, xs = scan_parts(values, eqn.params)
        if any(isinstance(v, StepAxis) for v in values):
            if carries:
                raise StepsMix("each of its steps reads several steps of the sequence")
            return self._mapped(eqn, values)
        if self._at[0] in self.kept and carries and any(isinstance(v, CallValue) for v in xs):
            if same(eqn.params["length"], 1) is not True:
                raise StepsMix("it steps through a value of the whole piece, and keeps its state between calls")
        return [_worst(values)] * len(eqn.outputs)

    def _mapped(self, eqn: Eqn, values: Sequence[Value]) -> Sequence[Value]:
        """A loop over another axis, without carries, where each turn has all steps of the sequence."""
        first = eqn.params["consts"]
        inner = [v.at(v.axis - 1) if i >= first and isinstance(v, StepAxis) else v for i, v in enumerate(values)]
        if any(isinstance(v, StepAxis) and v.axis < 0 for v in inner):
            raise StepsMix("it steps through several sequences at once")
        results = self._body(eqn.bodies[0], inner)
        return [v.at(v.axis + 1) if isinstance(v, StepAxis) else v for v in results]


def needed(graph: Graph, known: Known) -> frozenset[Var]:
    """Find the tensors whose elements the results need; tensors that are read for their shape alone are left out.

    A size that data decide is no matter of shapes alone: what such a tensor is computed from is needed.
    """
    symbols = symbols_in(tuple(d for var in graph.inputs for d in var.type.shape))
    needed_vars = {atom for atom in graph.outputs if isinstance(atom, Var)}
    for eqn in reversed(graph.eqns):
        needed_outputs = [out for out in eqn.outputs if out in needed_vars]
        if eqn.effects or any(out not in known for out in needed_outputs):
            needed_vars.update(
                atom
                for i, atom in enumerate(eqn.inputs)
                if isinstance(atom, Var) and not (_is_shape_only(eqn, i) and symbols_in(atom.type.shape) <= symbols)
            )
    return frozenset(needed_vars)


def _fits(steps: StepAxis, shape: Sequence[Any]) -> bool:
    size = steps.outer * steps.length * steps.inner
    return steps.axis < len(shape) and same(size, shape[steps.axis]) is not False


def _is_shape_only(eqn: Eqn, place: int) -> bool:
    return isinstance(eqn.op, TflOp) and eqn.op.operand_at(place).shape_only


def _reader(eqn: Eqn, read: frozenset[Var]) -> Any:
    return lambda place: eqn.outputs[place] in read


def _worst(values: Sequence[Value]) -> Value:
    return max((v for v in values if isinstance(v, CallValue)), key=lambda v: v.rank, default=None)


def _takes_context(stepped: SteppedEqn, result: Value) -> bool:
    """Whether an equation used up what was put before the steps."""
    entering = next(v for v in stepped.values if isinstance(v, StepAxis))
    return isinstance(result, StepAxis) and result.before == 0 < entering.before


def _is_uniform(array: np.ndarray, axis_from_end: int) -> bool:
    """Whether an array is the same all along an axis, which it may not have."""
    if -axis_from_end > array.ndim or array.shape[axis_from_end] <= 1:
        return True
    return bool((array == np.take(array, [0], axis_from_end)).all())


def same_at_every_step(atom: Atom, axis: int, made: Mapping[Var, Eqn], known: Known) -> bool:
    """Whether a tensor is surely the same all along an axis: it was broadcast along it."""
    if axis < 0 or same(atom.type.shape[axis], 1) is True:
        return True
    constant = constant_of(atom, known)
    if constant is not None:
        return _is_uniform(constant, axis - atom.type.rank)
    eqn = made.get(atom) if isinstance(atom, Var) else None
    if eqn is None or not isinstance(eqn.op, TflOp):
        return False
    if eqn.op in (ops.broadcast_to, ops.tile) or eqn.op.elementwise:
        data = [a for i, a in enumerate(eqn.inputs) if a is not None and not eqn.op.operand_at(i).static]
        rank = eqn.outputs[0].type.rank
        return all(same_at_every_step(a, axis - rank + a.type.rank, made, known) for a in data)
    if eqn.op is ops.transpose:
        x, perm = eqn.inputs[:2]
        order = None if perm is None else static_value(perm)
        return x is not None and order is not None and same_at_every_step(x, int(order[axis]), made, known)
    return False
