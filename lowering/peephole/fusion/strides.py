"""A strided slice of a convolution or pool becomes its stride, so that no pixel is computed in vain.

Keras spells a depthwise convolution with strides and dilation so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Const
from jfuse.kernels import ops
from jfuse.kernels.nn.windows import same_padding
from jfuse.lowering.peephole.arithmetic.weighted import WeightedEqn
from jfuse.lowering.peephole.pattern import const, form
from jfuse.lowering.peephole.registry import Match, peephole
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.image_layout import known_padding, padded
from jfuse.lowering.rules import need

convolution = form(WeightedEqn.of, ops.conv_2d, ops.depthwise_conv_2d)


@peephole(
    lambda begin, strides: ops.strided_slice(convolution().named("image"), const(begin), ..., const(strides)),
)
def slice_into_strides(match: Match, image: WeightedEqn, begin: Const, strides: Const) -> Any:
    """STRIDED_SLICE(CONV_2D(x, w))[:, ::n, ::m] = CONV_2D[stride=n, m](x, w)."""
    steps, windows, eqn = _steps(match, begin.array, strides.array), image.windows(), image.eqn
    need(all(stride == 1 for _, _, stride, _ in windows), "convolution_without_strides")
    sizes, window, _, dilations = zip(*windows, strict=True)
    same_sides = eqn.params["padding"] == "SAME"
    sides = tuple(same_padding(*w) if same_sides else (0, 0) for w in windows)
    padding, x = known_padding(sizes, window, steps, dilations, sides), image.x
    if padding == "EXPLICIT":
        padding, x = "VALID", padded(x, sides)
    options = {"padding": padding, "stride_h": steps[0], "stride_w": steps[1]}
    return again(eqn, inputs=(x, *eqn.inputs[1:]), **options)


def _steps(match: Match, begin: np.ndarray, strides: np.ndarray) -> tuple[int, int]:
    """The steps over height and width of a slice that starts at the first pixel and goes to the end."""
    params, rank = match.eqn.params, match.result.type.rank
    need(rank == 4 and strides.size == rank, "images")
    need(not any(params[n] for n in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")), "plain_slice")
    need(all(params["begin_mask"] >> i & 1 or begin[i] == 0 for i in range(rank)), "from_first_pixel")
    need(all(params["end_mask"] >> i & 1 for i in range(rank)), "to_last_pixel")
    batch, height, width, channels = strides.tolist()
    need((batch, channels) == (1, 1) and min(height, width) >= 1 and max(height, width) > 1, "steps_over_pixels")
    return height, width
