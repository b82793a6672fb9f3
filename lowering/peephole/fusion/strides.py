"""Every n-th pixel of a convolution is a convolution with strides, which does not compute the others.

Keras spells a depthwise convolution with strides and dilation so.
"""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Const, Eqn
from jfuse.kernels.array import slicing
from jfuse.kernels.nn import conv
from jfuse.kernels.nn.windows import same_padding
from jfuse.lowering.peephole.arithmetic.weighted import Product
from jfuse.lowering.peephole.registry import View, peephole, sole_producer
from jfuse.lowering.rule_tools.image_layout import known_padding, padded
from jfuse.lowering.rule_tools.producer import again

_CONVOLUTIONS = (conv.conv_2d, conv.depthwise_conv_2d)


@peephole(slicing.strided_slice)
def slice_into_strides(eqn: Eqn, view: View) -> Any:
    """STRIDED_SLICE(CONV_2D(x, w))[:, ::n, ::m] = CONV_2D[stride=n, m](x, w)."""
    steps = _steps(eqn)
    before = sole_producer(view, eqn.inputs[0])
    product = Product.of(before)
    if steps is None or before is None or product is None or before.op not in _CONVOLUTIONS:
        return None
    windows = product.windows()
    x = before.inputs[0]
    if x is None or any(stride != 1 for _, _, stride, _ in windows):
        return None
    sizes, window, _, dilations = zip(*windows, strict=True)
    same_sides = before.params["padding"] == "SAME"
    sides = tuple(same_padding(*w) if same_sides else (0, 0) for w in windows)
    padding, image = known_padding(sizes, window, steps, dilations, sides), x
    if padding == "EXPLICIT":
        padding, image = "VALID", padded(x, sides)
    options = {"padding": padding, "stride_h": steps[0], "stride_w": steps[1]}
    return again(before, inputs=(image, *before.inputs[1:]), **options)


def _steps(eqn: Eqn) -> tuple[int, int] | None:
    """The steps over height and width of a slice that starts at the first pixel and goes to the end."""
    _, begin, _, strides = eqn.inputs
    rank = eqn.outputs[0].type.rank
    if rank != 4 or not isinstance(begin, Const) or not isinstance(strides, Const) or strides.array.size != rank:
        return None
    plain = not any(eqn.params[n] for n in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset"))
    from_first = all(eqn.params["begin_mask"] >> i & 1 or begin.array[i] == 0 for i in range(rank))
    batch, *steps, channels = strides.array.tolist()
    to_end = all(eqn.params["end_mask"] >> i & 1 for i in range(rank))
    if not plain or not from_first or not to_end or (batch, channels) != (1, 1) or min(steps) < 1 or max(steps) == 1:
        return None
    return int(steps[0]), int(steps[1])
