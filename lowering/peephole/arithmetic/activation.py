"""Activations move into the op before them."""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Eqn
from jfuse.kernels import ops
from jfuse.kernels.core.op import builtin_ops
from jfuse.lowering.peephole.pattern import one_of
from jfuse.lowering.peephole.registry import Match, peephole
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import is_plain_float
from jfuse.lowering.rules import need

# TANH is a value of the option as well, but kernels that clamp compute it as NONE.
activation = one_of(ops.relu, ops.relu6, ops.relu_n1_to_1)
clamping = one_of(*(op for op in builtin_ops().values() if op.clamps))


@peephole(
    lambda: activation(clamping(...).named("inner")),
    lambda: activation(one_of(ops.reshape)(clamping(...).named("inner"), ...).named("reshape")),
)
def activation_into_producer(match: Match, inner: Eqn, reshape: Eqn | None = None) -> Any:
    """RELU(ADD(x, y)) = ADD[RELU](x, y), also where a RESHAPE stands between them."""
    need(is_plain_float(inner.outputs[0]), "plain_float")
    activated = again(inner, fused_activation_function=match.eqn.op.name.upper())
    return activated if reshape is None else again(reshape, inputs=(activated, *reshape.inputs[1:]))
