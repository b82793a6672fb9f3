"""Keeps a state quantized between calls if only integer kernels read and write it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from jfuse.ir.graph import Eqn, Graph, Program, Signature, State, Var
from jfuse.ir.states import StatePlace, distinct, exposed_places, places, with_signatures
from jfuse.ir.walk import producers, substitute_graph, users
from jfuse.passes.quantize.arrays import activations_in


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
