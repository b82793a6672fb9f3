"""Reading images at places that are computed at run time."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import static, type_of


class Pixels:
    """Images f[b,h,w,c] whose pixels are picked by image, row and column."""

    def __init__(self, images: Array) -> None:
        self.height, self.width, channels = images.shape[1:]
        if not all(map(is_known, images.shape[1:])):
            raise LowerError(
                "pixels are picked at computed places of images whose size is known only at run time",
                expected="a fixed height, width and number of channels",
                found=str(type_of(images)),
                remedy="give the input a fixed size",
            )
        self._lines = ops.reshape(images, np.array([-1, channels], np.int32))

    def at(self, image: Array, row: Array, column: Array) -> Array:
        """The pixels at places, which broadcast.   i32[...] each -> f[...,c]"""
        first = ops.mul(ops.add(ops.mul(image, np.int32(self.height)), row), np.int32(self.width))
        return ops.gather(self._lines, ops.add(first, column), axis=0)


def known_size(size: Array, what: str) -> tuple[int, int]:
    """The height and width that an operand says; raises LowerError where they are known only at run time."""
    height, width = static(size, what)
    if not is_known(height) or not is_known(width):
        raise LowerError(f"{what} is known only at run time", expected="constants", found=(height, width))
    return int(height), int(width)


def to_i32(x: Array) -> Array:
    """Whole numbers in f32 as i32."""
    return ops.cast(x, out_data_type=DType.i32)


def rounded(x: Array) -> Array:
    """The nearest whole number, halves away from 0 (ROUND takes them to even ones).   f32[...], not negative"""
    below = ops.floor(x)
    up = ops.greater_equal(ops.sub(x, below), np.float32(0.5))
    return ops.add(below, ops.cast(up, out_data_type=DType.f32))


def within(x: Array, low: float, high: float) -> Array:
    """Whether x lies between two numbers, both included.   f32[...] -> bool[...]"""
    return ops.logical_and(ops.greater_equal(x, np.float32(low)), ops.less_equal(x, np.float32(high)))
