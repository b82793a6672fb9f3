"""Convolutions, whose channels are axis 1: those of jax, which sorts out layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.convolution import lower_conv
from jfuse.lowering.from_torch.shapes import lower_unsqueeze, transposed
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import rank
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import lowers_torch

Steps = int | Sequence[int]


@dataclass(frozen=True)
class _Channels:
    """The places of batch, channels and spatial axes: in images, filters and results."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


def entries(value: Steps, count: int) -> tuple[int, ...]:
    """One number for each spatial axis."""
    numbers = (value,) if isinstance(value, int) else tuple(value)
    return numbers * count if len(numbers) == 1 else numbers


def _convolved(
    x: Array,
    weight: Array,
    bias: Array | None,
    strides: Sequence[int],
    sides: Sequence[tuple[int, int]],
    dilations: Sequence[int],
    between: Sequence[int],
    groups: int,
) -> Array:
    order = tuple(range(rank(weight)))
    if rank(x) == rank(weight) - 1:  # one image
        convolved = _convolved(lower_unsqueeze(x, 0), weight, bias, strides, sides, dilations, between, groups)
        return shaped(convolved, tuple(convolved.shape[1:]), x, *sources())
    convolved = lower_conv(
        x,
        weight,
        window_strides=strides,
        padding=sides,
        lhs_dilation=between,
        rhs_dilation=dilations,
        dimension_numbers=_Channels(order, order, order),
        feature_group_count=groups,
        batch_group_count=1,
    )
    return convolved if bias is None else ops.add(convolved, shaped(bias, (bias.shape[0], *[1] * (rank(weight) - 2))))


@lowers_torch("aten.conv1d", "aten.conv2d", "aten.conv3d")
def lower_convolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Steps = 1,
    padding: Steps | str = 0,
    dilation: Steps = 1,
    groups: int = 1,
) -> Array:
    """x: f[b, c, spatial…], weight: f[o, c/groups, spatial…], bias: f[o].   padding: widths, "valid", "same"."""
    count = rank(weight) - 2
    dilations = entries(dilation, count)
    if padding == "same":
        reach = [d * (int(k) - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
        sides = [(r // 2, r - r // 2) for r in reach]
    else:
        sides = [(p, p) for p in entries(0 if padding == "valid" else padding, count)]  # type: ignore[arg-type]
    return _convolved(x, weight, bias, entries(stride, count), sides, dilations, (1,) * count, groups)


@lowers_torch("aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d")
def lower_transposed_convolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Steps = 1,
    padding: Steps = 0,
    output_padding: Steps = 0,
    groups: int = 1,
    dilation: Steps = 1,
) -> Array:
    """x: f[b, c, spatial…], weight: f[c, o/groups, spatial…], bias: f[o].   -> TRANSPOSE_CONV"""
    count = rank(weight) - 2
    widths, more, steps, dilations = (entries(v, count) for v in (padding, output_padding, stride, dilation))
    sizes = [int(k) for k in weight.shape[2:]]
    sides = []
    for size, dilated, width, extra in zip(sizes, dilations, widths, more, strict=True):
        reach = dilated * (size - 1)
        sides.append((reach - width, reach - width + extra))
    filters = weight
    for axis in range(2, count + 2):
        filters = ops.reverse_v2(filters, np.array([axis], np.int32))
    return _convolved(x, _of_outputs(filters, groups), bias, (1,) * count, sides, dilations, steps, groups)


def _of_outputs(weight: Array, groups: int) -> Array:
    """f[c, o/groups, …] as f[o, c/groups, …]."""
    inputs, outputs, *sizes = weight.shape
    swapped = (1, 0, *range(2, rank(weight)))
    if groups == 1:
        return transposed(weight, swapped)
    parts = ops.reshape(weight, np.array((groups, inputs // groups, outputs, *sizes), np.int32))
    moved = transposed(parts, (0, 2, 1, *range(3, rank(parts))))
    return ops.reshape(moved, np.array((groups * outputs, inputs // groups, *sizes), np.int32))


@lowers_torch("aten.convolution")
def lower_any_convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    is_transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Array:
    """A convolution of either kind."""
    if is_transposed:
        return lower_transposed_convolution(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return lower_convolution(x, weight, bias, stride, padding, dilation, groups)


@lowers_torch("aten.im2col")
def lower_im2col(
    x: Array, kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Array:
    """The windows of an image as columns: a convolution with filters that are 1 in one place.

    x: f[b, c, h, w] -> f[b, c * kh * kw, windows]
    """
    channels, (height, width) = int(x.shape[1]), kernel
    count = height * width
    if rank(x) != 4:
        raise LowerError("windows of one image", remedy="give it a batch axis")
    eye = np.eye(count, dtype=np.float32).reshape(count, 1, height, width)
    columns = lower_convolution(x, np.tile(eye, (channels, 1, 1, 1)), None, stride, padding, dilation, channels)
    batch, outputs, *sizes = columns.shape
    return shaped(columns, (batch, outputs, sizes[0] * sizes[1]), x, *sources())


@lowers_torch("aten.col2im")
def lower_col2im(
    x: Array,
    size: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Array:
    """Columns added up where their windows were: a transposed convolution with filters that are 1 in one place.

    x: f[b, c * kh * kw, windows] -> f[b, c, h, w]
    """
    height, width = kernel
    count = height * width
    if rank(x) != 3 or not all(isinstance(d, int) for d in (*size, x.shape[1])):
        raise LowerError(
            "columns of one image, or of an open size", remedy="give it a batch axis; fix height and width"
        )
    channels = int(x.shape[1]) // count
    reach = [(n + 2 * p - d * (k - 1) - 1) for n, p, d, k in zip(size, padding, dilation, kernel, strict=True)]
    counts = [r // s + 1 for r, s in zip(reach, stride, strict=True)]
    eye = np.eye(count, dtype=np.float32).reshape(count, 1, height, width)
    images = shaped(x, (x.shape[0], x.shape[1], *counts), x, *sources())
    rest = [r % s for r, s in zip(reach, stride, strict=True)]
    filters = np.tile(eye, (channels, 1, 1, 1))
    return lower_transposed_convolution(images, filters, None, stride, padding, rest, channels, dilation)
