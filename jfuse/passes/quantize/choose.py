"""The parameters of every value that integer kernels read or write."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType
from jfuse.ir.walk import use_counts
from jfuse.passes.quantize.forms import EqnForm, facts, integers_of, is_float, operands_of
from jfuse.passes.quantize.groups import Group, Groups
from jfuse.passes.quantize.parameters import FIRST
from jfuse.passes.quantize.ranges.effective_ranges import EVERYWHERE, faded_ranges, narrowed, saturated_ends
from jfuse.passes.quantize.ranges.trained import trained_ranges
from jfuse.passes.quantize.recurrent import wraps_around
from jfuse.quantization.recipe import QuantizeRule
from jfuse.quantization.statistics import Observed
from jfuse.tflite.runtime.quantized import Fixed, IntegerLstm, IntegerSvdf

RangeOf = Callable[[Observed, str, int], tuple[float, float]]
"""The range of a value, by an algorithm's name, for integers of so many bits."""


_WRAPS = (
    "its gates may reach so far that its kernel's 32 bits wrap around; smaller inputs, such as normalized ones, do not"
)
_COARSE = (
    "the channels that it reads have ranges so unlike that one step of a product is more than a hundred of its result: "
    "scale its inputs alike, as a normalization does"
)
_MOST_MULTIPLIER = 2.0**7
"""How many steps of a result the step of a product may be. XNNPACK refuses 2^8, and the kernels of 16 bits shift by 7
at most (MultiplyByQuantizedMultiplier of int64_t)."""
_FARTHEST = 1e30
"""Numbers beyond it mean infinity, such as the padding of a maximum's windows. A range does not reach that far."""


@dataclass(frozen=True)
class IntegerSlot:
    """The type and parameters of one operand or result of an integer kernel."""

    dtype: DType
    quantization: Quantization


def cell_extent(eqn: Eqn, recurrence: IntegerLstm, range_of: RangeOf) -> float:
    """The largest cell state of an LSTM by its absolute value, before the first step and after all others.

    A clip of the cell state counts, as it must be within reach of the integers.
    """
    before = eqn.inputs[recurrence.cell_state]
    ends = [*range_of(Observed(eqn.outputs[0], "cell"), "minmax", 16), float(eqn.params["cell_clip"])]
    if isinstance(before, Const):
        ends += [float(before.array.min(initial=0)), float(before.array.max(initial=0))]
    elif before is not None:
        ends += range_of(Observed(before), "minmax", 16)
    return max(map(abs, ends))


def cell_scale(extent: float, recurrence: IntegerLstm) -> float:
    """The scale of the cell state: a power of two, within what the kernel takes; beyond that the state saturates."""
    least, most = recurrence.cell_exponents
    exponent = int(np.ceil(np.log2(extent))) - 15 if extent > 0 else least
    return float(2.0 ** min(max(exponent, least), most))


def parts_of(eqn: Eqn, recurrence: IntegerLstm) -> list[str]:
    """The inner values of an LSTM that need a scale: totals of gates before a layer norm, what a projection reads."""
    normed = [g.part for g in recurrence.gates if eqn.inputs[g.norm] is not None]
    return [*normed, *(["hidden"] if eqn.inputs[recurrence.projection[0]] is not None else [])]


