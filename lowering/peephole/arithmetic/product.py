"""Products with constants: what was lowered before its operand was known to be one."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Const, Eqn
from jfuse.kernels.linalg import matmul
from jfuse.kernels.nn import conv
from jfuse.lowering.peephole.registry import View, peephole
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import is_plain_float


@peephole(matmul.batch_matmul)
def product_with_constant(eqn: Eqn, view: View) -> Any:
    """BATCH_MATMUL with a constant -> FULLY_CONNECTED, or BATCH_MATMUL with the constant transposed.

    The kernel keeps its own transpose of a constant and loses it when an open batch grows behind a fused recurrent op
    (LiteRT 2.3.0, without delegates): wrong from the next invoke on.   Source: tflite/kernels/batch_matmul.cc
    """
    x, y = eqn.inputs
    if not isinstance(y, Const) or x is None or isinstance(x, Const) or not is_plain_float(y):
        return None
    transposed = bool(eqn.params["adj_y"])
    if y.array.ndim == 2 and not eqn.params["adj_x"]:
        weights = y.array if transposed else y.array.T
        return matmul.fully_connected(x, weights, keep_num_dims=len(x.type.shape) > 2)
    return None if transposed else again(eqn, inputs=(x, Const(y.array.swapaxes(-1, -2))), adj_y=True)


@peephole(conv.conv_2d)
def convolution_of_channels(eqn: Eqn, view: View) -> Any:
    """CONV_2D of groups of one channel = DEPTHWISE_CONV_2D, which XNNPACK has, and CONV_2D of groups it has not."""
    x, weights, bias = eqn.inputs
    if x is None or not isinstance(weights, Const) or not is_plain_float(weights) or not is_plain_float(x):
        return None
    channels, outputs = x.type.shape[3], weights.array.shape[0]
    if weights.array.shape[3] != 1 or not is_known(channels) or channels == 1:
        return None
    names = set(eqn.params) & set(conv.depthwise_conv_2d.options)
    options = {name: eqn.params[name] for name in names}
    kernel = np.ascontiguousarray(np.moveaxis(weights.array[..., 0], 0, -1)[None])
    return conv.depthwise_conv_2d(x, kernel, bias, depth_multiplier=outputs // channels, **options)
