"""Bidirectional layers as two recurrences, of which the second reads the sequence backwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.graph import Eqn
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands

_WEIGHTS = 17  # operands of one direction besides the sequence, the states and the layer norms


def _outputs(eqn: Eqn, forward: Any, backward: Any) -> list[Any]:
    """The outputs of the operator, given those of both directions, each in the order in which it reads."""
    backward = ops.reverse_v2(backward, [_time(eqn)])
    if eqn.params["merge_outputs"]:
        return [ops.concatenation(forward, backward, axis=2)]
    return [forward, backward]


def _time(eqn: Eqn) -> int:
    return 0 if eqn.params["time_major"] else 1


@instead_of("BIDIRECTIONAL_SEQUENCE_LSTM")
def two_lstms(eqn: Eqn) -> Sequence[Any] | None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM forwards, and on the reversed sequence; not with an auxiliary input."""
    x, *rest = operands(eqn)
    weights, states, aux = rest[: 2 * _WEIGHTS], rest[2 * _WEIGHTS : 2 * _WEIGHTS + 4], rest[2 * _WEIGHTS + 4 :]
    if any(a is not None for a in aux):
        return None
    names = ("fused_activation_function", "cell_clip", "proj_clip", "time_major", "asymmetric_quantize_inputs")
    options = {name: eqn.params[name] for name in names}
    y, h, c = ops.unidirectional_sequence_lstm(x, *weights[:_WEIGHTS], *states[:2], **options)
    turned = ops.reverse_v2(x, [_time(eqn)])
    back = ops.unidirectional_sequence_lstm(turned, *weights[_WEIGHTS:], *states[2:], **options)
    return (*_outputs(eqn, y, back[0]), h, c, back[1], back[2])


@instead_of("BIDIRECTIONAL_SEQUENCE_RNN")
def two_rnns(eqn: Eqn) -> Sequence[Any] | None:
    """UNIDIRECTIONAL_SEQUENCE_RNN forwards, and on the reversed sequence; not with an auxiliary input."""
    x, *rest = operands(eqn)
    if any(a is not None for a in rest[8:]):
        return None
    names = ("fused_activation_function", "time_major", "asymmetric_quantize_inputs")
    options = {name: eqn.params[name] for name in names}
    y, h = ops.unidirectional_sequence_rnn(x, *rest[:4], **options)
    z, other = ops.unidirectional_sequence_rnn(ops.reverse_v2(x, [_time(eqn)]), *rest[4:8], **options)
    return (*_outputs(eqn, y, z), h, other)