class Choice:
    """The parameters of one graph: of each value, and of each place where an integer kernel reads one."""

    def __init__(self, graph: Graph, forms: Mapping[Eqn, EqnForm], range_of: RangeOf) -> None:
        self._range_of = range_of
        self._groups = Groups()
        self._counts = use_counts(graph)
        self._places: dict[tuple[Eqn, int], Hashable] = {}
        self._parts: dict[tuple[Eqn, str], tuple[float, float]] = {}
        integers = {eqn: forms[eqn].rule for eqn in graph.eqns if forms[eqn].kind == "integer"}
        self._integers = integers
        self._trained = trained_ranges(graph, integers)
        self._fixed = {v: f for eqn, rule in integers.items() if (f := _fixed(eqn, rule)) for v in eqn.outputs}
        self._faded = faded_ranges(graph, integers, self.seen)
        self._ends = saturated_ends(graph, integers, self.seen)
        for eqn, rule in integers.items():
            self._add(eqn, rule)
        for eqn, rule in integers.items():
            self._coarsen(eqn, rule.activations)

    def of_value(self, var: Var, dtype: DType) -> IntegerSlot | None:
        """The parameters of a value in a type; None where no integer kernel has to do with it."""
        return self._slot((var, dtype)) if (var, dtype) in self._groups else None

    def at(self, eqn: Eqn, operand: int) -> IntegerSlot:
        """The type and parameters of an activation that an integer kernel reads."""
        return self._slot(self._places[eqn, operand])

    def _slot(self, key: Hashable) -> IntegerSlot:
        group = self._groups[key]
        return IntegerSlot(group.dtype, group.quantization)

    def _add(self, eqn: Eqn, rule: QuantizeRule) -> None:
        recurrence = facts(eqn).recurrence
        if isinstance(recurrence, IntegerLstm):
            self._add_lstm(eqn, recurrence, rule)
            return
        if recurrence is not None:
            self._add_svdf(eqn, recurrence, rule)
            return
        row, dtype = integers_of(eqn), rule.activations
        fixed = _fixed(eqn, rule)
        results = [v for v in eqn.outputs if is_float(v) and row.result != "plain"]
        if row.trained is not None:
            self._add_trained(eqn, rule)
            return
        for var in results:
            self._groups.add((var, dtype), lambda var=var: self._group(var, rule, fixed))  # type: ignore[misc]
        for i in operands_of(eqn).activations:
            atom = eqn.inputs[i]
            key: Hashable = (atom, dtype) if isinstance(atom, Var) else (eqn, i)
            self._groups.add(key, lambda atom=atom: self._operand_group(eqn, atom, rule))  # type: ignore[misc]
            self._places[eqn, i] = key
        if row.result == "same" and results:
            self._share(eqn, [(var, dtype) for var in results])
        elif dtype in row.unscaled:
            self._share(eqn, [self._places[eqn, i] for i in operands_of(eqn).activations[:1]])

    def _add_trained(self, eqn: Eqn, rule: QuantizeRule) -> None:
        """A result whose range is known, in whose parameters the operand is read."""
        (operand, *_), (result, *_) = eqn.inputs, eqn.outputs
        key = (result, rule.activations)
        self._groups.add(key, lambda: self._group(result, rule, None))
        self._places[eqn, 0] = key
        if isinstance(operand, Var) and operand in self._trained:
            self._groups.add((operand, rule.activations), lambda: self._group(operand, rule, None))

    def _add_lstm(self, eqn: Eqn, recurrence: IntegerLstm, rule: QuantizeRule) -> None:
        """The values of an LSTM: one scale for its output and output state, one for its cell state before and after."""
        dtype, (result, output, cell) = rule.activations, eqn.outputs
        h = eqn.inputs[recurrence.output_state]
        assert h is not None, "an operand"
        key = self._add_data(eqn, recurrence.data, rule)
        both = [self._group(atom, rule, None) for atom in (result, h)]
        union = replace(both[0], low=min(g.low for g in both), high=max(g.high for g in both))
        self._groups.add((result, dtype), lambda: union)
        self._groups.add((output, dtype), lambda: replace(union))
        self._groups.join((result, dtype), (output, dtype), alone=True)
        extent = cell_extent(eqn, recurrence, self._range_of)
        fixed = Fixed(cell_scale(extent, recurrence), 0)
        self._groups.add((cell, DType.i16), lambda: Group(DType.i16, 0.0, 0.0, fixed, symmetric=True))
        places = {
            recurrence.data: key,
            recurrence.output_state: (result, dtype),
            recurrence.cell_state: (cell, DType.i16),
        }
        self._places |= {(eqn, i): place for i, place in places.items()}
        self._parts |= {
            (eqn, part): self._range_of(Observed(result, part), rule.range_algorithm, rule.activation_bits)
            for part in parts_of(eqn, recurrence)
        }

    def _add_svdf(self, eqn: Eqn, recurrence: IntegerSvdf, rule: QuantizeRule) -> None:
        """The values of an SVDF: its result begins at 0 as its RELU does, its state has one scale before and after."""
        result, after = eqn.outputs
        before = eqn.inputs[recurrence.state]
        assert before is not None, "an operand"
        wide = replace(rule, activation_bits=16)
        states = [self._group(atom, wide, None) for atom in (after, before)]
        union = replace(states[0], low=min(g.low for g in states), high=max(g.high for g in states))
        self._groups.add((result, rule.activations), lambda: replace(self._group(result, rule, None), low=0.0))
        self._groups.add((after, wide.activations), lambda: union)
        self._places[eqn, recurrence.data] = self._add_data(eqn, recurrence.data, rule)
        self._places[eqn, recurrence.state] = (after, wide.activations)

    def _add_data(self, eqn: Eqn, operand: int, rule: QuantizeRule) -> Hashable:
        """Group the sequence that a recurrent operator steps through."""
        data = eqn.inputs[operand]
        assert data is not None, "an operand"
        key: Hashable = (data, rule.activations) if isinstance(data, Var) else (eqn, operand)
        self._groups.add(key, lambda: self._group(data, rule, None))
        return key

    def part(self, eqn: Eqn, part: str) -> tuple[float, float]:
        """The range of an inner value of an equation."""
        return self._parts[eqn, part]

    def _coarsen(self, eqn: Eqn, dtype: DType) -> None:
        """Let the result, and constants beside it, have steps as large as the kernel demands."""
        scales = [self.at(eqn, i).quantization.scale[0] for i in operands_of(eqn).activations]
        least = integers_of(eqn).least_scale(max(scales, default=0.0))
        for var in filter(lambda var: (var, dtype) in self._groups, eqn.outputs):
            group = self._groups[var, dtype]
            group.least_scale = max(group.least_scale, least)
            beside = integers_of(eqn).least_constant(group.quantization.scale[0])
            for i in operands_of(eqn).activations:
                if isinstance(eqn.inputs[i], Const):
                    constant = self._groups[self._places[eqn, i]]
                    constant.least_scale = max(constant.least_scale, beside)

    def why_not(self, eqn: Eqn) -> str | None:
        """Explain why the kernel refuses the parameters of its operands; None where it takes them."""
        row, recurrence = integers_of(eqn), facts(eqn).recurrence
        if isinstance(recurrence, IntegerLstm):
            read = {i: (slot.dtype, slot.quantization) for i in recurrence.read for slot in [self.at(eqn, i)]}
            return _WRAPS if wraps_around(eqn, recurrence, read) else None
        slots = [self.at(eqn, i) for i in operands_of(eqn).activations]
        if any(slot.quantization.scale[0] >= row.below_scale for slot in slots):
            return "its operands' steps are too large for the kernel"
        if row.not_negative and any(slot.quantization.zero_point[0] > FIRST[slot.dtype] for slot in slots):
            return "the kernel fails for negative numbers, which its operand's integers can represent"
        return _COARSE if self._is_coarse(eqn) else None

    def _is_coarse(self, eqn: Eqn) -> bool:
        """Whether the step of a product with constant weights is too many steps of its result."""
        weights = [c for w in operands_of(eqn).weights if isinstance(c := eqn.inputs[w.operand], Const)]
        if not weights:
            return False
        largest = max(float(np.abs(const.array).max(initial=0)) for const in weights)
        step = largest / (2 ** (self._integers[eqn].weight_bits - 1) - 1) * input_scale(self, eqn)
        result = self.of_value(eqn.outputs[0], self._integers[eqn].activations)
        return result is not None and step >= _MOST_MULTIPLIER * result.quantization.scale[0]

    def seen(self, atom: Atom) -> tuple[float, float]:
        """The least and greatest number of a value, up to what a kernel's fixed scale holds."""
        if isinstance(atom, Const):
            return float(atom.array.min(initial=0)), float(atom.array.max(initial=0))
        if atom in self._trained:
            return self._trained[atom].low, self._trained[atom].high
        fixed = self._fixed.get(atom)
        return (-1.0, 1.0) if fixed is not None else self._range_of(Observed(atom), "minmax", 8)

    def _group(self, atom: Var | Const, rule: QuantizeRule, fixed: Fixed | None) -> Group:
        if atom in self._faded:
            low, high = self._faded[atom]
        elif isinstance(atom, Var) and fixed is None and atom in self._trained:
            trained = self._trained[atom]
            low, high, fixed = trained.low, trained.high, trained.fixed_for(rule)
        elif isinstance(atom, Const):
            low, high = within_reach(*self.seen(atom))
        else:
            low, high = (0.0, 0.0) if fixed is not None else self._ruled(atom, rule)
        return Group(rule.activations, low, high, fixed, rule.symmetric)

    def _ruled(self, var: Var, rule: QuantizeRule) -> tuple[float, float]:
        low, high = self._range_of(Observed(var), rule.range_algorithm, rule.activation_bits)
        return narrowed(low, high, self._ends.get(var, EVERYWHERE))

    def _operand_group(self, eqn: Eqn, atom: Var | Const, rule: QuantizeRule) -> Group:
        """The group of an operand; the constant of a minimum or maximum ends where its result does.

        Beyond that it cuts nothing off, nor do integers that saturate; 1e6, the most that a normalization divides by,
        would leave no steps for the numbers that share its scale.
        """
        group = self._group(atom, rule, None)
        if isinstance(atom, Var) or integers_of(eqn).result != "same" or not eqn.op.elementwise or eqn.op.selects:
            return group
        low, high = self.seen(eqn.outputs[0])
        return replace(group, low=max(group.low, min(low, 0.0)), high=min(group.high, max(high, 0.0)))

    def _share(self, eqn: Eqn, keys: list[Hashable]) -> None:
        """Let operands and `keys` share their parameters; an operand that cannot is read with those of the first."""
        first, *others = keys
        for other in others:
            self._groups.join(first, other, alone=True)
        for i in operands_of(eqn).activations:
            atom = eqn.inputs[i]
            alone = not isinstance(atom, Var) or self._counts[atom] == 1
            if not self._groups.join(first, self._places[eqn, i], alone=alone):
                self._places[eqn, i] = first


def _fixed(eqn: Eqn, rule: QuantizeRule) -> Fixed | None:
    """The parameters that the kernel demands of the result; all that have some stay within a few units of 0."""
    row = facts(eqn).integers
    return None if row is None or isinstance(row.result, str) else row.result[rule.activations]


def within_reach(low: float, high: float) -> tuple[float, float]:
    """A range without numbers that mean infinity."""
    return (low if low > -_FARTHEST else 0.0), (high if high < _FARTHEST else 0.0)


def input_scale(choice: Choice, eqn: Eqn) -> float:
    """The scale of what the weights of an equation are multiplied with: its first activation."""
    return choice.at(eqn, operands_of(eqn).activations[0]).quantization.scale[0]


def product_scale(input_scale: float, weights: Const) -> np.ndarray:
    """The scale of products, by channel: f64[n], or f64[1]."""
    assert weights.quantization is not None, "weights in integers"
    return np.array(weights.quantization.scale, np.float64) * input_scale
