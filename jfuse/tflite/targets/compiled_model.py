"""Conditions of LiteRT's CompiledModel on a whole file, besides operators.

Measured over all rows of the tests (`python -m bench.target_tables compiled-model`, ai-edge-litert 2.3.0), except for
variable tensors, which litert/core/model/model_load.cc names. Tensors between operators may have any size.
"""

from __future__ import annotations

from collections.abc import Iterator

from jfuse.ir.dims import is_known, symbols_of
from jfuse.ir.graph import Const, Program, Signature, Var
from jfuse.ir.states import distinct
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns, producers
from jfuse.lowering.rule_tools.sizes_at_allocation import known_at_allocation
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.tflite.targets.target import Target

NAME = "compiled-model"
"""The target that writes files for it."""


def in_variable_tensors(program: Program) -> list[str]:
    """Name the parts of a program with variable tensors: operators with states, else states without operators."""
    eqns = [eqn for graph in program.entries() for eqn in all_eqns(graph) if keeps_state(eqn)]
    states = [state.name for state in program.states() if state.home == "tensor"]
    return [*dict.fromkeys(str(eqn.op.builtin) for eqn in eqns), *([] if eqns else states)]


def why_not_loaded(program: Program) -> list[str]:
    """Why CompiledModel refuses the file of a lowered program; [] where it takes it."""
    held = in_variable_tensors(program)
    reasons = [f"CompiledModel loads no variable tensors ({', '.join(held)})"] if held else []
    return [*reasons, *dict.fromkeys(reason for s in distinct(program) for reason in _of_boundary(s))]


def interpreter_only(program: Program, target: Target) -> str:
    """Return a note for a LiteRT file that runs in Interpreter alone; "" for other files."""
    is_for_litert = target.runs is None and not target.compiled_model
    reasons = why_not_loaded(program) if is_for_litert else []
    if not reasons:
        return ""
    remedy = f'; target="{NAME}" writes one for both' if in_variable_tensors(program) else ""
    return f"the file runs in LiteRT's Interpreter alone: {', and '.join(reasons)}{remedy}"


def _of_boundary(signature: Signature) -> Iterator[str]:
    """List the reasons why CompiledModel refuses inputs and outputs."""
    graph = signature.graph
    inputs = dict(zip(signature.input_names, graph.inputs, strict=False))
    outputs = dict(zip(signature.output_names, graph.outputs, strict=False))
    symbols = {name for var in inputs.values() for d in var.type.shape for name in symbols_of(d)}
    made = producers(graph)
    for name, atom in (*inputs.items(), *outputs.items()):
        if atom.type.dtype is DType.c128:
            yield f"CompiledModel takes no complex numbers of 128 bits, as {name!r} are"
        if any(is_known(d) and d == 0 for d in atom.type.shape):
            yield f"CompiledModel takes no tensors without elements, as {name!r} is ({atom.type})"
    for name, atom in outputs.items():
        if _is_sized_at_run_time(atom.type, symbols):
            yield f"CompiledModel gives no results whose size data decide, as that of {name!r} ({atom.type})"
        elif isinstance(atom, Const) or (
            isinstance(atom, Var) and atom in made and known_at_allocation(atom, made.get)
        ):
            yield f"CompiledModel gives no results that are known before a call, as {name!r}"


def _is_sized_at_run_time(tensor_type: TensorType, symbols: set[str]) -> bool:
    return any(name not in symbols for d in tensor_type.shape for name in symbols_of(d))
