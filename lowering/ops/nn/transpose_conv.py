"""Transposed convolutions: the gradient of a convolution in its image, as the layers that enlarge images.

TRANSPOSE_CONV wants the shape of its result as an operand, so an open batch would cost SHAPE and PACK, and takes the
operator from the delegates. An image of open size is enlarged by a convolution that gives all pixels of a block at
once, and DEPTH_TO_SPACE: with XNNPACK 1.6 to 3 times as fast as TRANSPOSE_CONV, without it 0.6 to 1.1 times (LiteRT
2.3.0, f32, one thread, strides of 2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, Shape, floor_divided, is_known, symbols_in
from jfuse.ir.graph import Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.kernels.core.op import static_value as known_value
from jfuse.kernels.nn.windows import extent, same_padding
from jfuse.lowering.ops.nn.conv import conv_2d, conv_3d, lower_depthwise_conv_2d, no_bias
from jfuse.lowering.rule_tools.image_layout import (
    WindowAttributes,
    as_in,
    channels_last,
    known_padding,
    padded,
    spatial,
)
from jfuse.lowering.rule_tools.operands import as_i32, element, entries
from jfuse.lowering.rule_tools.query import is_constant, static, type_of
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor, shaped, size_tensor
from jfuse.lowering.rules import lowers

Operator: TypeAlias = Callable[[Array, str], Array]
"""A transposed convolution of a given tensor: of the result's shape, channels last, and the padding."""


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: y[i * stride + k * dilation - before] gets x[i] * w[k]."""

    size: Dim
    result: Dim
    window: int
    stride: int
    dilation: int
    before: Dim
    after: Dim

    @property
    def sides(self) -> tuple[Dim, Dim]:
        """The paddings of x for stride 1, where a plain convolution by the flipped window computes the same."""
        return extent(self.window, self.dilation) - 1 - self.before, self.result - self.size + self.before

    @property
    def blocks(self) -> Dim:
        """How many blocks of `stride` results there are, the last one perhaps cut."""
        return floor_divided(self.result + self.stride - 1, self.stride)

    def taps(self) -> list[tuple[int, int, int]]:
        """The place in the block, the distance from the block's own element of x, and k, of all that adds up."""
        places = ((r, k, r + self.before - k * self.dilation) for r in range(self.stride) for k in range(self.window))
        return [(r, reach // self.stride, k) for r, k, reach in places if reach % self.stride == 0]


@lowers("Conv2DBackpropInput")
def lower_conv_2d_backprop_input(input_sizes: Array, weights: Array, x: Array, *, how: WindowAttributes) -> Array:
    """input_sizes: i32[4] or [height, width]; weights: f[kh,kw,o,i]; x: f[b,h,w,i] (or f[b,i,h,w])."""
    return _of_any_rank(input_sizes, weights, x, how, _image_operator, _enlarged)


@lowers("Conv3DBackpropInputV2")
def lower_conv_3d_backprop_input(input_sizes: Array, weights: Array, x: Array, *, how: WindowAttributes) -> Array:
    """input_sizes: i32[5]; weights: f[kd,kh,kw,o,i]; x: f[b,d,h,w,i] (or f[b,i,d,h,w])."""
    return _of_any_rank(input_sizes, weights, x, how, _volume_operator, _enlarged_volume)


def _of_any_rank(
    input_sizes: Array,
    weights: Array,
    x: Array,
    how: WindowAttributes,
    operator: Callable[..., Operator],
    enlarged: Callable[..., Array],
) -> Array:
    """By the operator itself where the result is sized by data, else by what its known sizes allow."""
    image = channels_last(x, how.layout)
    _know_sizes(input_sizes, x)
    if _is_sized_by_data(input_sizes, x):
        shape = _shape_by_data(input_sizes, image, weights.shape[-2], how)
        return as_in(operator(image, weights, how.steps, how.spacing)(shape, how.padding), how.layout)
    axes = _axes(image, _result_sizes(input_sizes, how.layout), weights, how)
    return as_in(enlarged(image, weights, axes), how.layout)


@lowers("DepthwiseConv2dNativeBackpropInput")
def lower_depthwise_conv_2d_backprop_input(
    input_sizes: Array, weights: Array, x: Array, *, how: WindowAttributes
) -> Array:
    """DEPTHWISE_CONV_2D by the flipped windows, of the image with zeros between its pixels.

    input_sizes: i32[4]; weights: f[kh,kw,c,m]; x: f[b,h,w,c*m] (or f[b,c*m,h,w]) -> f[b,h',w',c] (or f[b,c,h',w'])
    """
    image = channels_last(x, how.layout)
    sizes = _result_sizes(input_sizes, how.layout)
    axes = _axes(image, sizes, weights, how)
    _, steps, spacing = _settings(axes)
    if steps != (1, 1):
        image = ops.dilate(image, np.array([1, *steps, 1], np.int32), np.zeros((), np.float32))
    around = tuple(replace(a, size=d).sides for a, d in zip(axes, image.shape[1:3], strict=True))
    if not all(is_known(side) and side >= 0 for pair in around for side in pair):
        raise LowerError(
            "a depthwise transposed convolution that cuts off its result, or whose padding is open",
            expected="a result of a known size, or a multiple of the image's",
            found=f"{type_of(x)} to {sizes}",
            remedy="give the input a fixed height and width",
        )
    if any(map(any, around)):
        image = padded(image, around)
    height, width, channels, multiplier = weights.shape
    flipped = ops.reverse_v2(weights, np.array([0, 1], np.int32))
    # Each product goes to a channel of its own, and the channels that belong together are added up.
    filters = ops.reshape(flipped, (height, width, channels * multiplier, 1))
    result = lower_depthwise_conv_2d(image, filters, padding="VALID", strides=(1, 1, 1, 1), dilations=(1, *spacing, 1))
    if multiplier != 1:
        parts = shaped(result, (*result.shape[:-1], channels, multiplier), result)
        result = ops.sum_(parts, np.array([4], np.int32))
    return as_in(result, how.layout)


def _is_sized_by_data(input_sizes: Array, x: Array) -> bool:
    """Whether the result has sizes that data decides, or that are those of another tensor than x."""
    value = known_value(input_sizes) if isinstance(input_sizes, Var) else ()
    return value is None or not symbols_in(value) <= symbols_in(tuple(x.shape))


def _know_sizes(input_sizes: Array, x: Array) -> None:
    """Record the sizes that x does not tell as scalars of the trace: of a stride's image N is lost in (N + 1) // 2."""
    value = known_value(input_sizes) if isinstance(input_sizes, Var) else None
    for i, size in enumerate(value or ()):
        try:
            size_tensor(size, [x])
        except LowerError:
            element(input_sizes, i)


def _shape_by_data(input_sizes: Array, x: Array, channels: Dim, how: WindowAttributes) -> Array:
    """The shape of the result, channels last, where it cannot be computed from x."""
    stated_sizes = entries(input_sizes) if type_of(input_sizes).is_static else []
    if how.padding == "EXPLICIT" or not stated_sizes:
        raise LowerError(
            "the size of a transposed convolution's result is computed at run time, beside explicit paddings",
            expected='padding "SAME" or "VALID", or a result of a known size',
            found=f"padding {how.padding}, sizes {type_of(input_sizes)}",
            remedy="give the result's size as a constant, or pad with tf.pad",
        )
    sizes = as_i32(input_sizes)
    count = len(how.steps)
    before = 2 if how.layout.startswith("NC") else 1
    first = before if len(stated_sizes) > count else 0
    own = ops.strided_slice(sizes, *(np.array([v], np.int32) for v in (first, first + count, 1)))
    batch, last = (shape_tensor([d], [x]) for d in (x.shape[0], channels))
    return ops.concatenation(batch, own, last, axis=0)


def _result_sizes(input_sizes: Array, data_format: str) -> Shape:
    """The spatial sizes of the result; the others follow from the operands."""
    sizes = static(input_sizes, "input_sizes")
    return spatial(sizes, data_format) if len(sizes) == len(data_format) else sizes


def _axes(x: Array, results: Shape, weights: Array, how: WindowAttributes) -> list[_Axis]:
    steps, spacing = how.steps, how.spacing
    sides = how.explicit_sides if how.padding == "EXPLICIT" else None
    axes = []
    for i, (size, result) in enumerate(zip(x.shape[1:-1], results, strict=True)):
        window, stride, dilation = weights.shape[i], steps[i], spacing[i]
        usual = same_padding(result, window, stride, dilation) if how.padding == "SAME" else (0, 0)
        axes.append(_Axis(size, result, window, stride, dilation, *(usual if sides is None else sides[i])))
    return axes


def _enlarged(image: Array, weights: Array, axes: Sequence[_Axis]) -> Array:
    """f[b,h,w,i] by f[kh,kw,o,i] -> f[b,h',w',o]"""
    _, steps, spacing = _settings(axes)
    plain = _plain_padding(image, weights, axes)
    if plain is not None:
        return conv_2d(image, np.transpose(weights[::-1, ::-1], (2, 0, 1, 3)), plain, (1, 1), spacing)
    shape = (image.shape[0], *(a.result for a in axes), weights.shape[2])
    if is_constant(weights) and not all(map(is_known, shape)) and _has_known_blocks(axes):
        return _by_blocks(image, weights, axes)
    return _by_operator(_image_operator(image, weights, steps, spacing), image, shape, axes)


def _image_operator(image: Array, weights: Array, steps: Sequence[int], spacing: Sequence[int]) -> Operator:
    """TRANSPOSE_CONV of an image, whose filters have zeros between their elements where they are dilated."""
    filters = ops.transpose(weights, (2, 0, 1, 3))
    if tuple(spacing) != (1, 1):
        filters = ops.dilate(filters, np.array([1, *spacing, 1], np.int32), np.zeros((), filters.dtype))

    def operator(shape: Array, padding: str) -> Array:
        options = {"padding": padding, "stride_h": steps[0], "stride_w": steps[1]}
        return ops.transpose_conv(shape, filters, image, no_bias(weights, weights.shape[2]), **options)

    return operator


def _enlarged_volume(volume: Array, weights: Array, axes: Sequence[_Axis]) -> Array:
    """f[b,d,h,w,i] by f[kd,kh,kw,o,i] -> f[b,d',h',w',o]"""
    _, steps, spacing = _settings(axes)
    plain = _plain_padding(volume, weights, axes)
    if plain is not None:
        return conv_3d(volume, np.swapaxes(weights[::-1, ::-1, ::-1], 3, 4), plain, (1, 1, 1), spacing)
    shape = (volume.shape[0], *(a.result for a in axes), weights.shape[3])
    return _by_operator(_volume_operator(volume, weights, steps, spacing), volume, shape, axes)


def _volume_operator(volume: Array, weights: Array, steps: Sequence[int], spacing: Sequence[int]) -> Operator:
    """CONV_3D_TRANSPOSE of a volume."""

    def operator(shape: Array, padding: str) -> Array:
        options = {"padding": padding, **{f"stride_{name}": step for name, step in zip("dhw", steps, strict=True)}}
        options |= {f"dilation_{name}_factor": step for name, step in zip("dhw", spacing, strict=True)}
        return ops.conv_3d_transpose(shape, weights, volume, no_bias(weights, weights.shape[3]), **options)

    return operator


def _settings(axes: Sequence[_Axis]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return tuple(a.window for a in axes), tuple(a.stride for a in axes), tuple(a.dilation for a in axes)


def _plain_padding(x: Array, weights: Array, axes: Sequence[_Axis]) -> str | None:
    """The padding with which a convolution by the flipped window does the same; None where none does."""
    window, steps, spacing = _settings(axes)
    if any(step != 1 for step in steps) or not is_constant(weights):
        return None
    padding = known_padding(x.shape[1:-1], window, steps, spacing, tuple(a.sides for a in axes))
    return None if padding == "EXPLICIT" else padding


def _by_operator(operator: Operator, x: Array, shape: Shape, axes: Sequence[_Axis]) -> Array:
    """`operator` for results of `shape`, and what explicit paddings cut off; the kernels check that sizes agree."""
    padding = known_padding([a.result for a in axes], *_settings(axes), tuple((a.before, a.after) for a in axes))
    if padding != "EXPLICIT":
        return operator(shape_tensor(shape, [x]), padding)
    batch, *_, channels = shape
    longer = [a.before + a.result + a.after for a in axes]
    whole = operator(shape_tensor((batch, *longer, channels), [x]), "VALID")
    return _cut(whole, [(a.before, a.after) for a in axes])


def _cut(x: Array, margins: Sequence[tuple[int, int]]) -> Array:
    """x[b, ..., c] without so many elements before and after on each spatial axis."""
    begin, end = ([0, *side, 0] for side in zip(*margins, strict=True))
    whole = sum(1 << i for i, after in enumerate(end) if not after)
    bounds = (np.array(v, np.int32) for v in (begin, [-after for after in end], [1] * len(begin)))
    return ops.strided_slice(x, *bounds, end_mask=whole)


def _has_known_blocks(axes: Sequence[_Axis]) -> bool:
    """Whether `_by_blocks` can do it: with paddings that are known and cut nothing off."""
    if not all(is_known(a.before) and is_known(a.blocks - a.size) for a in axes):
        return False
    return all(min(pair) >= 0 for a in axes for pair in [_reach(a)])


def _reach(axis: _Axis) -> tuple[int, int]:
    """How many elements of x the first block needs before its own, and the last one after the end."""
    distances = [distance for _, distance, _ in axis.taps()]
    return -min(distances), int(axis.blocks - axis.size) + max(distances)


def _by_blocks(image: Array, weights: np.ndarray, axes: Sequence[_Axis]) -> Array:
    """Each element of the convolution holds the pixels of one block as channels: as many as the strides say."""
    sides = tuple(map(_reach, axes))
    filters = _block_filters(np.asarray(weights), axes)
    window = filters.shape[1:3]
    padding = known_padding(image.shape[1:-1], window, (1, 1), (1, 1), sides)
    if padding == "EXPLICIT":
        image, padding = padded(image, sides), "VALID"
    joined = _joined(conv_2d(image, filters, padding, (1, 1)), [a.stride for a in axes])
    margins = [(0, int(a.blocks * a.stride - a.result)) for a in axes]
    return _cut(joined, margins) if any(map(any, margins)) else joined


def _block_filters(weights: np.ndarray, axes: Sequence[_Axis]) -> np.ndarray:
    """f[kh,kw,o,i] -> f[pixels of a block * o, kh', kw', i]"""
    rows, columns = (axis.taps() for axis in axes)
    first = [min(distance for _, distance, _ in taps) for taps in (rows, columns)]
    last = [max(distance for _, distance, _ in taps) for taps in (rows, columns)]
    window = [high - low + 1 for low, high in zip(first, last, strict=True)]
    _, _, outputs, inputs = weights.shape
    filters = np.zeros((axes[0].stride, axes[1].stride, outputs, *window, inputs), weights.dtype)
    for row, down, kh in rows:
        for column, right, kw in columns:
            filters[row, column, :, down - first[0], right - first[1]] = weights[kh, kw]
    return filters.reshape(-1, *window, inputs)


def _joined(blocks: Array, strides: Sequence[int]) -> Array:
    """f[b,h,w,sh*sw*o] -> f[b,h*sh,w*sw,o]"""
    down, right = strides
    if down == right:
        return blocks if down == 1 else ops.depth_to_space(blocks, block_size=down)
    batch, height, width, channels = blocks.shape
    outputs = channels // (down * right)
    if down != 1:
        pixels = shaped(blocks, (batch, height, width, down, right * outputs), blocks)
        blocks = ops.transpose(pixels, (0, 1, 3, 2, 4))
    return shaped(blocks, (batch, height * down, width * right, outputs), blocks)
