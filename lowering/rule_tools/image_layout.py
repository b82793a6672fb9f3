"""Images and volumes as TFLite has them: channels last, and padded "SAME", "VALID" or by an operator before."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known, same
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.kernels.nn.windows import extent, same_padding
from jfuse.lowering.rule_tools.query import rank, type_of

Sides = tuple[tuple[int, int], ...]


def spatial(values: Sequence[int], data_format: str) -> tuple[int, ...]:
    """The entries of an attribute that are neither about the batch nor about the channels."""
    return tuple(v for v, axis in zip(values, data_format, strict=True) if axis not in "NC")


@dataclass(frozen=True, kw_only=True)
class WindowAttributes:
    """The attributes of TensorFlow's convolutions and pools that say how windows slide over an image or a volume.

    strides, dilations, explicit_paddings: one entry (of paddings two) for each axis, in the order of `data_format`.
    """

    strides: Sequence[int]
    padding: str
    explicit_paddings: Sequence[int] = ()
    data_format: str = ""
    dilations: Sequence[int] = ()

    @property
    def layout(self) -> str:
        """The layout of the image: "NHWC", "NCHW", "NDHWC" or "NCDHW"; channels are last where nothing says so."""
        return self.data_format or ("NHWC" if len(self.strides) == 4 else "NDHWC")

    @property
    def steps(self) -> tuple[int, ...]:
        """The strides along height and width, or depth, height and width."""
        return spatial(self.strides, self.layout)

    @property
    def spacing(self) -> tuple[int, ...]:
        """The dilations along the same axes."""
        return spatial(self.dilations, self.layout) if self.dilations else (1,) * len(self.steps)

    @property
    def explicit_sides(self) -> Sides:
        """The amounts that explicit paddings add before and after each of these axes."""
        pairs = zip(self.explicit_paddings[::2], self.explicit_paddings[1::2], self.layout, strict=True)
        return tuple((before, after) for before, after, axis in pairs if axis not in "NC")


@dataclass(frozen=True, kw_only=True)
class PoolAttributes(WindowAttributes):
    """The attributes of pools, whose window is one of them.   ksize: one entry for each axis"""

    ksize: Sequence[int]

    @property
    def window(self) -> tuple[int, ...]:
        """The window along height and width, or depth, height and width."""
        return spatial(self.ksize, self.layout)


def channels_last(x: Array, data_format: str) -> Array:
    """x[b, ..., c] of x in TensorFlow's layout."""
    return x if data_format[-1] == "C" else ops.transpose(x, (0, *range(2, rank(x)), 1))


def as_in(x: Array, data_format: str) -> Array:
    """x[b, ..., c] in TensorFlow's layout."""
    return x if data_format[-1] == "C" else ops.transpose(x, (0, rank(x) - 1, *range(1, rank(x) - 1)))


def on_images(
    x: Array,
    apply: Callable[[Array, str], Array],
    window: Sequence[int],
    how: WindowAttributes,
    fill: float | None = None,
) -> Array:
    """`apply` on x[b, ..., c] with a padding that TFLite knows; the result is in TensorFlow's layout.

    fill: what explicit paddings hold; zeros where it is None.
    """
    images, padding = channels_last(x, how.layout), how.padding
    if padding == "EXPLICIT":
        sides = how.explicit_sides
        padding = known_padding(images.shape[1:-1], window, how.steps, how.spacing, sides)
        if padding == "EXPLICIT":
            images, padding = padded(images, sides, fill), "VALID"
    return as_in(apply(images, padding), how.layout)


def known_padding(
    sizes: Sequence[Dim], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int], sides: Sides
) -> str:
    """The padding that pads exactly so: "VALID", "SAME" or "EXPLICIT"."""
    if all(same(side, 0) is True for pair in sides for side in pair):
        return "VALID"
    wanted = (same_padding(*axis) for axis in zip(sizes, window, strides, dilations, strict=True))
    equal = all(same(w, s) is True for pair in zip(wanted, sides, strict=True) for w, s in zip(*pair, strict=True))
    return "SAME" if equal else "EXPLICIT"


def fixed_sides(images: Array, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Sides:
    """The amounts that "SAME" adds around x[b, ..., c]; raises LowerError where the run time alone knows them."""
    axes = zip(images.shape[1:-1], window, strides, dilations, strict=True)
    sides = tuple(same_padding(*axis) for axis in axes)
    if not all(is_known(side) for pair in sides for side in pair):
        raise LowerError(
            "the padding of windows that no TFLite operator has is known only at run time",
            expected="a height and a width that are known, or a stride of 1",
            found=str(type_of(images)),
            remedy="fix height and width of the model's input",
        )
    return tuple((int(before), int(after)) for before, after in sides)


def padded(images: Array, sides: Sides, fill: float | None = None) -> Array:
    """x[b, ..., c] with zeros, or `fill`, around its spatial axes."""
    paddings = np.array([(0, 0), *sides, (0, 0)], np.int32)
    return ops.pad(images, paddings) if fill is None else ops.padv2(images, paddings, np.array(fill, images.dtype))


def taps(images: Array, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> list[Array]:
    """For each place of a window, row by row, what all windows that lie within x[b,h,w,c] hold there.   x[b,h',w',c]"""
    reach = [extent(size, dilation) - 1 for size, dilation in zip(window, dilations, strict=True)]
    taps_ = []
    for down, right in itertools.product(range(window[0]), range(window[1])):
        begin = [down * dilations[0], right * dilations[1]]
        end = [first - last for first, last in zip(begin, reach, strict=True)]  # counted from the end; 0 is the end
        whole = 0b1001 | sum(2 << i for i, last in enumerate(end) if not last)
        bounds = (np.array([0, *v, 0], np.int32) for v in (begin, end))
        steps = np.array([1, *strides, 1], np.int32)
        taps_.append(ops.strided_slice(images, *bounds, steps, begin_mask=0b1001, end_mask=whole))
    return taps_
