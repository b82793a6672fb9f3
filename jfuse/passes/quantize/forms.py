"""The quantized form of each equation: the one that the recipe asks for, where the runtime has a kernel for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.sparse import SparseConst
from jfuse.ir.types import DType
from jfuse.ir.walk import producers, users
from jfuse.lowering.rule_tools.case_distinctions import switch_of
from jfuse.quantization.recipe import FLOAT, QuantizeRule, Recipe
from jfuse.tflite.names import equation_name
from jfuse.tflite.runtime.quantized import IntegerLstm, Integers, IntegerSvdf, Quantized, WeightOperand
from jfuse.tflite.runtime.table import quantized_of
from jfuse.tflite.targets.table import integer_types
from jfuse.tflite.targets.target import Target

_MOST_STEPS = 127  # of 8 bits, from 0 on
EVERY_STEP = (
    'its kernel rounds what it reads to 8 bits in every step: QuantizeRule("float") for it is nearer to the model, and '
    "larger"
)
ONE_SCALE = 'all rows of its table have one scale: QuantizeRule("float") for it is nearer to the model, and larger'
Kind = Literal["float", "halves", "weights", "integer"]
"""float: as it is. halves: constants in f16. weights: float operands, integer weights. integer: all in integers."""


@dataclass(frozen=True)
class EqnForm:
    """The form of one equation, and why it is less than its rule asks for, where it is."""

    kind: Kind
    rule: QuantizeRule = FLOAT
    reason: str = ""


@dataclass(frozen=True)
class Operands:
    """The float operands of an equation by what they are to its kernel, each by its position."""

    activations: tuple[int, ...]
    weights: tuple[WeightOperand, ...]
    bias: int | None


def facts(eqn: Eqn) -> Quantized:
    """The row that says how the runtime's kernel treats quantized tensors."""
    return quantized_of(eqn.op)


def operands_of(eqn: Eqn) -> Operands:
    """The roles of the float operands, as the row of the builtin has them."""
    row = facts(eqn)
    if row.recurrence is not None:
        return Operands(row.recurrence.read, (), None)
    bias = None if row.integers is None else row.integers.bias
    data = [i for i, a in enumerate(eqn.inputs) if is_float(a) and _is_data(eqn, i)]
    weights = [w for i in data if (w := row.weights_at(i)) is not None and not w.moved and _is_constant(eqn.inputs[i])]
    others = {w.operand for w in weights} | {bias}
    return Operands(tuple(i for i in data if i not in others), tuple(weights), bias if bias in data else None)


def is_float(atom: Atom | None) -> bool:
    """Whether an operand or result is of f32, which is what can be quantized."""
    return atom is not None and atom.type.dtype is DType.f32


def _is_data(eqn: Eqn, index: int) -> bool:
    declared = eqn.op.operand_at(index)
    return not declared.static and not declared.shape_only


def _is_constant(atom: Atom | None) -> bool:
    return isinstance(atom, Const) and not isinstance(atom, SparseConst)


def rule_of(eqn: Eqn, recipe: Recipe) -> QuantizeRule:
    """The last rule of the recipe that fits the equation's name and builtin, else `FLOAT`."""
    return recipe.rule_for(equation_name(eqn), str(eqn.op.builtin))


def weight_consts(eqn: Eqn, rule: QuantizeRule) -> Iterator[tuple[WeightOperand, Const]]:
    """The constant weights with enough elements, counted together where the kernel takes all of them or none.

    Not those of one element for each channel, as a norm's in a DEPTHWISE_CONV_2D of 1x1: each would have a scale, and
    the kernel would round what it reads.
    """
    floats = [(w, a) for w, a in _constants(eqn) if is_float(a) and not _is_one_for_each_channel(eqn, w, a, rule)]
    all_of_them = sum(atom.array.size for _, atom in floats) if facts(eqn).together else 0
    for weights, atom in floats:
        if weights.along or max(atom.array.size, all_of_them) >= rule.min_elements:
            yield weights, atom


def _is_one_for_each_channel(eqn: Eqn, weights: WeightOperand, const: Const, rule: QuantizeRule) -> bool:
    if facts(eqn).together or weights.moved or rule.granularity == "tensor" or not const.type.rank:
        return False
    return bool(const.array.size == const.array.shape[weights.axis_of(eqn)])


