"""The graph with its values in the types that were chosen, and QUANTIZE and DEQUANTIZE between what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Source, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import producers
from jfuse.kernels import ops
from jfuse.passes.quantize.arrays import activations_in, bias_in, in_halves, least_scale
from jfuse.passes.quantize.choose import Choice, IntegerSlot, input_scale, product_scale
from jfuse.passes.quantize.forms import EqnForm, facts, integers_of, is_float, is_half, operands_of
from jfuse.passes.quantize.parameters import as_unsigned, parameters, real_ends
from jfuse.passes.quantize.recurrent import integer_lstm, integer_svdf
from jfuse.passes.quantize.weights import WeightsInFewBits
from jfuse.quantization.recipe import QuantizeRule
from jfuse.tflite.runtime.quantized import IntegerLstm, IntegerSvdf, WeightOperand


@dataclass(frozen=True)
class Boundary:
    """The types of float inputs and outputs of a graph.   given: these inputs; told: how many of the first outputs"""

    inputs: DType = DType.f32
    outputs: DType = DType.f32
    given: frozenset[Var] = frozenset()
    told: int = 0

    def is_float(self, output: int) -> bool:
        """Whether an output of floats stays one."""
        return self.outputs is DType.f32 or output >= self.told


@dataclass
class Insertion:
    """One graph while it is rebuilt.

    choice: None where no equation computes in integers. weights: shared by all graphs of a program. on_body: makes
    another graph of the body of an equation.
    """

    graph: Graph
    forms: Mapping[Eqn, EqnForm]
    choice: Choice | None
    weights: WeightsInFewBits
    on_body: Callable[[Graph], Graph]
    boundary: Boundary = Boundary()
    eqns: list[Eqn] = field(default_factory=list)
    _floats: dict[Var, Var] = field(default_factory=dict)
    _held: dict[tuple[Var, IntegerSlot], Var] = field(default_factory=dict)
    _slots: dict[Var, IntegerSlot] = field(default_factory=dict)
    _consts: dict[tuple[int, Any], Var] = field(default_factory=dict)

    def run(self) -> Graph:
        """The graph in its new types."""
        inputs = [self._input(var) for var in self.graph.inputs]
        for eqn in self.graph.eqns:
            self._add(eqn, self.forms[eqn])
        outputs = [self._output(i, atom) for i, atom in enumerate(self.graph.outputs)]
        return replace(self.graph, inputs=tuple(inputs), eqns=tuple(self.eqns), outputs=tuple(outputs))

    # What comes in and goes out.

    def _input(self, var: Var) -> Var:
        dtype = self.boundary.inputs
        slot = self._slot_of(var, dtype) if var in self.boundary.given else None
        if slot is None:
            return var
        outside, *between = steps_to(slot, dtype)[::-1]
        entering = replace(var, type=replace(var.type, dtype=dtype, quantization=outside.quantization))
        self._hold(var, slot, self._through(entering, between, Source()))
        return entering

    def _slot_of(self, var: Var, wanted: DType) -> IntegerSlot | None:
        """The parameters of an input or output; those of the type that is wanted first."""
        order = (DType.i16, DType.i8) if wanted is DType.i16 else (DType.i8, DType.i16)
        slots = (self.choice.of_value(var, dtype) for dtype in order) if self.choice is not None else ()
        return next((slot for slot in slots if slot is not None), None)

    def _output(self, index: int, atom: Atom) -> Atom:
        if isinstance(atom, Const) or not is_float(atom):
            return atom
        dtype = self.boundary.outputs
        slot = self._slots.get(atom)
        if self.boundary.is_float(index) or slot is None:
            return self.as_float(atom, Source())
        known = self._slot_of(atom, dtype)
        slot = slot if known is None or known.dtype is not dtype else known
        return self._through(self.as_integer(atom, slot, Source()), steps_to(slot, dtype)[1:], here_source(self, atom))

    def _through(self, here: Var, slots: Sequence[IntegerSlot], source: Source) -> Var:
        """The value quantized anew, one time after the other."""
        for slot in slots:
            here = self._append(ops.quantize, here, slot, source)
        return here

    # Values in one type or another.

    def _hold(self, var: Var, slot: IntegerSlot, here: Var) -> None:
        self._held[var, slot] = here
        self._slots.setdefault(var, slot)

    def _append(self, op: Any, x: Atom, slot: IntegerSlot | None, source: Source) -> Var:
        dtype, quantization = (DType.f32, None) if slot is None else (slot.dtype, slot.quantization)
        made = Var(replace(x.type, dtype=dtype, quantization=quantization))
        self.eqns.append(Eqn(op, (x,), (made,), {}, source))
        return made

    def as_float(self, var: Var, source: Source) -> Var:
        """The value in f32, behind a DEQUANTIZE where it is quantized."""
        slot = self._slots.get(var)
        if slot is None:
            return var
        if var not in self._floats:
            self._floats[var] = self._append(ops.dequantize, self._held[var, slot], None, source)
        return self._floats[var]

    def as_integer(self, var: Var, slot: IntegerSlot, source: Source) -> Var:
        """The value as integers with these parameters."""
        if (var, slot) not in self._held:
            own = self._slots.get(var)
            integers = var if own is None else self._held[var, own]
            self._held[var, slot] = self._append(ops.quantize, integers, slot, source)
        return self._held[var, slot]

    # Equations.

    def _add(self, eqn: Eqn, form: EqnForm) -> None:
        if form.kind == "integer":
            self._add_integer(eqn, form)
            return
        inputs = tuple(self._float_operand(eqn, i, form) for i in range(len(eqn.inputs)))
        changed = replace(eqn, inputs=inputs, bodies=tuple(map(self.on_body, eqn.bodies)))
        self.eqns.append(changed)
        if form.kind == "weights":
            self.eqns.pop()
            self.weights.put(self, changed, form.rule)

    def _float_operand(self, eqn: Eqn, index: int, form: EqnForm) -> Atom | None:
        atom = eqn.inputs[index]
        if isinstance(atom, Const) and form.kind == "halves" and is_half(atom, form.rule):
            return self._half(atom, eqn.source)
        if not isinstance(atom, Var):
            return atom
        slot = self._slots.get(atom)
        if slot is not None and eqn.op.operand_at(index).shape_only:
            return self._held[atom, slot]
        return self.as_float(atom, eqn.source)

    def _half(self, const: Const, source: Source) -> Atom:
        half = in_halves(const)
        return const if half is None else self.dequantized(const, half, source)

    def dequantized(self, key: Const, const: Const, source: Source) -> Var:
        """The float numbers of a constant in another type, made once in the graph.   key: the constant as it was"""
        place = (id(key), const.type)
        if place not in self._consts:
            self._consts[place] = self._append(ops.dequantize, const, None, source)
        return self._consts[place]

    def _add_integer(self, eqn: Eqn, form: EqnForm) -> None:
        assert self.choice is not None, "an equation in integers"
        recurrence = facts(eqn).recurrence
        if recurrence is not None:
            self._add_recurrence(eqn, recurrence, form.rule)
            return
        dtype, row = form.rule.activations, integers_of(eqn)
        if row.trained is not None:  # what it does is done by reading the operand as integers
            slot = self.choice.at(eqn, 0)
            assert isinstance(eqn.inputs[0], Var), "constants are folded"
            self._hold(eqn.outputs[0], slot, self.as_integer(eqn.inputs[0], slot, eqn.source))
            return
        operands = list(eqn.inputs)
        roles = operands_of(eqn)
        for i in roles.activations:
            operands[i] = self._activation(eqn, i)
        for weights in roles.weights:
            operands[weights.operand] = self._integer_weights(eqn, weights, form)
        if roles.bias is not None:
            operands[roles.bias] = self._bias(eqn, roles.weights, operands, form.rule)
        shared_options = {name: value for name, value in row.options.items() if name in eqn.params}
        outputs = [self._result(var, dtype) if row.result != "plain" else var for var in eqn.outputs]
        self.eqns.append(
            replace(eqn, inputs=tuple(operands), outputs=tuple(outputs), params={**eqn.params, **shared_options})
        )

    def _add_recurrence(self, eqn: Eqn, recurrence: IntegerLstm | IntegerSvdf, rule: QuantizeRule) -> None:
        choice, dtype = self.choice, rule.activations
        assert choice is not None, "an equation in integers"
        taken = {i: self._activation(eqn, i) for i in operands_of(eqn).activations}
        *others, wide = eqn.outputs  # the cell state, or an SVDF's memory
        outputs = (*(self._result(var, dtype) for var in others), self._result(wide, DType.i16))
        if isinstance(recurrence, IntegerSvdf):
            self.eqns.append(integer_svdf(eqn, recurrence, taken, outputs))
        else:
            new = integer_lstm(
                eqn,
                recurrence,
                taken,
                outputs,
                lambda part: choice.part(eqn, part),
                lambda weights, bias, const: self.weights.corrected(eqn, rule, weights, bias, const),
            )
            self.eqns.append(new)

    def _activation(self, eqn: Eqn, index: int) -> Atom:
        assert self.choice is not None, "an equation in integers"
        atom, slot = eqn.inputs[index], self.choice.at(eqn, index)
        if isinstance(atom, Const):
            return self.weights.kept(atom, slot, lambda: activations_in(atom, slot.dtype, slot.quantization))
        assert isinstance(atom, Var), "an operand"
        return self.as_integer(atom, slot, eqn.source)

    def _integer_weights(self, eqn: Eqn, weights: WeightOperand, form: EqnForm) -> Const:
        assert self.choice is not None, "an equation in integers"
        scale, bias = input_scale(self.choice, eqn), operands_of(eqn).bias
        atom = None if bias is None else eqn.inputs[bias]
        least = None
        if isinstance(atom, Const):
            least = least_scale(atom, scale, form.rule.biases)
        return self.weights.integers(eqn, weights, form.rule, least)

    def _bias(
        self, eqn: Eqn, weights: Sequence[WeightOperand], operands: Sequence[Atom | None], rule: QuantizeRule
    ) -> Const:
        assert self.choice is not None, "an equation in integers"
        bias: Atom | None = None
        scale = np.array([input_scale(self.choice, eqn)])
        for each in weights:
            const = operands[each.operand]
            assert isinstance(const, Const), "weights in integers"
            scale = product_scale(float(scale[0]), const)
            bias = self.weights.corrected(eqn, rule, each.operand, operands_of(eqn).bias, const)
        assert isinstance(bias, Const), "why_not_integer refuses others"
        return bias_in(bias, scale, rule.biases)

    def _result(self, var: Var, dtype: DType) -> Var:
        assert self.choice is not None, "an equation in integers"
        slot = self.choice.of_value(var, dtype) if is_float(var) else None
        if slot is None:
            return var
        made = replace(var, type=replace(var.type, dtype=slot.dtype, quantization=slot.quantization))
        self._hold(var, slot, made)
        return made


def here_source(insertion: Insertion, var: Var) -> Source:
    """The source of what makes a value."""
    made = producers(insertion.graph).get(var)
    return Source() if made is None else made.source


def steps_to(slot: IntegerSlot, dtype: DType) -> list[IntegerSlot]:
    """The same range in other integers, from the slot itself on; u8 has none but i8 beside it."""
    if dtype is DType.u8:
        *before, last = steps_to(slot, DType.i8)
        return [*before, last, IntegerSlot(dtype, as_unsigned(last.quantization))]
    if dtype is slot.dtype:
        return [slot]
    low, high = real_ends(slot.dtype, slot.quantization)
    return [slot, IntegerSlot(dtype, parameters(low, high, dtype))]
