"""Graphs in which the runtime would lose what DEQUANTIZE makes of constant weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jfuse.ir.graph import Eqn, Graph
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.passes.quantize.forms import EqnForm, weight_consts
from jfuse.passes.quantize.weights import needs_dequantize

_REASON = "fused states of an open batch would move the weights that DEQUANTIZE makes; batch= fixes the batch"


def without_lost_weights(graph: Graph, forms: Mapping[Eqn, EqnForm]) -> dict[Eqn, EqnForm]:
    """The forms, where weights that would be lost stay float.

    LiteRT runs DEQUANTIZE of a constant once and keeps the result beside the states of fused ops. Where these grow with
    an input it plans this memory anew, but does not run DEQUANTIZE again: the next calls compute with other weights
    (2.3.0, NaNs and an SNR of -3 to 30 dB after one call with another batch).
    """
    if not any(map(keeps_state, graph.eqns)) or all(var.type.is_static for var in graph.inputs):
        return dict(forms)
    return {eqn: replace(f, kind="float", reason=_REASON) if _dequantizes(eqn, f) else f for eqn, f in forms.items()}


def _dequantizes(eqn: Eqn, form: EqnForm) -> bool:
    if form.kind != "weights":
        return form.kind == "halves"
    return any(needs_dequantize(eqn, w, const, form.rule) for w, const in weight_consts(eqn, form.rule))
