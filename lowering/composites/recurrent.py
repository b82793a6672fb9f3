"""Recurrences that `recover` found: jfuse.lstm."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.op import Array
from jfuse.lowering.query import dtype
from jfuse.lowering.rules import fuses


@fuses("jfuse.lstm")
def fuse_lstm(
    x: Array,
    h: Array,
    c: Array,
    input_weights: Array,
    forget_weights: Array,
    cell_weights: Array,
    output_weights: Array,
    input_recurrent: Array,
    forget_recurrent: Array,
    cell_recurrent: Array,
    output_recurrent: Array,
    input_bias: Array,
    forget_bias: Array,
    cell_bias: Array,
    output_bias: Array,
    *,
    results: tuple[str, ...],
    reverse: bool = False,
) -> tuple[Any, ...]:
    """A scan that is an LSTM -> UNIDIRECTIONAL_SEQUENCE_LSTM.

    x: f[t,b,i]; h, c: f[b,u]; weights f[u,i], recurrent f[u,u], bias f[u], rounded to the dtype of x.
    results: what each result is: "y" (h of every step, in the order of x), "h" or "c" (after the last step).
    """
    y, _, last_c = ops.unidirectional_sequence_lstm(
        ops.reverse_v2(x, [0]) if reverse else x,
        *_as(x, input_weights, forget_weights, cell_weights, output_weights),
        *_as(x, input_recurrent, forget_recurrent, cell_recurrent, output_recurrent),
        *(None, None, None),
        *_as(x, input_bias, forget_bias, cell_bias, output_bias),
        *(None, None),
        *(h, c),
        fused_activation_function="TANH",
        time_major=True,
    )
    values = {"c": last_c}
    if "h" in results:
        # The last step of y, not the op's state: reading a state costs two more ops and an order to keep.
        values["h"] = ops.strided_slice(y, [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    if "y" in results:
        values["y"] = ops.reverse_v2(y, [0]) if reverse else y
    return tuple(values[result] for result in results)


def _as(x: Array, *arrays: np.ndarray) -> list[np.ndarray]:
    return [array.astype(dtype(x).numpy, copy=False) for array in arrays]
