"""Counts of numbers in intervals of one width."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.segment import lower_bincount
from jfuse.lowering.rule_tools.query import dtype as dtype_of
from jfuse.lowering.rule_tools.query import is_constant, static, type_of
from jfuse.lowering.rules import lowers

_NEAR = 8  # rounded steps at most between the end of an interval and the first number that is counted in the next


@lowers("HistogramFixedWidth")
def lower_histogram_fixed_width(values: Array, value_range: Array, nbins: Array, *, dtype: DType = DType.i32) -> Array:
    """BUCKETIZE by the first number of each interval, and UNSORTED_SEGMENT_SUM of ones.   f32[...] -> i[nbins]

    TensorFlow divides in double; the first numbers are found as it would count them.
    """
    count = static(nbins, "nbins")
    if dtype_of(values) is not DType.f32 or not is_constant(value_range) or not is_known(count):
        raise LowerError(
            "a histogram of intervals that are computed at run time, or of other numbers than f32",
            expected="f32 values, a constant value_range and a constant nbins",
            found=f"{type_of(values)} in {type_of(value_range)}",
        )
    places = ops.bucketize(values, boundaries=_first_numbers(value_range, int(count)))
    counts = lower_bincount(places, np.int32(count), np.zeros(0, np.int32))
    return counts if dtype is DType.i32 else ops.cast(counts, out_data_type=dtype)


def _first_numbers(value_range: np.ndarray, count: int) -> tuple[float, ...]:
    """The least f32 in each interval but the first."""
    low, high = value_range
    step = np.float64(high - low) / count
    wanted = np.arange(1, count)
    near = (low + wanted * step).astype(np.float32)
    for _ in range(_NEAR):
        near = np.nextafter(near, np.float32(-np.inf))
    for _ in range(2 * _NEAR):
        is_below = ((np.maximum(near, low) - low).astype(np.float64) / step).astype(np.int64) < wanted
        near = np.where(is_below, np.nextafter(near, np.float32(np.inf)), near)
    return tuple(near.tolist()) or (np.inf,)  # BUCKETIZE wants one boundary at least
