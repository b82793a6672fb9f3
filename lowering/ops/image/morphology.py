"""Greyscale morphology: Dilation2D, for which TFLite has no operator (its DILATE is another thing)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from jfuse.base.errors import LowerError
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.kernels.math.segment import lowest
from jfuse.lowering.rule_tools.image_layout import fixed_sides, padded, spatial, taps
from jfuse.lowering.rule_tools.query import dtype, is_constant, type_of
from jfuse.lowering.rules import lowers


@lowers("Dilation2D")
def lower_dilation_2d(x: Array, filters: Array, *, strides: Sequence[int], rates: Sequence[int], padding: str) -> Array:
    """The largest of x + filter over each window, of its elements within the image.

    x: number[b,h,w,c]; filters: number[kh,kw,c] -> number[b,h',w',c]. An ADD and a MAXIMUM for each place of a window.
    """
    steps, spacing, window = spatial(strides, "NHWC"), spatial(rates, "NHWC"), filters.shape[:2]
    if padding == "SAME":
        x = padded(x, fixed_sides(x, window, steps, spacing), _least_finite(x))
    rows = ops.reshape(filters, (window[0] * window[1], 1, 1, 1, filters.shape[2]))
    weights = list(rows) if is_constant(rows) else list(ops.unpack(rows))
    sums = [ops.add(tap, weight) for tap, weight in zip(taps(x, window, steps, spacing), weights, strict=True)]
    return reduce(ops.maximum, sums)


def _least_finite(x: Array) -> float:
    """The number that TensorFlow starts with: finite, since windows beside the image return it."""
    kind = dtype(x)
    if not kind.is_float:
        raise LowerError(
            "a morphological dilation of integers beyond the image",
            expected="floats, or padding VALID: a sum with the least integer would overflow",
            found=str(type_of(x)),
            remedy="cast to float32 before, or pad with what cannot win",
        )
    return float(lowest(kind.numpy))
