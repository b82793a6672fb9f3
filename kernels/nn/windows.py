"""Output sizes and paddings of sliding windows: of convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence

from jax.core import max_dim

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import Dim, floor_divided, is_known, unclipped


def window_count(size: Dim, window: int, stride: int, dilation: int, padding: str) -> Dim:
    """How many windows fit along one axis, where the padding is "SAME" or "VALID".

    Open sizes come out in one form whatever leads to them, so that branches of a network are seen to agree.
    Source: tflite/kernels/padding.h, ComputeOutSize
    """
    if padding == "SAME":
        return floor_divided(size + stride - 1, stride)
    count = floor_divided(unclipped(size) - extent(window, dilation), stride) + 1
    if is_known(count) and count < 0:
        raise TypeMismatch("the window is larger than the image", expected=f"{window} or more", found=size)
    return count if is_known(count) else max_dim(count, 0)  # jax wants to see that no size is below 0


def window_counts(
    sizes: Sequence[Dim], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int], padding: str
) -> tuple[Dim, ...]:
    """How many windows there are along each axis, by `window_count`."""
    axes = zip(sizes, window, strides, dilations, strict=True)
    return tuple(window_count(*axis, padding) for axis in axes)


def extent(window: int, dilation: int) -> int:
    """How far a window reaches whose elements stand `dilation` apart."""
    return (window - 1) * dilation + 1


def same_padding(size: Dim, window: int, stride: int, dilation: int) -> tuple[Dim, Dim]:
    """The amounts that "SAME" adds before and after an axis of this size.   Source: tflite/kernels/padding.h"""
    count = window_count(size, window, stride, dilation, "SAME")
    total = max_dim((count - 1) * stride + extent(window, dilation) - size, 0)
    return total // 2, total - total // 2
