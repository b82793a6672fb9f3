"""Error bounds for roundings inside a kernel, where LiteRT computes in steps that the graph does not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn, Op
from jfuse.kernels import ops
from jfuse.verification.locate.rounding import rounded_otherwise
from jfuse.verification.runners.node_values import Value

_Rounded = Callable[[np.ndarray, Mapping[str, Any], np.random.Generator], np.ndarray]


def rounded_within(eqn: Eqn, operands: Sequence[Value], generator: np.random.Generator) -> np.ndarray | None:
    """The result with each value inside the kernel rounded otherwise; None if the kernel has no such steps."""
    rule = _STEPS.get(eqn.op)
    first = operands[0] if operands else None
    return None if rule is None or first is None else rule(first, eqn.params, generator)


def _local_response(x: np.ndarray, params: Mapping[str, Any], generator: np.random.Generator) -> np.ndarray:
    """The window of squares moves along the channels: one is added and one taken away, and their roundings add up.

    Source: tflite/kernels/internal/optimized/optimized_ops.h, LocalResponseNormalization.
    """

    def rounded(value: np.ndarray) -> np.ndarray:
        return rounded_otherwise(value.astype(x.dtype), generator)

    width, channels = 2 * params["radius"], x.shape[-1]
    squares = np.pad(
        rounded(x * x * x.dtype.type(params["alpha"])), [(0, 0)] * (x.ndim - 1) + [(params["radius"],) * 2]
    )
    total = np.zeros(x.shape[:-1], x.dtype)
    bases = np.zeros_like(x)
    for i in range(width + channels):
        total = rounded(total + squares[..., i])
        if i >= width:
            bases[..., i - width] = rounded(total + x.dtype.type(params["bias"]))
            total = rounded(total - squares[..., i - width])
    return rounded(x * rounded(bases ** -x.dtype.type(params["beta"])))


_STEPS: dict[Op, _Rounded] = {ops.local_response_normalization: _local_response}