def _constants(eqn: Eqn) -> Iterator[tuple[WeightOperand, Const]]:
    for weights in facts(eqn).weights:
        atom = _operand(eqn, weights.operand)
        if isinstance(atom, Const) and _is_constant(atom) and atom.type.rank >= weights.rank:
            yield weights, atom


def is_finite(const: Const) -> bool:
    """Whether a constant holds neither NaNs nor infinities."""
    return bool(np.isfinite(const.array).all())


def weight_form(eqn: Eqn, rule: QuantizeRule) -> EqnForm:
    """The form of an equation whose weights alone are to be kept in few bits."""
    row = facts(eqn)
    consts = list(weight_consts(eqn, rule))
    if not consts:
        floats = [(weights, atom) for weights, atom in _constants(eqn) if is_float(atom)]
        enough = [w for w, a in floats if a.array.size >= rule.min_elements]
        too_few = f"its weights have fewer than {rule.min_elements} elements" if floats else ""
        return EqnForm("float", rule, "its weights have one element for each channel" if enough else too_few)
    if row.together and len(consts) < len(list(_constants(eqn))):
        return EqnForm("float", rule, "its kernel takes all weights in few bits or none, and some are no floats")
    if not all(is_finite(const) for _, const in consts):
        return EqnForm("float", rule, "its weights hold NaNs or infinities")
    has_one_scale = rule.weights is DType.i8 and any(w.moved and not w.hybrid for w, _ in consts)
    reason = EVERY_STEP if row.together and rule.mode == "dynamic" else ONE_SCALE if has_one_scale else ""
    return EqnForm("weights", rule, reason)


def _operand(eqn: Eqn, index: int) -> Atom | None:
    return eqn.inputs[index] if index < len(eqn.inputs) else None


def half_form(eqn: Eqn, rule: QuantizeRule) -> EqnForm:
    """The form of an equation whose constants are to be f16."""
    consts = [a for a in eqn.inputs if isinstance(a, Const) and is_half(a, rule)]
    return EqnForm("halves" if consts else "float", rule)


def is_half(atom: Atom | None, rule: QuantizeRule) -> bool:
    """Whether an operand is a constant that f16 makes smaller."""
    return isinstance(atom, Const) and _is_constant(atom) and is_float(atom) and atom.array.size >= rule.min_elements


def own_form(eqn: Eqn, recipe: Recipe, target: Target) -> EqnForm:
    """The form of an equation, whatever its neighbours' are."""
    rule = rule_of(eqn, recipe)
    is_operator = eqn.op.is_kernel and not eqn.op.scales
    if rule.mode == "float" or not is_operator or any(map(_is_quantized, (*eqn.inputs, *eqn.outputs))):
        return EqnForm("float", rule)
    if rule.mode == "float16":
        return half_form(eqn, rule)
    if rule.mode != "integer":
        form = EqnForm("float", rule, _WRONG) if _is_wrong(eqn, rule) else weight_form(eqn, rule)
    else:
        reason = why_not_integer(eqn, rule, target)
        fewer = replace(rule, activation_bits=8)
        if reason and recipe.int8_only and fewer != rule and why_not_integer(eqn, fewer, target) is None:
            form = EqnForm("integer", fewer, reason)
        else:
            form = EqnForm("integer", rule) if reason is None else EqnForm("float", rule, reason)
    return EqnForm("float", rule, _VANISH) if form.kind != "float" and _weights_vanish(eqn, rule) else form


def _is_wrong(eqn: Eqn, rule: QuantizeRule) -> bool:
    """Whether the kernel that reads weights in few bits beside floats is wrong with an option that is set."""
    option = facts(eqn).wrong_with
    return rule.mode == "dynamic" and option is not None and bool(eqn.params[option])


_WRONG = "its kernel for weights in few bits starts from the states that it ends with, where steps come first"
_VANISH = "its weights reach so far that most of them would be 0 in 8 bits, as those of a fused mask do"


def _weights_vanish(eqn: Eqn, rule: QuantizeRule) -> bool:
    """Whether most weights of a constant are less than half a step of their 8 bits."""
    if rule.weights is not DType.i8:
        return False
    is_fine = facts(eqn).recurrence is None and rule.granularity != "tensor"
    return any(
        _vanish(const.array, weights.axis_of(eqn) if is_fine else None)
        for weights, const in _constants(eqn)
        if is_float(const) and is_finite(const) and const.array.size
    )


