"""A program with integers at its boundaries as one that takes and gives real numbers."""

from __future__ import annotations

from dataclasses import replace

from jfuse.ir.graph import Atom, Eqn, Graph, Program, Signature, Var
from jfuse.ir.states import with_signatures
from jfuse.kernels import ops
from jfuse.kernels.core.integer_types import is_per_tensor
from jfuse.quantization.real_numbers import real_type


def with_real_boundaries(program: Program) -> Program:
    """The program with QUANTIZE before its quantized inputs and DEQUANTIZE after such outputs; states stay integers.

    The same object where it has no such inputs and outputs.
    """
    changed = with_signatures(program, _changed)
    is_same = all(old.graph is new.graph for old, new in zip(program.signatures, changed.signatures, strict=True))
    return program if is_same else changed


def _changed(signature: Signature) -> Signature:
    graph = signature.graph
    given = [is_per_tensor(v.type) for v in graph.inputs[: len(signature.input_names)]]
    told = [isinstance(a, Var) and is_per_tensor(a.type) for a in graph.outputs[: len(signature.output_names)]]
    if not any((*given, *told)):
        return signature
    inputs, before = list(graph.inputs), list[Eqn]()
    for place in (i for i, is_changed in enumerate(given) if is_changed):
        inputs[place] = real = Var(real_type(graph.inputs[place].type), graph.inputs[place].name)
        before.append(Eqn(ops.quantize, (real,), (graph.inputs[place],), ops.quantize.bind_options({})))
    outputs, after = list[Atom](graph.outputs), list[Eqn]()
    for place in (i for i, is_changed in enumerate(told) if is_changed):
        outputs[place] = real = Var(real_type(graph.outputs[place].type))
        after.append(Eqn(ops.dequantize, (graph.outputs[place],), (real,), ops.dequantize.bind_options({})))
    eqns = (*before, *graph.eqns, *after)
    return replace(signature, graph=Graph(graph.name, tuple(inputs), eqns, tuple(outputs)))
