"""Matrix products by constants become FULLY_CONNECTED, depthwise convolutions of one channel CONV_2D."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Var
from jfuse.kernels import ops
from jfuse.lowering.peephole.pattern import const, optional, var
from jfuse.lowering.peephole.registry import Match, peephole
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import is_plain_float
from jfuse.lowering.rules import need


@peephole(lambda x, y, adj_x, adj_y: ops.batch_matmul(var(x), const(y), adj_x=adj_x, adj_y=adj_y))
def product_with_constant(match: Match, x: Var, y: Const, adj_x: bool, adj_y: bool) -> Any:
    """BATCH_MATMUL with a constant -> FULLY_CONNECTED, or BATCH_MATMUL with the constant transposed.

    The kernel keeps its own transpose of a constant and loses it when an open batch grows behind a fused recurrent op
    (LiteRT 2.3.0, without delegates): wrong from the next invoke on.   Source: tflite/kernels/batch_matmul.cc
    """
    need(is_plain_float(y), "plain_float")
    if y.array.ndim == 2 and not adj_x:
        weights = y if adj_y else y.T
        return ops.fully_connected(x, weights, keep_num_dims=len(x.type.shape) > 2)
    need(not adj_y, "constant_not_transposed")
    return again(match.eqn, inputs=(x, Const(y.array.swapaxes(-1, -2))), adj_y=True)


@peephole(lambda x, w, bias: ops.conv_2d(x, const(w), optional(bias), fused_activation_function=...))
def convolution_of_channels(match: Match, x: Atom, w: Const, bias: Atom | None) -> Any:
    """CONV_2D of groups of one channel = DEPTHWISE_CONV_2D, which XNNPACK has, and CONV_2D of groups it has not."""
    need(is_plain_float(w) and is_plain_float(x), "plain_float")
    channels, outputs = x.type.shape[3], w.array.shape[0]
    need(w.array.shape[3] == 1 and is_known(channels) and channels != 1, "groups_of_one_channel")
    names = set(match.eqn.params) & set(ops.depthwise_conv_2d.options)
    options = {name: match.eqn.params[name] for name in names}
    kernel = np.ascontiguousarray(np.moveaxis(w.array[..., 0], 0, -1)[None])
    return ops.depthwise_conv_2d(x, kernel, bias, depth_multiplier=outputs // channels, **options)
