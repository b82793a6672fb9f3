"""Ranges that training found: those of FAKE_QUANT's operand and result, and of values that only move these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import producers, users, with_bodies
from jfuse.lowering.ops.math.fake_quant import cut, is_never_negative
from jfuse.lowering.spellings.elementwise import spells_zeros
from jfuse.passes.quantize.forms import EqnForm, facts, is_float, operands_of, rule_of, why_not_integer
from jfuse.passes.quantize.parameters import FIRST, parameters
from jfuse.passes.rewrite import rewrite
from jfuse.quantization.recipe import QuantizeRule, Recipe
from jfuse.tflite.runtime.quantized import Fixed, TrainedRange
from jfuse.tflite.targets.target import Target

_BITS = {DType.i8: 8, DType.i16: 16}
FEW = 8
"""Bits of trained values that stay so where a recipe has more (trained_bits.py)."""


@dataclass(frozen=True)
class Trained:
    """The range of a value, and its parameters in the type of the equation that says so; None where that has none."""

    low: float
    high: float
    fixed: Fixed | None = None
    rule: QuantizeRule | None = None

    def fixed_for(self, rule: QuantizeRule) -> Fixed | None:
        """The trained scale and zero point where they are of the rule's type and symmetry; None for any other rule."""
        same = self.rule is not None and _kind(self.rule) == _kind(rule)
        return self.fixed if same else None


def _kind(rule: QuantizeRule) -> tuple[DType, bool]:
    return rule.activations, rule.symmetric


def trained_range(eqn: Eqn) -> TrainedRange | None:
    """The range that an equation states for its operand; None for one that computes."""
    row = facts(eqn).integers
    return None if row is None or row.trained is None else row.trained(eqn)


def parameters_of(trained: TrainedRange, rule: QuantizeRule) -> Fixed:
    """Those that were trained where the type has as many bits; else steps as fine as the type allows."""
    dtype = rule.activations
    zero_point = round(-trained.low / trained.step) + trained.first + FIRST[dtype]
    if trained.bits == _BITS[dtype] and (zero_point == 0 or (dtype is DType.i8 and not rule.symmetric)):
        return Fixed(trained.step, zero_point)
    quantization = parameters(trained.low, trained.high, dtype, symmetric=rule.symmetric)
    return Fixed(quantization.scale[0], quantization.zero_point[0])


def trained_ranges(graph: Graph, integers: Mapping[Eqn, QuantizeRule]) -> Mapping[Var, Trained]:
    """The ranges of values that training found.   integers: the equations that compute in integers

    The operand of FAKE_QUANT has that of the result, where nothing else reads it; what is moved or chosen has that of
    what it is moved from or to.
    """
    trained: dict[Var, Trained] = {}
    made_by = producers(graph)
    for eqn, rule in integers.items():
        if (own := trained_range(eqn)) is not None:
            trained[eqn.outputs[0]] = _kernels_own(eqn, rule, own, made_by, integers) or Trained(
                own.low, own.high, parameters_of(own, rule), rule
            )
        elif moved := _moved(eqn, trained):
            trained.update(dict.fromkeys(filter(is_float, eqn.outputs), moved))
    readers = _readers_of_numbers(graph)
    results = {a for a in graph.outputs if isinstance(a, Var)}
    for eqn in reversed(list(integers)):
        after = trained.get(eqn.outputs[0])
        if after is None or len(eqn.outputs) > 1:
            continue
        for var in _given_alone(eqn, readers, results, trained):
            trained[var] = after
    return trained


def _kernels_own(
    eqn: Eqn, rule: QuantizeRule, own: TrainedRange, made_by: Mapping[Var, Eqn], integers: Mapping[Eqn, QuantizeRule]
) -> Trained | None:
    """The range that the kernel before FAKE_QUANT demands of its result, where that has nothing to cut off."""
    demands = _demanded(eqn.inputs[0], rule, made_by, integers)
    if len(demands) != 1 or None in demands:
        return None
    (fixed,), first = demands, FIRST[rule.activations]
    assert fixed is not None, "checked above"
    low, high = (fixed.scale * (end - fixed.zero_point) for end in (first, -first - 1))
    has_all = own.low <= low + own.step and high - own.step <= own.high
    return Trained(low, high, fixed, rule) if has_all else None


def _demanded(
    atom: Atom | None, rule: QuantizeRule, made_by: Mapping[Var, Eqn], integers: Mapping[Eqn, QuantizeRule]
) -> set[Fixed | None]:
    """Collect the parameters that kernels demand of a value or its sources; None among them for one without demand."""
    demands: set[Fixed | None] = set()
    waiting, seen = [atom], set()
    while waiting:
        atom = waiting.pop()
        if atom in seen:
            continue
        seen.add(atom)
        before = made_by.get(atom) if isinstance(atom, Var) else None
        row = None if before is None or before not in integers else facts(before).integers
        if before is None or row is None or integers[before].activations is not rule.activations:
            demands.add(None)
        elif row.result == "same":
            waiting += [before.inputs[i] for i in operands_of(before).activations]
        else:
            demands.add(None if isinstance(row.result, str) else row.result[rule.activations])
    return demands


def is_moved(eqn: Eqn) -> bool:
    """Whether an equation gives numbers of its operands, in their steps."""
    row = facts(eqn).integers
    return row is not None and row.result == "same"


