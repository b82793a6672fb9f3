"""PAD becomes the padding of the convolution or pool that reads it, where SAME is exactly that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const
from jfuse.kernels import ops
from jfuse.kernels.nn.windows import same_padding
from jfuse.lowering.peephole.arithmetic.weighted import WeightedEqn
from jfuse.lowering.peephole.pattern import const, form
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.peephole.view import GraphView
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.dilated_convolution import dilated
from jfuse.lowering.rules import need

_ACTIVATED: dict[str, Any] = {"fused_activation_function": ...}
_NOT_NEGATIVE = frozenset({"RELU", "RELU6"})


convolution = form(WeightedEqn.of, ops.conv_2d, ops.depthwise_conv_2d, ops.conv_3d)


@peephole(lambda x, amounts: convolution(ops.pad(x, const(amounts)).shared()).named("then"))
def pad_into_convolution(match: Match, x: Atom, amounts: Const, then: WeightedEqn) -> Any:
    """CONV_2D[VALID](PAD(x)) = CONV_2D[SAME](x)."""
    return _padded_same(match, x, amounts, then.windows())


@peephole(
    lambda x, amounts, low: ops.max_pool_2d(ops.padv2(x, const(amounts), const(low)).shared(), **_ACTIVATED),
    lambda x, amounts: ops.max_pool_2d(ops.pad(x, const(amounts)).shared(), **_ACTIVATED),
)
def pad_into_pool(match: Match, x: Atom, amounts: Const, low: Const | None = None) -> Any:
    """MAX_POOL_2D[VALID](PADV2(x, -inf)) = MAX_POOL_2D[SAME](x); zeros around what RELU gives do not win either."""
    loses = _is_not_negative(x, match.view) if low is None else np.isneginf(low.array).all()
    need(loses, "padding_loses")
    (padded,), params = match.eqn.inputs, match.eqn.params
    assert padded is not None
    windows = [(params["filter_height"], params["stride_h"]), (params["filter_width"], params["stride_w"])]
    sizes = padded.type.shape[1:3]
    return _padded_same(match, x, amounts, [(d, w, s, 1) for d, (w, s) in zip(sizes, windows, strict=True)])


@peephole(lambda x, inner, outer: ops.pad(ops.pad(x, const(inner)).shared(), const(outer)))
def pad_of_pad(match: Match, x: Atom, inner: Const, outer: Const) -> Any:
    """PAD(PAD(x, a), b) = PAD(x, a + b)."""
    return ops.pad(x, inner.array + outer.array)


def _padded_same(match: Match, x: Atom, amounts: Const, windows: Iterable[tuple[Any, int, int, int]]) -> Any:
    """The equation on what was padded, with SAME; a refusal where that pads otherwise.

    windows: the size of the padded axis, the window, the stride and the dilation.
    """
    need(match.eqn.params["padding"] == "VALID", "valid_padding")
    (first, *spatial, last), windows = amounts.array.tolist(), list(windows)
    need(not any(first) and not any(last) and len(spatial) == len(windows), "spatial_padding")
    need(all(_is_same(a, *window) for a, window in zip(spatial, windows, strict=True)), "same_padding")
    result = again(match.eqn, inputs=(x, *match.eqn.inputs[1:]), padding="SAME")
    # Where images are smaller than SAME's rule expects, the sizes of the results differ.
    need(match.keeps_type(result), "type_of_result")
    return result


def _is_same(amount: list[int], padded: Any, window: int, stride: int, dilation: int) -> bool:
    """Whether the windows begin where those of SAME do. With as many of them, what else stands behind is not read."""
    size = padded - sum(amount)
    if is_known(size):
        return same_padding(size, window, stride, dilation)[0] == amount[0]
    # For every stride but 1 the padding depends on the size.
    reach = (window - 1) * dilation
    return stride == 1 and [reach // 2, reach - reach // 2] == amount


def _is_not_negative(atom: Atom | None, view: GraphView) -> bool:
    eqn = view.producer(atom)
    if eqn is None:
        return False
    return eqn.op in (ops.relu, ops.relu6) or eqn.params.get("fused_activation_function") in _NOT_NEGATIVE


# A convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND is a dilated one: TensorFlow spells it so on CPUs.
# The kernels dilate themselves, in 0.5 to 0.95 of the time (LiteRT 2.3.0, one thread, with XNNPACK and without).


# The lowering of convolutions knows the same spelling: what it reads is not spelled here once more.
@peephole(lambda x, rates, crops: ops.batch_to_space_nd(x, rates, crops))
def dilated_convolution(match: Match, x: Atom, rates: Atom, crops: Atom) -> Any:
    """BATCH_TO_SPACE_ND(CONV_2D[VALID](SPACE_TO_BATCH_ND(x, b, p), w), b, c) = CONV_2D[dilation=b](x, w)."""
    result = given(dilated(x, rates, crops, match.view.producer), "convolution_of_blocks")
    need(match.keeps_type(result), "type_of_result")
    return result
