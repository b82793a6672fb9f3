"""The body of the scan that an unrolled loop becomes, and what it needs to be given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.scans.reroll.detect import Unrolled
from jfuse.passes.scans.reroll.steps import Counter, LaggedValue, Operand, Orbit, Same, Slot, UnrolledStep

Strided: TypeAlias = tuple[Var, int, int, int]
"""A tensor that is read step by step, its axis, the index of the first step, and the distance to the next one."""


class StepGraph:
    """One step of a loop. Keys are what the loop is given from outside, in the order of a scan's operands.

    carried: for each result that later steps read, its value one step before, two steps before, …
    """

    def __init__(self, loop: Unrolled) -> None:
        self.loop = loop
        self.consts: dict[Var, Var] = {}
        self.carried: dict[Slot, list[Var]] = {}
        self.sequences: dict[Strided, Var] = {}
        self._numbers: dict[tuple[Orbit, int], Var] = {}
        self._values: dict[Slot, Var] = {}
        self._eqns: list[Eqn] = []
        for orbit in loop.orbits:
            for source in orbit.sources:
                self._carry(source)
        for orbit in loop.orbits:
            self._compute(orbit)

    @property
    def delays(self) -> list[tuple[Slot, int]]:
        """For each carried value the result that it is, and its lag: the number of steps since it was computed."""
        return [(slot, i + 1) for slot, variables in self.carried.items() for i in range(len(variables))]

    @property
    def counters(self) -> list[list[Const]]:
        """For each operand that counts the steps, its constants in all steps, in order."""
        eqns, steps = self.loop.graph.eqns, self.loop.steps
        operands = [[eqns[o.places[n + o.shift]].inputs[i] for n in steps] for o, i in self._numbers]
        return [[a for a in atoms if isinstance(a, Const)] for atoms in operands]

    def finish(self, stacked: Sequence[Slot]) -> Graph:
        """The body, which gives what is carried on and then the results that are stacked."""
        carried = [v for variables in self.carried.values() for v in variables]
        inputs = (*self.consts.values(), *carried, *self.sequences.values(), *self._numbers.values())
        passed = [v for slot, old in self.carried.items() for v in (self._values[slot], *old[:-1])]
        return Graph("step", inputs, tuple(self._eqns), (*passed, *(self._values[slot] for slot in stacked)))

    def _carry(self, source: LaggedValue) -> None:
        if source.lag:
            variables = self.carried.setdefault((source.orbit, source.output), [])
            out = self.loop.template(source.orbit).outputs[source.output]
            variables += [Var(out.type, value=out.value) for _ in range(source.lag - len(variables))]

    def _compute(self, orbit: Orbit) -> None:
        template = self.loop.template(orbit)
        operands = [
            self._operand(orbit, i, o, a) for i, (o, a) in enumerate(zip(orbit.operands, template.inputs, strict=True))
        ]
        outputs = tuple(Var(out.type, value=out.value) for out in template.outputs)
        self._eqns.append(replace(template, inputs=tuple(operands), outputs=outputs))
        self._values.update(((orbit, k), out) for k, out in enumerate(outputs))

    def _operand(self, orbit: Orbit, index: int, operand: Operand, atom: Atom | None) -> Atom | None:
        if isinstance(operand, LaggedValue):
            slot = (operand.orbit, operand.output)
            return self.carried[slot][operand.lag - 1] if operand.lag else self._values[slot]
        if isinstance(operand, UnrolledStep):
            return self._step(operand)
        if isinstance(operand, Same):
            same = operand.atom
            return self.consts.setdefault(same, Var(same.type, value=same.value)) if isinstance(same, Var) else same
        assert isinstance(operand, Counter)
        assert atom is not None
        return self._numbers.setdefault((orbit, index), Var(atom.type))

    def _step(self, step: UnrolledStep) -> Var:
        """One step of a sequence, with the axis of time put back where the source keeps it."""
        read = step.read
        shape, dtype = read.source.type.shape, read.source.type.dtype
        key = (read.source, read.axis, step.index(self.loop.steps.start), step.stride)
        row = TensorType((*shape[: read.axis], *shape[read.axis + 1 :]), dtype)
        row_var = self.sequences.setdefault(key, Var(row))
        if not read.kept:
            return row_var
        row_with_axis = Var(TensorType((*shape[: read.axis], 1, *shape[read.axis + 1 :]), dtype))
        axis = Const(np.array(read.axis, DType.i32.numpy))
        self._eqns.append(Eqn(ops.expand_dims, (row_var, axis), (row_with_axis,)))
        return row_with_axis