def _vanish(array: np.ndarray, axis: int | None) -> bool:
    sizes = np.abs(array)
    others = None if axis is None else tuple(i for i in range(array.ndim) if i != axis)
    half_step = sizes.max(axis=others, keepdims=True) / (2 * _MOST_STEPS)
    return bool(2 * np.count_nonzero((sizes > 0) & (sizes < half_step)) > np.count_nonzero(sizes))


def _is_quantized(atom: Atom | None) -> bool:
    return atom is not None and atom.type.quantization is not None


def why_not_integer(eqn: Eqn, rule: QuantizeRule, target: Target) -> str | None:
    """Why the kernel of an equation cannot compute in integers; None where it can, "" where nothing of it is float."""
    operands = operands_of(eqn)
    if not operands.activations and not any(map(is_float, eqn.outputs)):
        return ""
    if _makes_integers(eqn):
        return 'it makes integers of floats; an input of ids is of integers itself, as keras.Input(…, dtype="int32")'
    row = facts(eqn).integers
    types = (rule.activations, rule.weights) if operands.weights else (rule.activations,)
    known = row is not None and rule.activations in row.types and not target.lacks_integers(eqn, *types)
    if row is None or not (known or target.takes_further(eqn, rule.activations)):
        return f"the runtime has no kernel for {integer_types(*types)}"
    if any(o.dtype.kind == "f" and not is_float(o) for o in eqn.outputs):
        return f"it computes in {eqn.outputs[0].type.dtype.value}"
    if row.needs is not None and not row.needs(eqn):
        return f"the runtime's kernel for {rule.activations.value} does not take these options or shapes"
    recurrence = facts(eqn).recurrence
    reason = None if recurrence is None else why_not_recurrence(eqn, recurrence, rule)
    return reason or _why_not_operands(eqn, operands, rule)


def why_not_recurrence(eqn: Eqn, recurrence: IntegerLstm | IntegerSvdf, rule: QuantizeRule) -> str | None:
    """Why the integer kernel of a recurrent operator does not take an equation; None where it does."""
    if rule.weights is not DType.i8:
        return f"the runtime has no kernel for weights of {rule.weights.value}"
    others = (a for i, a in enumerate(eqn.inputs) if a is not None and i not in recurrence.read)
    if not all(map(_is_constant, others)):
        return "its weights are computed at run time"
    if isinstance(recurrence, IntegerSvdf) and rule.symmetric:
        return "the integer kernel of SVDF has its RELU in the zero point, which symmetric integers do not have"
    return recurrence.why_not(eqn)


def _why_not_operands(eqn: Eqn, operands: Operands, rule: QuantizeRule) -> str | None:
    if operands.bias is not None and not isinstance(eqn.inputs[operands.bias], Const):
        return "its bias is computed at run time"
    computed = [w for w in facts(eqn).weights if w.operand in operands.activations and not w.moved]
    if any(not w.computed for w in computed):
        return "its weights are computed at run time"
    if any(rule.weights not in w.integer for w in operands.weights):
        return f"the runtime has no kernel for weights of {rule.weights.value}"
    consts = (a for a in eqn.inputs if isinstance(a, Const) and is_float(a))
    if not all(isinstance(c, SparseConst) or is_finite(c) for c in consts):
        return "a constant operand holds NaNs or infinities"
    if any(isinstance(a, SparseConst) for a in eqn.inputs):
        return "its weights are sparse"
    return None


def follows(eqn: Eqn) -> bool:
    """Whether an equation only moves, chooses or compares: integers pay where its neighbours have them anyway."""
    row = facts(eqn).integers
    return row is not None and row.result in ("same", "plain")