def _moved(eqn: Eqn, trained: Mapping[Var, Trained]) -> Trained | None:
    """The range of what an equation moves, where that of all its operands is known."""
    if not is_moved(eqn):
        return None
    activations = [eqn.inputs[i] for i in operands_of(eqn).activations]
    ranges = [_constant(a) if isinstance(a, Const) else trained.get(a) for a in activations if a is not None]
    known = [r for r in ranges if r is not None]
    if not known or len(known) < len(ranges):
        return None
    return Trained(min(r.low for r in known), max(r.high for r in known))


def _constant(const: Const) -> Trained:
    return Trained(float(const.array.min(initial=0)), float(const.array.max(initial=0)))


def _readers_of_numbers(graph: Graph) -> Mapping[Var, Sequence[Eqn]]:
    """The equations that read each value, without those that read its shape alone, as x - x does."""
    results = {a for a in graph.outputs if isinstance(a, Var)}
    readers: dict[Var, list[Eqn]] = {}
    for eqn in reversed(graph.eqns):
        read = [a for a in eqn.inputs if isinstance(a, Var)]
        is_zero = spells_zeros(eqn)
        is_read = eqn.effects or not is_moved(eqn) or any(v in results or readers.get(v) for v in eqn.outputs)
        for var in dict.fromkeys(read) if is_read and not is_zero else ():
            readers.setdefault(var, []).append(eqn)
    return readers


def _given_alone(
    eqn: Eqn, readers: Mapping[Var, Sequence[Eqn]], results: set[Var], trained: Mapping[Var, Trained]
) -> Iterator[Var]:
    """The operands that have the range of the result, as nothing sees more of them."""
    trains = trained_range(eqn) is not None
    for i in operands_of(eqn).activations if trains or is_moved(eqn) else ():
        var = eqn.inputs[i]
        if not isinstance(var, Var) or var in trained or var in results:
            continue
        others = [other for other in readers.get(var, ()) if other is not eqn]
        if all(trains and other.op is eqn.op and dict(other.params) == dict(eqn.params) for other in others):
            yield var


def with_ends(graph: Graph, recipe: Recipe) -> Graph:
    """The graph where what FAKE_QUANT cuts off is cut off, too, if the integers reach farther than its range."""
    made_by = producers(graph)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        rule, own = rule_of(eqn, recipe), trained_range(eqn)
        x = eqn.inputs[0] if eqn.inputs else None
        if own is None or not isinstance(x, Var) or rule.mode != "integer" or not _reaches_on(rule, own):
            return None
        within = _cut(x, own, made_by.get(x))
        return None if within is x else list(eqn.op.run([within], eqn.params, ()))

    return rewrite(with_bodies(graph, lambda body: with_ends(body, recipe)), visit)


def _reaches_on(rule: QuantizeRule, own: TrainedRange) -> bool:
    """Whether integers of a rule reach farther than a trained range: those of 16 bits are none of 8 trained ones."""
    return rule.symmetric or min(rule.activation_bits, own.bits) > FEW


def _cut(x: Any, own: TrainedRange, before: Eqn | None) -> Any:
    """Clip x to FAKE_QUANT's range, except at ends where an activation, or integers about zero, clip anyway."""
    activation = "" if before is None else str(before.params.get("fused_activation_function", before.op.builtin))
    is_cut_below = own.low <= own.step - own.high or (own.low <= 0 and is_never_negative(activation))
    is_cut_above = own.high >= -own.low - own.step
    return cut(x, None if is_cut_below else own.low, None if is_cut_above else own.high)


# Values that training rounded to 8 bits, in integers of 8 bits where a recipe has more.
# Finer steps would not be what the model was trained with: the file with 16 bits would be farther from it than that
# with 8. What stands between such values computes in 8 bits, too; all else as the recipe has it, behind a QUANTIZE.

_REASON = f"training rounded its values to {FEW} bits"


def in_trained_bits(graph: Graph, forms: Mapping[Eqn, EqnForm], target: Target) -> dict[Eqn, EqnForm]:
    """The forms, of 8 bits where training had no more."""
    wide = {e: f for e, f in forms.items() if f.kind == "integer" and f.rule.activation_bits > FEW}
    rounding = {e for e in wide if (own := trained_range(e)) is not None and own.bits <= FEW}
    if not rounding:
        return dict(forms)
    narrowed = dict(forms)
    readers = users(graph)
    before = _only_rounded(graph, rounding, readers)
    few: set[Var] = set()
    for eqn, form in wide.items():
        narrow = replace(form.rule, activation_bits=FEW)
        read = [eqn.inputs[i] for i in operands_of(eqn).activations]
        is_few = any(a in few for a in read) and all(a in few or isinstance(a, Const) for a in read)
        fits = is_moved(eqn) or all(v in before for v in filter(is_float, eqn.outputs))
        if eqn in rounding or (is_few and fits and why_not_integer(eqn, narrow, target) is None):
            narrowed[eqn] = EqnForm("integer", narrow, _REASON)
            few |= set(eqn.outputs) if eqn in rounding or is_moved(eqn) else set()
    return narrowed


def _only_rounded(graph: Graph, rounding: Set[Eqn], readers: Mapping[Var, list[Eqn]]) -> Set[Var]:
    """The values that nothing reads but FAKE_QUANT, if only after they are moved."""
    rounded: set[Var] = set()
    for eqn in reversed(graph.eqns):
        for var in eqn.outputs:
            reading = readers.get(var, ())
            if var in graph.outputs or not reading:
                continue
            if all(r in rounding or (is_moved(r) and rounded.issuperset(r.outputs)) for r in reading):
                rounded.add(var)
    return rounded
