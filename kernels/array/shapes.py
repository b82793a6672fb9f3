"""SHAPE and RANK, which read no data."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.op import Array, ShapeOnly, tfl


@tfl("SHAPE", on_shapes=True, at_allocation=True)
def shape(x: ShapeOnly, /, *, out_type: DType = DType.i32) -> Array:
    """The sizes of x.   x: any[...] -> i32|i64[rank]   Source: tflite/kernels/shape.cc"""
    return _sizes(x.shape, out_type)


@shape.types
def _shape_type(x: TensorType, *, out_type: DType) -> TensorType:
    return TensorType((x.rank,), out_type)


@tfl("RANK", on_shapes=True, at_allocation=True)
def rank(x: ShapeOnly, /) -> Array:
    """The number of dimensions of x.   x: any[...] -> i32[]   Source: tflite/kernels/rank.cc"""
    return np.asarray(len(x.shape), np.int32)


@rank.types
def _rank_type(x: TensorType) -> TensorType:
    return TensorType((), DType.i32)


def _sizes(dims: tuple[Any, ...], out_type: DType) -> Any:
    known = all(isinstance(d, int) for d in dims)
    return np.array(dims, out_type.numpy if known else object)
