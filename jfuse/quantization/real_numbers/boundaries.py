"""Real numbers at the boundaries of a program that takes and gives integers: for its calls, or in its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from jfuse.ir.graph import Atom, Eqn, Graph, Program, Signature, Var
from jfuse.ir.states import with_signatures
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.integer_types import is_per_tensor
from jfuse.kernels.core.op import TflOp
from jfuse.quantization.real_numbers.numbers import as_integers, as_real, real_type

Types = Mapping[str, Mapping[str, TensorType]]
"""The types of inputs or outputs by name, for each signature."""


@dataclass(frozen=True)
class Boundaries:
    """Converts the inputs and outputs of calls of a file."""

    program: Program

    def integers(self, key: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Round the inputs of a signature to the types that it takes."""
        return {name: as_integers(array, self._inputs[key][name]) for name, array in inputs.items()}

    def real(self, key: str, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The real numbers that the outputs of a signature stand for; states among them stay as they are."""
        types = self._outputs[key]
        return {name: as_real(a, types[name].quantization) if name in types else a for name, a in outputs.items()}

    @cached_property
    def _inputs(self) -> Types:
        return {s.key: _types(s.input_names, s.graph.inputs) for s in self.program.signatures}

    @cached_property
    def _outputs(self) -> Types:
        return {s.key: _types(s.output_names, s.graph.outputs) for s in self.program.signatures}


def _types(names: Sequence[str], atoms: Sequence[Atom]) -> dict[str, TensorType]:
    return {name: atom.type for name, atom in zip(names, atoms, strict=False)}


def with_real_boundaries(program: Program) -> Program:
    """Put QUANTIZE before the program's quantized inputs, and DEQUANTIZE after such outputs; states stay integers.

    The same object where it has no such inputs and outputs.
    """
    changed = with_signatures(program, _changed)
    is_same = all(old.graph is new.graph for old, new in zip(program.signatures, changed.signatures, strict=True))
    return program if is_same else changed


def _changed(signature: Signature) -> Signature:
    graph = signature.graph
    inputs, outputs, eqns = list(graph.inputs), list[Atom](graph.outputs), list(graph.eqns)
    for number, var in enumerate(graph.inputs[: len(signature.input_names)]):
        if is_per_tensor(var.type):
            inputs[number] = real = Var(real_type(var.type), var.name)
            eqns.insert(len(eqns) - len(graph.eqns), _conversion(ops.quantize, real, var))
    for number, atom in enumerate(graph.outputs[: len(signature.output_names)]):
        if isinstance(atom, Var) and is_per_tensor(atom.type):
            outputs[number] = real = Var(real_type(atom.type))
            eqns.append(_conversion(ops.dequantize, atom, real))
    if len(eqns) == len(graph.eqns):
        return signature
    return replace(signature, graph=Graph(graph.name, tuple(inputs), tuple(eqns), tuple(outputs)))


def _conversion(op: TflOp, operand: Var, result: Var) -> Eqn:
    return Eqn(op, (operand,), (result,), op.bind_options({}))
