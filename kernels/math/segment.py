"""Rows of a tensor gathered into segments: their sums, products and extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array, Segments, Static, TflOp, namespace, tfl
from jfuse.kernels.core.static_values import fresh_size

_limits: Callable[[Any], Any] = jnp.finfo  # of bfloat16 too, which NumPy does not know
_NOWHERE = np.iinfo(np.int32).max  # beyond every segment


def lowest(dtype: Any) -> Any:
    """The smallest finite number of a dtype."""
    return _limits(dtype).min if DType.of(dtype).is_float else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """The largest finite number of a dtype."""
    return _limits(dtype).max if DType.of(dtype).is_float else np.iinfo(dtype).max


@tfl("SEGMENT_SUM", traceable=False)
def segment_sum(data: Array, segment_ids: Array, /) -> Array:
    """The sum of the rows of data that share a segment; segments start at 0 and leave none out.

    data: n[rows, ...]; segment_ids: i32[rows], in ascending order   Source: tflite/kernels/segment_sum.cc
    """
    ids = np.asarray(segment_ids)
    steps = np.diff(ids, prepend=-1)
    if ids.size and (steps[0] != 1 or not np.isin(steps, (0, 1)).all()):
        raise TypeMismatch("segments that leave one out, or do not ascend", found=ids.tolist()[:8])
    result = np.zeros((int(ids[-1]) + 1 if ids.size else 0, *data.shape[1:]), data.dtype)
    np.add.at(result, ids, np.asarray(data))
    return result


@segment_sum.types
def _segment_sum_type(data: TensorType, segment_ids: TensorType) -> TensorType:
    agreed(data.shape[0], segment_ids.shape[0])
    return TensorType((fresh_size(), *data.shape[1:]), data.dtype)


def unsorted_segments(
    builtin: str, function: str, method: str, empty: Callable[[Any], Any], text: str, *, linear: str | None = None
) -> TflOp:
    """Declare a reduction of segments.

    function, method: of NumPy's ufuncs and of jax's indexed updates. empty: what an empty segment becomes, of a dtype.
    """

    def body(data: Array, segment_ids: Segments, num_segments: Static, /) -> Array:
        shape = (_count(num_segments), *data.shape[1:])
        if namespace(data, segment_ids) is np:
            result = np.full(shape, empty(data.dtype), data.dtype)
            is_segment = segment_ids >= 0
            getattr(np, function).at(result, segment_ids[is_segment], data[is_segment])
            return result
        start = jnp.full(shape, empty(data.dtype), data.dtype)
        places = jnp.where(segment_ids < 0, _NOWHERE, segment_ids)
        return getattr(start.at[places], method)(data, mode="drop")

    body.__doc__ = f"""{text} of the rows of data that share a segment; rows of negative segments are left out.

    data: n[rows, ...]; segment_ids: i32[rows], each less than num_segments: i32[] or i32[1].
    Source: tflite/kernels/unsorted_segment.cc
    """
    op = tfl(builtin, linear=linear, sized_by_data=True)(body)

    def types(data: TensorType, segment_ids: TensorType, num_segments: Any) -> TensorType:
        agreed(data.shape[0], segment_ids.shape[0])
        return TensorType((_count(num_segments), *data.shape[1:]), data.dtype)

    op.types(types)
    return op


def _count(num_segments: Any) -> Any:
    return num_segments[0] if isinstance(num_segments, tuple) else num_segments


unsorted_segment_sum = unsorted_segments("UNSORTED_SEGMENT_SUM", "add", "add", lambda _: 0, "The sum", linear="first")
unsorted_segment_prod = unsorted_segments("UNSORTED_SEGMENT_PROD", "multiply", "multiply", lambda _: 1, "The product")
unsorted_segment_max = unsorted_segments("UNSORTED_SEGMENT_MAX", "maximum", "max", lowest, "The greatest")
unsorted_segment_min = unsorted_segments("UNSORTED_SEGMENT_MIN", "minimum", "min", highest, "The smallest")
