"""Activations move into the op before them."""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Eqn
from jfuse.kernels.array import array
from jfuse.kernels.core.op import TflOp
from jfuse.kernels.nn import activation
from jfuse.lowering.peephole.registry import View, peephole, sole_producer
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import is_plain_float


# TANH is a value of the option as well, but kernels that clamp compute it as NONE.
@peephole(activation.relu, activation.relu6, activation.relu_n1_to_1)
def activation_into_producer(eqn: Eqn, view: View) -> Any:
    """RELU(ADD(x, y)) = ADD[RELU](x, y), also where a RESHAPE stands between them."""
    before = sole_producer(view, eqn.inputs[0])
    if before is None or not isinstance(eqn.op, TflOp):
        return None
    if before.op is array.reshape:
        inner = sole_producer(view, before.inputs[0])
        activated = None if inner is None else _activated(inner, eqn.op.builtin)
        return None if activated is None else again(before, inputs=(activated, *before.inputs[1:]))
    return _activated(before, eqn.op.builtin)


def _activated(eqn: Eqn, name: str) -> Any:
    fits = isinstance(eqn.op, TflOp) and eqn.op.clamps and is_plain_float(eqn.outputs[0])
    if not fits or eqn.params["fused_activation_function"] != "NONE":
        return None
    return again(eqn, fused_activation_function=name)
