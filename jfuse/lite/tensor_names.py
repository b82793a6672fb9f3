"""The names and the order of a file's tensors as the official converter writes them; scripts find tensors by both.

Inputs come first, then constants in the reverse order of their use (a bias before its weights), then results. Names
are those of TensorFlow's nodes: weights have that of their product, a bias those of the nodes after the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import producers
from jfuse.opaque_ops.state_operands import state_operands
from jfuse.tflite.names import Names
from jfuse.tflite.write.subgraph import TensorNames
from jfuse.tflite.write.tables import is_lookup

_PRODUCTS = ("MatMul", "BatchMatMul", "Conv", "DepthwiseConv", "Einsum", "dot_general", "conv_general")
"""First letters of the ops of TensorFlow and jax that multiply by weights."""
_ROUNDS = "FakeQuant"
"""First letters of the ops that round as training does. What they round has their names, too."""


def official_names(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> TensorNames:
    """The names of the tensors of an entry graph.

    inputs, outputs: names of the named ones, in their order; the graph may have further ones, of its states.
    Where int16 activations lie between float inputs and outputs, these come last.
    """
    named = (*graph.inputs[: len(inputs)], *graph.outputs[: len(outputs)])
    ends: dict[Atom, str] = dict(zip(named, (*inputs, *outputs), strict=True))
    constants, results = _named_by_nodes(graph)
    results |= _reads(graph, len(inputs))
    beside = _beside(graph, ends)
    unique = Names(separator="")
    for name in ends.values():
        unique.unique(name)
    bases = [*reversed(constants.items()), *{**results, **beside}.items()]
    names = {atom: ends.get(atom) or unique.unique(name) for atom, name in bases}
    first = [*graph.inputs[: len(inputs)], *reversed(constants)]
    if any(isinstance(a, Var) and a.type.dtype is DType.i16 for a in beside):
        entering = [e.outputs[0] for e in graph.eqns if e.op.scales == "into" and e.inputs[0] in ends]
        last = {*graph.outputs}
        inner = [out for e in graph.eqns if not state_operands(e) for out in e.outputs if out not in last]
        first = [*entering, *reversed(constants), *(out for out in inner if out not in entering)]
    return TensorNames({**ends, **names}, first)


def _named_by_nodes(graph: Graph) -> tuple[dict[Atom, str], dict[Atom, str]]:
    """Names of the constants, in the order of their use, and of the results; neither is unique."""
    makers = producers(graph)
    constants: dict[Atom, str] = {}
    results: dict[Atom, str] = {}
    for eqn in graph.eqns:
        if _expands(eqn):
            continue  # named by its reader
        for atom, name in _operand_names(eqn):
            maker = makers.get(atom) if isinstance(atom, Var) else None
            if isinstance(atom, Const):
                constants.setdefault(atom, name)
            elif maker is not None and _expands(maker) and isinstance(stored := maker.inputs[0], Const):
                constants.setdefault(stored, name)
                results.setdefault(atom, name)
        name = _result_name(eqn)
        results |= {out: f"{name}:{i}" if i else name for i, out in enumerate(eqn.outputs)}
    return constants, results


def _reads(graph: Graph, first: int) -> dict[Atom, str]:
    """Names of the values of variables, the inputs from the first on: those of the nodes that read them."""
    states = {*graph.inputs[first:]}
    readers = {a: eqn for eqn in reversed(graph.eqns) for a in eqn.inputs if a in states}
    return {a: f"{_nodes(readers[a])[0]}/ReadVariableOp" for a in graph.inputs[first:] if a in readers}


def _expands(eqn: Eqn) -> bool:
    """Whether an equation makes floats of weights that are stored in fewer bits."""
    return eqn.op.scales == "out_of" and isinstance(eqn.inputs[0], Const)


def _beside(graph: Graph, ends: Mapping[Atom, str]) -> dict[Atom, str]:
    """Names of the integers that float inputs become, and that float outputs are made of."""
    names: dict[Atom, str] = {}
    for eqn in graph.eqns:
        given = eqn.inputs[0] if eqn.inputs else None
        if eqn.op.scales == "into" and given is not None and given in ends:
            integers = eqn.outputs[0]
            names[integers] = f"{ends[given]}_int16" if integers.type.dtype is DType.i16 else _scaled_name(eqn)
        elif eqn.op.scales == "out_of" and (floats := eqn.outputs[0]) in ends and isinstance(eqn.inputs[0], Var):
            integers = eqn.inputs[0]
            names.setdefault(integers, ends[floats] + "_int16" * (integers.type.dtype is DType.i16))
    return {atom: name for atom, name in names.items() if atom not in ends}


def _operand_names(eqn: Eqn) -> Iterator[tuple[Atom, str]]:
    """The operands that may be constants, the bias behind its weights."""
    product, behind = _nodes(eqn)
    for i, atom in enumerate(eqn.inputs):
        if atom is None or (is_lookup(eqn) and i < 2) or (isinstance(atom, Const) and not atom.array.size):
            continue  # the contents of tables are elsewhere, and no elements may be an option
        operand = eqn.op.operand_at(i).name if eqn.op.operands else "operand"
        if operand == "weights":
            yield atom, ";".join((product, *_rounding(eqn)))
        elif operand == "bias" and behind:
            yield atom, ";".join(reversed(behind))
        else:
            yield atom, f"{product}/{operand}"


def _rounding(eqn: Eqn) -> list[str]:
    """The nodes that trained the steps of an equation's weights."""
    return [s.node for s in eqn.source.merged if s.op.startswith(_ROUNDS)]


def _scaled_name(eqn: Eqn) -> str:
    """The name of integers, or of their numbers: that of the node which rounded these in training."""
    is_trained = eqn.op.scales == "into" and eqn.source.op.startswith(_ROUNDS)
    return f"{eqn.source.node};" if is_trained else f"tfl.{eqn.op.name}"


def _result_name(eqn: Eqn) -> str:
    if eqn.op.scales is not None:
        return _scaled_name(eqn)
    product, behind = _nodes(eqn)
    return ";".join((product, *reversed(behind)))


def _nodes(eqn: Eqn) -> tuple[str, list[str]]:
    """The node of an equation's product, or the first one that it computes, and the nodes after it."""
    sources = [s for s in (*eqn.source.merged, eqn.source) if s.node and not s.op.startswith(_ROUNDS)]
    nodes = [s.node for s in sources] or [f"tfl.{eqn.op.name}"]
    at = next((i for i, s in enumerate(sources) if s.op.startswith(_PRODUCTS)), 0)
    return nodes[at], nodes[at + 1 :]
