"""Keeps values that loops carry, or branches take and return, as integers where integer kernels read and make them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Source, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import producers, substitute_graph, users
from jfuse.kernels import ops
from jfuse.passes.quantize.arrays import activations_in
from jfuse.passes.quantize.body_places import BodyPlace, body_places
from jfuse.passes.quantize.choose import IntegerSlot
from jfuse.passes.quantize.forms import is_float
from jfuse.passes.quantize.groups import MOST_COARSE


class _Uses:
    """Who makes the values of a graph, and who reads them."""

    def __init__(self, graph: Graph) -> None:
        self.made = producers(graph)
        self._readers = users(graph)

    def readers(self, var: Var) -> list[Eqn]:
        """The equations that read the numbers of a value, not its shape alone."""
        return [eqn for eqn in self._readers.get(var, ()) if _reads_numbers(eqn, var)]


def _reads_numbers(eqn: Eqn, var: Var) -> bool:
    return any(atom is var and not eqn.op.operand_at(i).shape_only for i, atom in enumerate(eqn.inputs))


_Slots = Mapping[int, IntegerSlot]
"""The integers that some inputs, or outputs, of a body become, by place."""


def with_integer_bodies(graph: Graph) -> Graph:
    """The graph with integers where bodies quantize what they are given, or dequantize what they give.

    A loop that carries floats quantizes all of them in each turn: a list of all steps, too, for the one that is read.
    """
    return _IntegerBodies().changed(graph)


@dataclass
class _IntegerBodies:
    """The rewritten form of each body; several equations may share one. Bodies stay alive: their ids are the keys."""

    _inner: dict[int, tuple[Graph, Graph]] = field(default_factory=dict)
    _typed: dict[object, tuple[Graph, Graph]] = field(default_factory=dict)

    def changed(self, graph: Graph) -> Graph:
        """The graph with all of its bodies changed, the innermost first."""
        if not any(eqn.bodies for eqn in graph.eqns):
            return graph
        eqns: list[Eqn] = []
        moved: dict[Var, Var] = {}
        made = producers(graph)
        for eqn in graph.eqns:
            eqns += self._eqn(eqn, made, moved) if eqn.bodies else (eqn,)
        return _read_as(replace(graph, eqns=tuple(eqns)), moved)

    def _eqn(self, eqn: Eqn, made: Mapping[Var, Eqn], moved: dict[Var, Var]) -> list[Eqn]:
        """The equation, behind what quantizes its operands.   moved: results that are integers, with these; filled"""
        eqn = replace(eqn, bodies=tuple(map(self._body, eqn.bodies)))
        operands, outputs, before = list(eqn.inputs), list(eqn.outputs), list[Eqn]()
        uses = [_Uses(body) for body in eqn.bodies]
        taken: list[dict[int, IntegerSlot]] = [{} for _ in eqn.bodies]
        returned: list[dict[int, IntegerSlot]] = [{} for _ in eqn.bodies]
        for place in body_places(eqn):
            own = None if place.operand is None else eqn.inputs[place.operand]
            slot = _slot_at(eqn, place, uses, own, _slot_of(own, made, moved))
            if slot is None:
                continue
            for slots, places in ((taken, place.inputs), (returned, place.outputs)):
                for body, i in places:
                    slots[body][i] = slot
            if place.operand is not None:
                operands[place.operand] = _as_integers(own, slot, made, before, eqn.source)
            if place.result is not None:
                var = eqn.outputs[place.result]
                outputs[place.result] = moved[var] = _in_slot(var, slot)
        bodies = tuple(self._retyped(*each) for each in zip(eqn.bodies, taken, returned, strict=True))
        return [*before, replace(eqn, inputs=tuple(operands), outputs=tuple(outputs), bodies=bodies)]

    def _body(self, body: Graph) -> Graph:
        if id(body) not in self._inner:
            self._inner[id(body)] = body, self.changed(body)
        return self._inner[id(body)][1]

    def _retyped(self, body: Graph, taken: _Slots, returned: _Slots) -> Graph:
        if not taken and not returned:
            return body
        key = id(body), tuple(taken.items()), tuple(returned.items())
        if key not in self._typed:
            self._typed[key] = body, _retyped(body, taken, returned)
        return self._typed[key][1]


def _retyped(body: Graph, taken: _Slots, returned: _Slots) -> Graph:
    """A body that takes and gives integers at some places."""
    made, outputs, behind = producers(body), list(body.outputs), list[Eqn]()
    moved = {body.inputs[i]: _in_slot(body.inputs[i], slot) for i, slot in taken.items()}
    for i, slot in returned.items():
        outputs[i] = _as_integers(outputs[i], slot, made, behind, Source())
    inputs = tuple(moved.get(var, var) for var in body.inputs)
    return _read_as(Graph(body.name, inputs, (*body.eqns, *behind), tuple(outputs), body.debug), moved)


def _slot_at(
    eqn: Eqn, place: BodyPlace, uses: Sequence[_Uses], own: Atom | None, outside: IntegerSlot | None
) -> IntegerSlot | None:
    """The type and parameters of a value's integers; None where it stays float.

    uses: of each body. own, outside: the operand, and the integers that it is made of.
    """
    read, made = place.read(eqn), place.made(eqn)
    if not all(map(is_float, (*read, *(atom for _, atom in made)))):
        return None
    readers = [r for (body, _), var in zip(place.inputs, read, strict=True) for r in uses[body].readers(var)]
    of_readers = {_slot_given(reader) for reader in readers}
    of_makers = {_slot_of(atom, uses[body].made, {}) for body, atom in made if isinstance(atom, Var)}
    if of_makers:
        slot = _common(of_makers, of_readers)
        is_read = any(of_readers)
    else:
        slot = outside or (next(iter(of_readers)) if len(of_readers) == 1 else None)
        is_read = bool(of_readers) and None not in of_readers
    if slot is None or (of_readers and not is_read):
        return None
    # Nothing says that what a loop starts from is within reach of the integers that it makes.
    if place.operand is not None and not of_readers and isinstance(own, Var) and outside != slot:
        return None
    consts = [atom for atom in (own, *(atom for _, atom in made)) if isinstance(atom, Const)]
    return slot if all(_holds(slot, const) for const in consts) else None


def _common(
    of_makers: Collection[IntegerSlot | None], of_readers: Collection[IntegerSlot | None]
) -> IntegerSlot | None:
    """The integers that makers and readers of a value share; None where one is a float, or would get far coarser steps.

    of_makers: the integers that bodies make. of_readers: the integers that they read, whose range covers all carried
    values, the initial one too.
    """
    makers, readers = (list(filter(None, slots)) for slots in (of_makers, of_readers))
    if len(makers) < len(of_makers):
        return None
    widest = max(readers or makers, key=lambda slot: (slot.dtype is DType.i16, slot.quantization.scale[0]))
    steps = [slot.quantization.scale[0] for slot in makers]
    return widest if widest.quantization.scale[0] <= MOST_COARSE * min(steps) else None


def _slot_given(eqn: Eqn) -> IntegerSlot | None:
    """The type and parameters of a QUANTIZE's result; None for other equations."""
    return _slot(eqn.outputs[0]) if eqn.op.scales == "into" else None


