"""Rules for Shape, Size and Rank: shapes as run-time tensors, with symbolic dimensions in them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import rank
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import lowers


@lowers("Shape")
def lower_shape(x: Array, *, out_type: DType = DType.i32) -> Array:
    """The sizes; a constant where all are known."""
    return ops.shape(x, out_type=out_type)


@lowers("ShapeN")
def lower_shape_n(*tensors: Array, out_type: DType = DType.i32) -> tuple[Array, ...]:
    """The sizes of each tensor."""
    return tuple(ops.shape(x, out_type=out_type) for x in tensors)


@lowers("Size")
def lower_size(x: Array, *, out_type: DType = DType.i32) -> Array:
    """The number of elements: the product of the sizes."""
    return ops.reduce_prod(ops.shape(x, out_type=out_type), np.zeros(1, np.int32), keep_dims=False)


@lowers("Rank")
def lower_rank(x: Array) -> Array:
    """The number of dimensions, always a constant."""
    return np.asarray(rank(x), np.int32)


@lowers("EnsureShape")
def lower_ensure_shape(x: Array, *, shape: Sequence[int] | None = None) -> Array:
    """x, or a RESHAPE where its sizes are not known to be these: it fails at run time where TensorFlow does."""
    if shape is None:
        return x
    return shaped(x, tuple(d if size < 0 else size for d, size in zip(x.shape, shape, strict=True)))
