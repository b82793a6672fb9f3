"""Blocks of an image moved between space, channels and batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import Dim, floor_divided, is_known, same
from jfuse.ir.graph import Atom
from jfuse.ir.types import TensorType
from jfuse.kernels.core.op import Array, Sizes, Static, namespace, tfl
from jfuse.kernels.core.static_values import fresh_size, static_value


@tfl("SPACE_TO_DEPTH", linear="joint", moves="takes")
def space_to_depth(x: Array, /, *, block_size: int) -> Array:
    """Each block of pixels becomes the channels of one pixel.

    any[b,h,w,c] -> any[b,h/s,w/s,s*s*c]   Source: tflite/kernels/space_to_depth.cc
    """
    xp, s = namespace(x), block_size
    batch, height, width, channels = x.shape
    blocks = xp.reshape(x, (batch, height // s, s, width // s, s, channels))
    return xp.reshape(xp.transpose(blocks, (0, 1, 3, 2, 4, 5)), (batch, height // s, width // s, s * s * channels))


@space_to_depth.types
def _space_to_depth_type(x: TensorType, *, block_size: int) -> TensorType:
    batch, height, width, channels = _image(x)
    sizes = [_divided(d, block_size) for d in (height, width)]
    return TensorType((batch, *sizes, channels * block_size**2), x.dtype)


@tfl("DEPTH_TO_SPACE", linear="joint", moves="takes")
def depth_to_space(x: Array, /, *, block_size: int) -> Array:
    """The channels of each pixel become a block of pixels.

    any[b,h,w,s*s*c] -> any[b,h*s,w*s,c]   Source: tflite/kernels/depth_to_space.cc
    """
    xp, s = namespace(x), block_size
    batch, height, width, channels = x.shape
    blocks = xp.reshape(x, (batch, height, width, s, s, channels // (s * s)))
    return xp.reshape(xp.transpose(blocks, (0, 1, 3, 2, 4, 5)), (batch, height * s, width * s, channels // (s * s)))


@depth_to_space.types
def _depth_to_space_type(x: TensorType, *, block_size: int) -> TensorType:
    batch, height, width, channels = _image(x)
    return TensorType((batch, height * block_size, width * block_size, _divided(channels, block_size**2)), x.dtype)


@tfl("SPACE_TO_BATCH_ND", linear="joint")
def space_to_batch_nd(x: Array, block_shape: Sizes, paddings: Static, /) -> Array:
    """The image padded with zeros and taken apart: every n-th pixel of each axis is an image of its own.

    x: any[b,h,w,c] or any[b,h,c]; block_shape: i32[axes]; paddings: i32[axes,2] -> any[b*blocks,h',w',c]
    Source: tflite/kernels/space_to_batch_nd.cc
    """
    xp, axes = namespace(x), len(block_shape)
    padded = xp.pad(x, ((0, 0), *paddings, (0, 0)))
    batch, *sizes, channels = padded.shape
    parts = [d for size, block in zip(sizes, block_shape, strict=True) for d in (size // block, block)]
    order = (*range(2, 2 * axes + 2, 2), 0, *range(1, 2 * axes + 1, 2), 2 * axes + 1)
    moved = xp.transpose(xp.reshape(padded, (batch, *parts, channels)), order)
    return xp.reshape(moved, (batch * math.prod(block_shape), *parts[::2], channels))


@space_to_batch_nd.types
def _space_to_batch_nd_type(x: TensorType, block_shape: Any, paddings: Any) -> TensorType:
    batch, *sizes, channels = _blocks_operand(x, block_shape, paddings)
    padded = [d + before + after for d, (before, after) in zip(sizes, paddings, strict=True)]
    left = [_divided(d, block) for d, block in zip(padded, block_shape, strict=True)]
    return TensorType((batch * math.prod(block_shape), *left, channels), x.dtype)


@space_to_batch_nd.types_by_data
def _space_to_batch_nd_by_data(x: Atom, block_shape: Atom, paddings: Atom) -> TensorType:
    return _blocks_by_data(x, static_value(block_shape), lambda images, blocks: images * math.prod(blocks))


@tfl("BATCH_TO_SPACE_ND", linear="joint")
def batch_to_space_nd(x: Array, block_shape: Sizes, crops: Static, /) -> Array:
    """The inverse of SPACE_TO_BATCH_ND: images that are each every n-th pixel of one, put together and cropped.

    x: any[b*blocks,h,w,c] or any[b*blocks,h,c]; block_shape: i32[axes]; crops: i32[axes,2] -> any[b,h',w',c]
    Source: tflite/kernels/batch_to_space_nd.cc
    """
    xp, axes = namespace(x), len(block_shape)
    images, *sizes, channels = x.shape
    batch = images // math.prod(block_shape)
    order = (axes, *(a for i in range(axes) for a in (axes + 1 + i, i)), 2 * axes + 1)
    moved = xp.transpose(xp.reshape(x, (*block_shape, batch, *sizes, channels)), order)
    whole = [size * block for size, block in zip(sizes, block_shape, strict=True)]
    crop_slices = tuple(slice(before, size - after) for size, (before, after) in zip(whole, crops, strict=True))
    return xp.reshape(moved, (batch, *whole, channels))[(slice(None), *crop_slices)]


@batch_to_space_nd.types
def _batch_to_space_nd_type(x: TensorType, block_shape: Any, crops: Any) -> TensorType:
    images, *sizes, channels = _blocks_operand(x, block_shape, crops)
    whole = [size * block for size, block in zip(sizes, block_shape, strict=True)]
    sizes_left = [size - before - after for size, (before, after) in zip(whole, crops, strict=True)]
    if any(is_known(d) and d < 0 for d in sizes_left):
        raise TypeMismatch("the crops are larger than the image", expected=f"{whole} at most", found=crops)
    return TensorType((_divided(images, math.prod(block_shape)), *sizes_left, channels), x.dtype)


@batch_to_space_nd.types_by_data
def _batch_to_space_nd_by_data(x: Atom, block_shape: Atom, crops: Atom) -> TensorType:
    return _blocks_by_data(x, static_value(block_shape), lambda images, blocks: _divided(images, math.prod(blocks)))


def _blocks_by_data(x: Atom, blocks: Any, images: Callable[[Dim, Any], Dim]) -> TensorType:
    """Sizes that data decides, but for the channels, and the batch where the blocks are known."""
    batch, *sizes, channels = x.type.shape
    many = fresh_size() if blocks is None else images(batch, blocks)
    return TensorType((many, *(fresh_size() for _ in sizes), channels), x.type.dtype)


def _image(x: TensorType) -> Sequence[Dim]:
    if x.rank != 4:
        raise TypeMismatch("an image of rank 4 is needed", found=str(x))
    return x.shape


def _blocks_operand(x: TensorType, block_shape: Any, margins: Any) -> Sequence[Dim]:
    if x.rank not in (3, 4) or not len(block_shape) == len(margins) == x.rank - 2:
        raise TypeMismatch("blocks are named for each axis between batch and channels, one or two", found=str(x))
    return x.shape


def _divided(size: Dim, divisor: int) -> Dim:
    if same(size % divisor, 0) is False:
        raise TypeMismatch(f"a size of {size} has no {divisor} equal parts")
    return floor_divided(size, divisor)