def _slot_of(atom: Atom | None, made: Mapping[Var, Eqn], moved: Mapping[Var, Var]) -> IntegerSlot | None:
    """The integers that a float value is made of; None where it is made of something else."""
    return _slot(moved[atom]) if isinstance(atom, Var) and atom in moved else _slot(_integers_of(atom, made))


def _integers_of(atom: Atom | None, made: Mapping[Var, Eqn]) -> Atom | None:
    """The integers that a DEQUANTIZE makes a value from; None where another equation makes it."""
    maker = made.get(atom) if isinstance(atom, Var) else None
    return maker.inputs[0] if maker is not None and maker.op.scales == "out_of" else None


def _slot(atom: Atom | None) -> IntegerSlot | None:
    quantization = None if atom is None else atom.type.quantization
    if atom is None or quantization is None or len(quantization.scale) != 1:
        return None
    return IntegerSlot(atom.type.dtype, quantization)


def _holds(slot: IntegerSlot, const: Const) -> bool:
    """Whether all numbers of a constant are within reach of the integers."""
    (scale,), (zero,) = slot.quantization.scale, slot.quantization.zero_point
    steps = activations_in(const, slot.dtype, slot.quantization).array.astype(np.float64) - zero
    return bool(np.all(np.abs(steps * scale - const.array) <= scale))


def _in_slot(var: Var, slot: IntegerSlot) -> Var:
    return Var(replace(var.type, dtype=slot.dtype, quantization=slot.quantization), var.name)


def _as_integers(
    atom: Atom | None, slot: IntegerSlot, made: Mapping[Var, Eqn], eqns: list[Eqn], source: Source
) -> Atom:
    """A float value as integers: those that it is made of, else behind a QUANTIZE among `eqns`."""
    if isinstance(atom, Const):
        return activations_in(atom, slot.dtype, slot.quantization)
    assert atom is not None, "bodies take and give values"
    integers = _integers_of(atom, made)
    if integers is not None and _slot(integers) == slot:
        return integers
    quantized = _in_slot(atom, slot)
    eqns.append(Eqn(ops.quantize, (atom if integers is None else integers,), (quantized,), {}, source))
    return quantized


def _read_as(graph: Graph, moved: Mapping[Var, Var]) -> Graph:
    """The graph with integers in place of values: those that are read as floats all the same are dequantized.

    moved: each value with the integers, which the graph has as an input or as a result of an equation.
    """
    back = {integers: var for var, integers in moved.items()}
    uses, results = _Uses(graph), set(graph.outputs)
    floats = {v for v in moved if v in results or any(_slot_given(r) is None for r in uses.readers(v))}
    same: dict[Var, Atom] = {}
    eqns: list[Eqn] = []

    def bind(variables: Iterable[Var]) -> None:
        for integers in variables:
            if back.get(integers) in floats:
                eqns.append(Eqn(ops.dequantize, (integers,), (back[integers],), {}, Source()))

    def integers(eqn: Eqn, place: int) -> Atom | None:
        """Return the integers in place of an operand that is quantized, or read for its shape alone."""
        atom = eqn.inputs[place]
        is_free = eqn.op.scales == "into" or eqn.op.operand_at(place).shape_only
        return moved.get(atom, atom) if is_free and isinstance(atom, Var) else atom

    bind(graph.inputs)
    for eqn in graph.eqns:
        operands = tuple(integers(eqn, i) for i in range(len(eqn.inputs)))
        if operands != eqn.inputs:
            if eqn.op.scales == "into" and _slot_given(eqn) == _slot(operands[0]):
                same[eqn.outputs[0]] = moved[eqn.inputs[0]]  # type: ignore[index]
                continue
            eqn = replace(eqn, inputs=operands)
        eqns.append(eqn)
        bind(eqn.outputs)
    changed = substitute_graph(replace(graph, eqns=tuple(eqns)), same)
    read = {a for eqn in changed.eqns for a in eqn.inputs} | set(changed.outputs)
    left = [e for e in changed.eqns if e.op.scales is None or not read.isdisjoint(e.outputs)]
    return replace(changed, eqns=tuple(left))
