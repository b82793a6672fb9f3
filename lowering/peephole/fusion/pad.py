"""PAD becomes the padding of the convolution or pool that reads it, where SAME is exactly that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.kernels import ops
from jfuse.kernels.nn.windows import same_padding
from jfuse.lowering.peephole.arithmetic.weighted import Product
from jfuse.lowering.peephole.registry import View, peephole
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import keeps_type

Amounts = list[tuple[int, int]]
_NOT_NEGATIVE = frozenset({"RELU", "RELU6"})


@peephole(ops.conv_2d, ops.depthwise_conv_2d, ops.conv_3d)
def pad_into_convolution(eqn: Eqn, view: View) -> Any:
    """CONV_2D[VALID](PAD(x)) = CONV_2D[SAME](x)."""
    before, product = view.producer(eqn.inputs[0]), Product.of(eqn)
    if before is None or before.op is not ops.pad or product is None:
        return None
    return _padded_same(eqn, before, product.windows())


@peephole(ops.max_pool_2d)
def pad_into_pool(eqn: Eqn, view: View) -> Any:
    """MAX_POOL_2D[VALID](PADV2(x, -inf)) = MAX_POOL_2D[SAME](x); zeros around what RELU gives do not win either."""
    before = view.producer(eqn.inputs[0])
    if before is None or not _loses(before, view):
        return None
    params = eqn.params
    sizes = eqn.inputs[0].type.shape[1:3] if eqn.inputs[0] is not None else ()
    windows = [(params["filter_height"], params["stride_h"]), (params["filter_width"], params["stride_w"])]
    return _padded_same(eqn, before, [(d, w, s, 1) for d, (w, s) in zip(sizes, windows, strict=True)])


@peephole(ops.pad)
def pad_of_pad(eqn: Eqn, view: View) -> Any:
    """PAD(PAD(x, a), b) = PAD(x, a + b)."""
    before = view.producer(eqn.inputs[0])
    if before is None or before.op is not ops.pad:
        return None
    (x, inner), (_, outer) = before.inputs, eqn.inputs
    if not isinstance(inner, Const) or not isinstance(outer, Const):
        return None
    return ops.pad(x, inner.array + outer.array)


def _padded_same(eqn: Eqn, pad: Eqn, windows: Iterable[tuple[Any, int, int, int]]) -> Any:
    """The equation on what was padded, with SAME; None where that pads otherwise.

    windows: the size of the padded axis, the window, the stride and the dilation.
    """
    x, amounts = pad.inputs[:2]
    if eqn.params["padding"] != "VALID" or x is None or not isinstance(amounts, Const):
        return None
    (first, *spatial, last), windows = amounts.array.tolist(), list(windows)
    if any(first) or any(last) or len(spatial) != len(windows):
        return None
    if not all(_is_same(amount, *window) for amount, window in zip(spatial, windows, strict=True)):
        return None
    result = again(eqn, inputs=(x, *eqn.inputs[1:]), padding="SAME")
    # Where images are smaller than SAME's rule expects, the sizes of the results differ.
    return result if keeps_type(result.type, eqn.outputs[0].type) else None


def _is_same(amount: list[int], padded: Any, window: int, stride: int, dilation: int) -> bool:
    """Whether the windows begin where those of SAME do. With as many of them, what else stands behind is not read."""
    size = padded - sum(amount)
    if is_known(size):
        return same_padding(size, window, stride, dilation)[0] == amount[0]
    # For every stride but 1 the padding depends on the size.
    reach = (window - 1) * dilation
    return stride == 1 and [reach // 2, reach - reach // 2] == amount


def _loses(pad: Eqn, view: View) -> bool:
    """Whether what is added around x is not greater than any element of x."""
    if pad.op is ops.padv2:
        value = pad.inputs[2]
        return isinstance(value, Const) and bool(np.isneginf(value.array).all())
    return pad.op is ops.pad and _is_not_negative(pad.inputs[0], view)


def _is_not_negative(atom: Atom | None, view: View) -> bool:
    eqn = view.producer(atom)
    if eqn is None:
        return False
    return eqn.op in (ops.relu, ops.relu6) or eqn.params.get("fused_activation_function") in _NOT_NEGATIVE
