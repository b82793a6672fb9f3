"""Integer inputs and outputs beside floats and behind loops, whose bodies are quantized after their graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from jfuse.ir.graph import Atom, Eqn, Graph, Program, Signature, Source, State, Var
from jfuse.ir.states import StatePlace, distinct, exposed_places, places, with_signatures
from jfuse.ir.types import DType
from jfuse.ir.walk import producers, substitute_graph, users
from jfuse.kernels import ops
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.passes.quantize.arrays import activations_in
from jfuse.passes.quantize.choose import IntegerSlot
from jfuse.passes.quantize.forms import is_float, rule_of, why_not_integer
from jfuse.passes.quantize.insert import steps_to
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.quantization.recipe import Recipe
from jfuse.tflite.targets.target import Target


@dataclass(frozen=True)
class EndSlots:
    """The parameters of float inputs and outputs that are to be integers, by position, as calibration found them."""

    inputs: Mapping[int, IntegerSlot]
    outputs: Mapping[int, IntegerSlot]


def with_integer_ends(graph: Graph, recipe: Recipe, target: Target, count: int, slots: EndSlots) -> Graph:
    """The graph with inputs, and the first `count` outputs, of the recipe's integers where they are still float.

    Outputs that are only moved from integers keep the parameters of these; others get those of `slots`.
    """
    graph = _with_integer_inputs(graph, recipe.ends[0], slots.inputs)
    if recipe.outputs is DType.f32 or not any(map(is_float, graph.outputs[:count])):
        return graph
    ends = _Ends(recipe, target, producers(graph))
    outputs = list(graph.outputs)
    for i, atom in enumerate(graph.outputs[:count]):
        outputs[i] = ends.typed(atom, slots.outputs.get(i)) if is_float(atom) else atom
    if outputs == [*graph.outputs]:
        return graph
    return eliminate_dead_code(replace(graph, eqns=(*graph.eqns, *ends.added), outputs=tuple(outputs)))


def _with_integer_inputs(graph: Graph, dtype: DType, slots: Mapping[int, IntegerSlot]) -> Graph:
    """The graph with integers, and DEQUANTIZE behind them, for float inputs.

    An input that is quantized inside, such as that of a loop, enters with the parameters that it has there.
    """
    inputs, read, added = list(graph.inputs), users(graph), list[Eqn]()
    instead: dict[Var, Atom] = {}
    for i, slot in slots.items():
        var = inputs[i]
        if not is_float(var):
            continue
        quantized = [eqn.outputs[0] for eqn in read.get(var, ()) if eqn.op.scales == "into"]
        slot = steps_to(_slot(quantized[0]) if quantized else slot, dtype)[-1]
        inputs[i] = Var(replace(var.type, dtype=slot.dtype, quantization=slot.quantization))
        added.append(Eqn(ops.dequantize, (inputs[i],), (Var(var.type),), {}, Source()))
        instead |= {var: added[-1].outputs[0], **{q: inputs[i] for q in quantized if _slot(q) == slot}}
    if not added:
        return graph
    graph = substitute_graph(graph, instead)
    return eliminate_dead_code(replace(graph, inputs=tuple(inputs), eqns=(*added, *graph.eqns)))


@dataclass
class _Ends:
    """The operators in integers beside those in floats.   added: in order; known: the integers of a float value"""

    recipe: Recipe
    target: Target
    made: Mapping[Var, Eqn]
    added: list[Eqn] = field(default_factory=list)
    known: dict[Var, Var | None] = field(default_factory=dict)

    def typed(self, atom: Atom, seen: IntegerSlot | None) -> Atom:
        """An output in the type that is wanted, or as it is.   seen: the parameters of one that floats compute"""
        here = self._integers(atom)
        if here is None:
            return (
                atom
                if seen is None or self._is_custom(atom)
                else self._quantized(atom, steps_to(seen, self.recipe.ends[1])[-1])
            )
        for slot in steps_to(_slot(here), self.recipe.ends[1])[1:]:
            here = self._quantized(here, slot)
        return here

    def _integers(self, atom: Atom | None) -> Var | None:
        """The integers of a float value; None where it is not moved from integers alone."""
        eqn = self.made.get(atom) if isinstance(atom, Var) else None
        if eqn is None or not isinstance(atom, Var):
            return None
        if atom not in self.known:
            self.known[atom] = self._moved(eqn)
        return self.known[atom]

    def _moved(self, eqn: Eqn) -> Var | None:
        first = eqn.inputs[0] if eqn.inputs else None
        if isinstance(first, Var) and first.type.quantization is not None:  # a DEQUANTIZE: the result is float
            return first
        rule = rule_of(eqn, self.recipe)
        if not eqn.op.moves or len(eqn.outputs) != 1 or rule.mode != "integer":
            return None
        if why_not_integer(eqn, rule, self.target):
            return None
        parts = {a: self._integers(a) for a in eqn.inputs if a is not None and is_float(a)}
        if not parts or None in parts.values():
            return None
        widest = _widest([_slot(part) for part in parts.values() if part is not None])
        alike = {a: self._quantized(part, widest) for a, part in parts.items() if part is not None}
        inputs = tuple(alike.get(a, a) if a is not None else None for a in eqn.inputs)
        (out,) = eqn.outputs
        moved = Var(replace(out.type, dtype=widest.dtype, quantization=widest.quantization))
        self.added.append(replace(eqn, inputs=inputs, outputs=(moved,)))
        return moved

    def _is_custom(self, atom: Atom) -> bool:
        """Whether a custom operator gives it, whose results (detections) are read as numbers."""
        return isinstance(atom, Var) and atom in self.made and isinstance(self.made[atom].op, CustomOp)

    def _quantized(self, var: Atom, slot: IntegerSlot) -> Var:
        """A value in integers, or in other ones."""
        if isinstance(var, Var) and not is_float(var) and _slot(var) == slot:
            return var
        made = Var(replace(var.type, dtype=slot.dtype, quantization=slot.quantization))
        self.added.append(Eqn(ops.quantize, (var,), (made,), {}, Source()))
        return made


def _slot(var: Var) -> IntegerSlot:
    assert var.type.quantization is not None, "quantized"
    return IntegerSlot(var.type.dtype, var.type.quantization)


def _widest(slots: Sequence[IntegerSlot]) -> IntegerSlot:
    """The one whose steps are largest: its range holds those of the others, or nearly so."""
    return max(slots, key=lambda slot: slot.quantization.scale[0])


# Keeps a state quantized between calls if only integer kernels read and write it.


def with_integer_states(program: Program, *, exposed: bool) -> Program:
    """The program with states as integers that are quantized when a call begins and dequantized when it ends.

    exposed: also those that are inputs and outputs. A state of several graphs stays float, as each has scales of its
    own.
    """
    known = Counter(state.name for s in distinct(program) for state in (*s.states, *s.exposed))

    def changed(signature: Signature) -> Signature:
        for place in (*places(signature), *(exposed_places(signature) if exposed else ())):
            if known[place.state.name] == 1:
                signature = _with_integers(signature, place)
        return signature

    return with_signatures(program, changed)


def _with_integers(signature: Signature, place: StatePlace) -> Signature:
    graph, before = signature.graph, signature.graph.inputs[place.input]
    readers, after = users(graph).get(before, []), graph.outputs[place.output]
    made = producers(graph).get(after) if isinstance(after, Var) else None
    if len(readers) != 1 or before in graph.outputs or made is None or not _is_scaled(readers[0], made):
        return signature
    (quantized,), ends = readers[0].outputs, made.inputs[0]
    quantization = quantized.type.quantization
    assert quantization is not None, "QUANTIZE gives integers with a scale"
    if ends is None or ends.type.quantization is None:
        return signature
    again = []
    if (ends.type.dtype, ends.type.quantization) != (quantized.type.dtype, quantization):
        there = Var(replace(ends.type, dtype=quantized.type.dtype, quantization=quantization))
        again, ends = [Eqn(readers[0].op, (ends,), (there,), {}, made.source)], there
    entering = replace(before, type=quantized.type)
    inputs = (*graph.inputs[: place.input], entering, *graph.inputs[place.input + 1 :])
    outputs = (*graph.outputs[: place.output], ends, *graph.outputs[place.output + 1 :])
    eqns = (*(eqn for eqn in graph.eqns if eqn is not readers[0]), *again)
    changed = substitute_graph(Graph(graph.name, inputs, eqns, outputs, graph.debug), {quantized: entering})
    initial = activations_in(place.state.initial, quantized.type.dtype, quantization)
    new = State(place.state.name, initial, place.state.home)
    new_states, shown = (
        tuple(new if s is place.state else s for s in states) for states in (signature.states, signature.exposed)
    )
    return replace(signature, graph=_without(changed, made), states=new_states, exposed=shown)


def _is_scaled(reader: Eqn, maker: Eqn) -> bool:
    return reader.op.scales == "into" and maker.op.scales == "out_of"


def _without(graph: Graph, eqn: Eqn) -> Graph:
    """The graph without an equation that nothing reads."""
    is_read = eqn.outputs[0] in graph.outputs or eqn.outputs[0] in users(graph)
    return graph if is_read else replace(graph, eqns=tuple(e for e in graph.eqns if e is not eqn))
