"""Rewrites a quantized graph in real numbers; a policy decides what becomes of the values that the file rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Signature, State, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import is_per_tensor, is_quantized, quantizes_as_it_runs
from jfuse.quantization.real_numbers.numbers import Computed, as_real, real_const, real_type


class Exact:
    """The policy that rounds nothing. Others override what they round."""

    def weight(self, real: RealGraph, const: Const) -> Atom:
        """Give the numbers of a constant at one of its uses."""
        return real.weight(const)

    def stored(self, real: RealGraph, value: Atom, stored: TensorType) -> Atom:
        """Give a value as a type with one scale holds it."""
        return value

    def rows(self, real: RealGraph, value: Atom) -> Atom:
        """Give floats as a kernel takes them that quantizes as it runs."""
        return value

    def results(self, real: RealGraph, eqn: Eqn, operands: Sequence[Atom | None]) -> Sequence[Atom]:
        """Compute an equation, other than QUANTIZE and DEQUANTIZE, from real numbers."""
        return real.run(eqn, operands, [real.graph(body) for body in eqn.bodies])


@dataclass
class RealGraph:
    """The graph while it is built.   values: the real numbers of each value so far; eqns: the equations for them

    QUANTIZE and DEQUANTIZE are left out; activation functions stay, fused ones too.
    """

    policy: Exact = field(default_factory=Exact)
    values: dict[Var, Atom] = field(default_factory=dict)
    eqns: list[Eqn] = field(default_factory=list)
    _weights: dict[Const, Const] = field(default_factory=dict)

    def graph(self, graph: Graph) -> Graph:
        """Rewrite a graph, bodies included."""
        outer, self.eqns = self.eqns, []
        inputs = tuple(Var(real_type(v.type), v.name, v.value) for v in graph.inputs)
        self._bind(graph.inputs, inputs)
        for eqn in graph.eqns:
            self.add(eqn)
        outputs = tuple(a for a in map(self.value, graph.outputs) if a is not None)
        eqns, self.eqns = tuple(self.eqns), outer
        return replace(graph, inputs=inputs, eqns=eqns, outputs=outputs)

    def add(self, eqn: Eqn) -> None:
        """Rewrite one equation."""
        operands = [self.value(a) for a in eqn.inputs]
        first = operands[0] if operands else None
        if eqn.op.scales and first is not None and first.type.dtype is DType.f32:
            self._bind(eqn.outputs, [first])
            return
        if quantizes_as_it_runs(eqn) and first is not None:
            operands[0] = self.policy.rows(self, first)
        self._bind(eqn.outputs, self.policy.results(self, eqn, operands))

    def _bind(self, variables: Sequence[Var], values: Iterable[Atom]) -> None:
        for var, value in zip(variables, values, strict=True):
            self.values[var] = self.policy.stored(self, value, var.type) if is_per_tensor(var.type) else value

    def value(self, atom: Atom | None) -> Atom | None:
        """Give the real numbers of an atom; None where they are not known."""
        if isinstance(atom, Const):
            return self.policy.weight(self, atom)
        return None if atom is None else self.values.get(atom)

    def weight(self, const: Const) -> Const:
        """Give the exact numbers of a constant, as one constant for all of its uses."""
        if const not in self._weights:
            is_half = const.type.dtype is DType.f16
            exact = Const(const.array.astype(np.float32), const.name) if is_half else real_const(const)
            self._weights[const] = exact if is_half or is_quantized(const.type) else const
        return self._weights[const]

    def run(self, eqn: Eqn, operands: Sequence[Atom | None], bodies: Sequence[Graph] | None = None) -> tuple[Var, ...]:
        """Add an equation on real numbers; its results.   bodies: in place of its own"""
        results = tuple(Var(real_type(v.type), v.name, v.value) for v in eqn.outputs)
        bodies = eqn.bodies if bodies is None else tuple(bodies)
        new = replace(eqn, inputs=tuple(operands), outputs=results, bodies=bodies)
        if any(is_quantized(a.type) for a in (*eqn.inputs, *eqn.outputs) if a is not None):
            new = replace(new, intermediates=(), version=None)
        self.eqns.append(new)
        return results

    def apply(self, op: Computed, *operands: Atom) -> Var:
        """Add an op that no file has; its result."""
        result = Var(op.types[0])
        self.eqns.append(Eqn(op, operands, (result,)))
        return result


def in_real_numbers(signature: Signature, policy: Exact) -> Signature:
    """Rewrite a signature: its graph, and its states before the first call."""
    states = signature.states
    stored = signature.graph.inputs[len(signature.graph.inputs) - len(states) :]
    real = tuple(replace(s, initial=_first(s, v.type)) for s, v in zip(states, stored, strict=True))
    return replace(signature, graph=RealGraph(policy).graph(signature.graph), states=real)


def _first(state: State, stored: TensorType) -> Const:
    if not is_quantized(stored):
        return state.initial
    return Const(np.asarray(as_real(state.initial.array, stored.quantization), np.float32), state.initial.name)
