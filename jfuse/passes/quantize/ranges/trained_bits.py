"""Values that training rounded to 8 bits, in integers of 8 bits where a recipe has more.

Finer steps would not be what the model was trained with: the file with 16 bits would be farther from it than that with
8. What stands between such values computes in 8 bits, too; all else as the recipe has it, behind a QUANTIZE.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from jfuse.ir.graph import Const, Eqn, Graph, Var
from jfuse.ir.walk import users
from jfuse.passes.quantize.forms import EqnForm, is_float, operands_of, why_not_integer
from jfuse.passes.quantize.ranges.trained import FEW, is_moved, trained_range
from jfuse.tflite.targets.target import Target

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
