"""Blocks of an image moved between space, channels and batch, and permuted layouts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import floor_divided, is_known, product, same
from jfuse.ir.graph import Var
from jfuse.ir.trace import as_atom, producer
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array, TflOp
from jfuse.lowering.rule_tools.dilated_convolution import dilated
from jfuse.lowering.rule_tools.image_layout import as_in, channels_last
from jfuse.lowering.rule_tools.operands import as_i32, i32_operand
from jfuse.lowering.rule_tools.query import dtype, is_computed, rank, scalar, static, type_of
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import lowers

_BUILTIN_AXES = 2  # the operators know images [b,h,w,c] and sequences [b,t,c]


@lowers("SpaceToDepth")
def lower_space_to_depth(x: Array, *, block_size: int, data_format: str = "NHWC") -> Array:
    """Each block of pixels becomes the channels of one pixel.   any[b,h,w,c] (or any[b,c,h,w])"""
    return as_in(ops.space_to_depth(channels_last(x, data_format), block_size=block_size), data_format)


@lowers("DepthToSpace")
def lower_depth_to_space(x: Array, *, block_size: int, data_format: str = "NHWC") -> Array:
    """The channels of each pixel become a block of pixels.   any[b,h,w,c] (or any[b,c,h,w])"""
    return as_in(ops.depth_to_space(channels_last(x, data_format), block_size=block_size), data_format)


@lowers("SpaceToBatchND")
def lower_space_to_batch_nd(x: Array, block_shape: Array, paddings: Array) -> Array:
    """Every n-th element along the axes behind the batch becomes a batch of its own, after padding with zeros."""
    return _by_batches(x, block_shape, paddings, "paddings", ops.space_to_batch_nd)


@lowers("BatchToSpaceND")
def lower_batch_to_space_nd(x: Array, block_shape: Array, crops: Array) -> Array:
    """The inverse of SpaceToBatchND, and a crop; around a convolution the two spell a dilation."""
    # Seen here already, not in a merge alone: of open sizes what the paddings cancel is lost in the types.
    convolution = dilated(x, as_atom(block_shape), as_atom(crops), producer) if isinstance(x, Var) else None
    return _by_batches(x, block_shape, crops, "crops", ops.batch_to_space_nd) if convolution is None else convolution


@lowers("SpaceToBatch")
def lower_space_to_batch(x: Array, paddings: Array, *, block_size: int) -> Array:
    """SpaceToBatchND with one block size for height and width."""
    return lower_space_to_batch_nd(x, np.full(2, block_size, np.int32), paddings)


@lowers("BatchToSpace")
def lower_batch_to_space(x: Array, crops: Array, *, block_size: int) -> Array:
    """BatchToSpaceND with one block size for height and width."""
    return lower_batch_to_space_nd(x, np.full(2, block_size, np.int32), crops)


@lowers("DataFormatVecPermute")
def lower_data_format_vec_permute(x: Array, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Array:
    """A vector of one entry for each axis (or for height and width alone), or a matrix of pairs, in another layout."""
    count = x.shape[0]
    if count < len(src_format):
        src_format, dst_format = (_without_batch_and_channels(f) for f in (src_format, dst_format))
    return ops.gather(x, np.array([src_format.index(axis) for axis in dst_format], np.int32), axis=0)


@lowers("DataFormatDimMap")
def lower_data_format_dim_map(x: Array, *, src_format: str = "NHWC", dst_format: str = "NCHW") -> Array:
    """Axes of one layout as axes of another. Negative axes count from the end."""
    places = np.array([dst_format.index(axis) for axis in src_format], dtype(x).numpy)
    count = scalar(len(src_format), x)
    return ops.gather(places, ops.floor_mod(x, count), axis=0)


def _without_batch_and_channels(layout: str) -> str:
    return "".join(axis for axis in layout if axis not in "NC")


def _by_batches(x: Array, block_shape: Array, margins: Array, what: str, op: TflOp) -> Array:
    """`op` on x as an image: the last axes, which stay whole, are its channels."""
    if is_computed(block_shape) or is_computed(margins):
        return _by_data(x, block_shape, margins, op)
    blocks, sides = static(block_shape, "block_shape"), static(margins, what)
    whole = [
        same(b, 1) is True and all(same(m, 0) is True for m in pair) for b, pair in zip(blocks, sides, strict=True)
    ]
    count = max((i + 1 for i, w in enumerate(whole) if not w), default=0)
    if count == 0:
        return x
    if count > _BUILTIN_AXES:
        general = _to_batch if op is ops.space_to_batch_nd else _from_batch
        return general(x, blocks[:count], sides[:count])
    if rank(x) == len(blocks) + 2:
        return op(x, np.array(blocks, np.int32), i32_operand(margins, what))
    batch, *sizes = x.shape
    image = shaped(x, (batch, *sizes[:count], product(tuple(sizes[count:]))), x)
    amounts = i32_operand(margins, what)
    if count < len(blocks):
        amounts = ops.strided_slice(amounts, *(np.array([v], np.int32) for v in (0, count, 1)))
    result = op(image, np.array(blocks[:count], np.int32), amounts)
    return shaped(result, (*result.shape[:-1], *sizes[count:]), result, x)


def _by_data(x: Array, block_shape: Array, margins: Array, op: TflOp) -> Array:
    """`op` with blocks or margins that data decides: of all axes that have a block."""
    axes = type_of(block_shape).shape[0]
    if not is_known(axes) or axes > _BUILTIN_AXES or axes == 0:
        raise LowerError(
            "blocks or margins are computed at run time, for other axes than the operator has",
            expected="one or two axes",
            found=str(type_of(block_shape)),
            remedy="give block shape and margins as constants",
        )
    batch, *sizes = x.shape
    image = shaped(x, (batch, *sizes[:axes], product(tuple(sizes[axes:]))), x)
    result = op(image, as_i32(block_shape), as_i32(margins))
    return shaped(result, (*result.shape[:-1], *sizes[axes:]), result, x)


def _to_batch(x: Array, blocks: Sequence[int], paddings: Sequence[Sequence[int]]) -> Array:
    """SPACE_TO_BATCH_ND along more axes than the operator knows."""
    axes = len(blocks)
    behind = [(0, 0)] * (rank(x) - 1 - axes)
    padded = ops.pad(x, np.array([(0, 0), *paddings, *behind], np.int32))
    batch, *sizes = padded.shape
    parts = [d for size, block in zip(sizes, blocks, strict=False) for d in (floor_divided(size, block), block)]
    order = (*range(2, 2 * axes + 2, 2), 0, *range(1, 2 * axes + 1, 2), *range(2 * axes + 1, rank(x) + axes))
    moved = ops.transpose(shaped(padded, (batch, *parts, *sizes[axes:]), padded), order)
    return shaped(moved, (batch * math.prod(blocks), *parts[::2], *sizes[axes:]), padded)


def _from_batch(x: Array, blocks: Sequence[int], crops: Sequence[Sequence[int]]) -> Array:
    """BATCH_TO_SPACE_ND along more axes than the operator knows."""
    axes = len(blocks)
    images, *sizes = x.shape
    batch = floor_divided(images, math.prod(blocks))
    order = (axes, *(a for i in range(axes) for a in (axes + 1 + i, i)), *range(2 * axes + 1, rank(x) + axes))
    moved = ops.transpose(shaped(x, (*blocks, batch, *sizes), x), order)
    whole = [size * block for size, block in zip(sizes, blocks, strict=False)]
    joined = shaped(moved, (batch, *whole, *sizes[axes:]), x)
    first = [before for before, _ in crops]
    last = [-after for _, after in crops]
    open_ends = sum(1 << i + 1 for i, after in enumerate(last) if not after)
    bounds = (np.array(v, np.int32) for v in ([0, *first], [0, *last], [1] * (axes + 1)))
    return ops.strided_slice(joined, *bounds, begin_mask=1, end_mask=1 | open_ends)
