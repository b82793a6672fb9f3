"""Convolutions without XLA's convolution, which on CPU is many times slower where few channels meet in a sum.

Measured with jaxlib 0.10.2 on CPU, f32, 16 images, against `lax.conv_general_dilated`: a 3x3 window over each of 96 to
384 channels takes 1/12 to 1/60 of the time, a 3x3 window over 3 channels 1/3, a 1x1 window 1/2 to 1. Products added up
take 0.55 to 0.9 of the time of the matrix product where there are few (8 images, with the layouts of `in_memory`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from jfuse.ir.dims import is_known, same
from jfuse.kernels.core.memory_layout import may_choose_layouts, pixels_outermost, transposed
from jfuse.kernels.core.op import Array
from jfuse.kernels.nn.windows import same_padding, window_counts

_MOST_PLACES = 64  # of a window: each is a few instructions to compile
_MOST_TERMS = 64  # of a sum: with more of them XLA's convolution is the faster one
_FEW_TERMS = 12  # of a sum, up to which products added up are 1 to 3 times as fast as a matrix product
_FEW_PRODUCTS = 27 * 24  # for one pixel of the result: as above where the window's elements do not lie side by side
_SHORT = 32  # channels, below which LLVM unrolls a loop over them and does not vectorize it


def depthwise_shifted(
    x: Array, weights: Array, padding: str, strides: Sequence[int], dilations: Sequence[int]
) -> Array | None:
    """The sum over the window's places of the image under each, times its weights; None where that does not pay.

    x: f[b,h,w,i], weights: f[1,kh,kw,i*m] -> f[b,h',w',i*m]
    """
    _, *window, outputs = weights.shape
    if not (_is_wide(x) and _fits(x, window, strides, dilations, padding) and is_known(x.shape[3])):
        return None
    repeated = x if outputs == x.shape[3] else jnp.repeat(x, outputs // x.shape[3], 3)
    whole = padded(repeated, window, strides, dilations, padding)
    if may_choose_layouts() and padding == "SAME" and outputs < _SHORT:
        whole = pixels_outermost(whole)
    counts = window_counts(x.shape[1:3], window, strides, dilations, padding)
    first, *others = (image * weights[0, i, j] for (i, j), image in places(whole, window, strides, dilations, counts))
    return sum(others, start=first)


def convolved_as_product(
    x: Array, weights: Array, padding: str, strides: Sequence[int], dilations: Sequence[int]
) -> Array | None:
    """A matrix product of the windows' elements with the weights, or products added up; None where that does not pay.

    x: f[b,h,w,i], weights: f[o,kh,kw,i] -> f[b,h',w',o]
    """
    outputs, *window, inputs = weights.shape
    if same(x.shape[3], inputs) is not True or not (_is_wide(x) and _fits(x, window, strides, dilations, padding)):
        return None
    terms = window[0] * window[1] * inputs
    if window != [1, 1] and not (is_known(terms) and terms <= _MOST_TERMS):
        return None
    whole = padded(x, window, strides, dilations, padding)
    counts = window_counts(x.shape[1:3], window, strides, dilations, padding)
    images = [image for _, image in places(whole, window, strides, dilations, counts)]
    matrix = jnp.reshape(weights, (outputs, terms))
    if may_choose_layouts() and (terms <= _FEW_TERMS or (len(images) > 1 and terms * outputs <= _FEW_PRODUCTS)):
        rows = transposed(matrix)
        columns = [image[..., c, None] for image in images for c in range(inputs)]
        first, *others = (column * rows[k] for k, column in enumerate(columns))
        return sum(others, start=first)
    rows = images[0] if len(images) == 1 else jnp.concatenate(images, 3)
    return jnp.matmul(rows, matrix.T, precision=lax.Precision.HIGHEST)


def _is_wide(x: Array) -> bool:
    """Whether sums may be rounded at each term: a convolution adds up 16-bit floats in more bits."""
    return bool(x.dtype in (jnp.float32, jnp.float64, jnp.int32))


def _fits(x: Array, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int], padding: str) -> bool:
    if not all(map(is_known, window)) or not 0 < window[0] * window[1] <= _MOST_PLACES:
        return False
    return all(same(n, 0) is False for n in window_counts(x.shape[1:3], window, strides, dilations, padding))


def padded(x: Array, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int], padding: str) -> Array:
    """The image with the zeros that "SAME" adds.   x: [b,h,w,i]"""
    if padding != "SAME":
        return x
    axes = zip(x.shape[1:3], window, strides, dilations, strict=True)
    return jnp.pad(x, ((0, 0), *(same_padding(*axis) for axis in axes), (0, 0)))


def places(
    padded: Array, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int], counts: Sequence[Any]
) -> Iterator[tuple[tuple[int, int], Array]]:
    """For each place in the window the elements that it meets, f[b,h',w',i]."""
    batch, *_, channels = padded.shape
    for i in range(window[0]):
        for j in range(window[1]):
            starts = [i * dilations[0], j * dilations[1]]
            limits = [s + (n - 1) * stride + 1 for s, n, stride in zip(starts, counts, strides, strict=True)]
            yield (i, j), lax.slice(padded, (0, *starts, 0), (batch, *limits, channels), (1, *strides, 1))