def forms_of(
    graph: Graph,
    recipe: Recipe,
    target: Target,
    quantized: frozenset[Var],
    why_not: Callable[[Eqn], str | None] = lambda eqn: None,
) -> dict[Eqn, EqnForm]:
    """The form of each equation of a graph, those of bodies not included.

    quantized: inputs that are integers. why_not: why an equation with an integer kernel must stay float.
    """
    own = {eqn: _unless(own_form(eqn, recipe, target), eqn, why_not) for eqn in graph.eqns}
    chosen = {e: f for e, f in own.items() if f.kind != "integer" or not follows(e)}
    integers = set(quantized) | {v for e, f in chosen.items() if f.kind == "integer" for v in e.outputs}
    readers = users(graph)
    whole = made_integers(graph)
    left = [e for e in own if e not in chosen and whole.isdisjoint(e.outputs)]
    for eqn in left:
        if _has_integers(eqn, integers):
            chosen[eqn] = own[eqn]
            integers.update(eqn.outputs)
    for eqn in reversed(left):
        if eqn not in chosen and _moves(eqn) and _is_read_by_integers(eqn, readers, chosen):
            chosen[eqn] = own[eqn]
    forms = {e: chosen.get(e, EqnForm("float", own[e].rule)) for e in graph.eqns}
    alone = frozenset() if recipe.int8_only else _between_floats(graph, forms, readers)
    return {e: EqnForm("float", f.rule) if e in alone else f for e, f in forms.items()}


def _between_floats(graph: Graph, forms: dict[Eqn, EqnForm], readers: dict[Var, list[Eqn]]) -> frozenset[Eqn]:
    """The equations in integers that compute without weights on what floats made, for floats alone.

    QUANTIZE and DEQUANTIZE around them take longer than what they compute, and lose digits: 1 + EXP(x) before LOG.
    """
    made_by = producers(graph)
    isolated = {e for e, f in forms.items() if f.kind == "integer" and _may_stay_float(e)}

    def is_outside(eqn: Eqn | None) -> bool:
        return eqn is None or (forms[eqn].kind == "integer" and eqn not in isolated)

    def is_between(eqn: Eqn) -> bool:
        read = [a for i in operands_of(eqn).activations if isinstance(a := eqn.inputs[i], Var)]
        made = [v for v in eqn.outputs if is_float(v)]
        if not read or any(is_outside(made_by.get(v)) for v in read) or any(v in graph.outputs for v in made):
            return False
        return not any(is_outside(r) for v in made for r in readers.get(v, (None,)))

    while left := {e for e in isolated if not is_between(e)}:
        isolated -= left
    return frozenset(isolated)


def _may_stay_float(eqn: Eqn) -> bool:
    row = facts(eqn)
    return not row.weights and row.recurrence is None and row.integers is not None and row.integers.trained is None


def made_integers(graph: Graph) -> frozenset[Var]:
    """Find the floats that CAST turns into integers, perhaps after moves, clips or rounding.

    Most are whole numbers, as ids of a table are, and another one is not nearly as good: they stay float.
    """
    values: set[Var] = set()
    for eqn in reversed(graph.eqns):
        keeps = _moves(eqn) or switch_of(eqn) == "round"
        if _makes_integers(eqn) or (keeps and not values.isdisjoint(eqn.outputs)):
            values.update(a for a in eqn.inputs if isinstance(a, Var) and is_float(a))
    return frozenset(values)


def _makes_integers(eqn: Eqn) -> bool:
    return switch_of(eqn) == "cast" and is_float(eqn.inputs[0]) and eqn.outputs[0].dtype.kind in "iu"


def _unless(form: EqnForm, eqn: Eqn, why_not: Callable[[Eqn], str | None]) -> EqnForm:
    reason = why_not(eqn) if form.kind == "integer" else None
    return form if reason is None else EqnForm("float", form.rule, reason)


def _moves(eqn: Eqn) -> bool:
    row = facts(eqn).integers
    return row is not None and row.result == "same"


def _has_integers(eqn: Eqn, integers: set[Var]) -> bool:
    """Whether an operand is made of integers; all of them, of an op that gives plain numbers."""
    read = [a for i in operands_of(eqn).activations if isinstance(a := eqn.inputs[i], Var)]
    return any(v in integers for v in read) if _moves(eqn) else bool(read) and all(v in integers for v in read)


def _is_read_by_integers(eqn: Eqn, readers: dict[Var, list[Eqn]], chosen: dict[Eqn, EqnForm]) -> bool:
    reading = (r for v in eqn.outputs if is_float(v) for r in readers.get(v, ()))
    return any(r in chosen and chosen[r].kind == "integer" for r in reading)


def integers_of(eqn: Eqn) -> Integers:
    """How the kernel of an equation in the form "integer" computes."""
    integers = facts(eqn).integers
    assert integers is not None, "an equation in integers has a row that says how"
    return integers
