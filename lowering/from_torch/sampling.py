"""Images read at places between their pixels: GATHER of the pixels around each place, and a product with weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, product, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import broadcast
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.shapes import lower_select, lower_unsqueeze, transposed
from jfuse.lowering.ops.math.special import polynomial
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped, size_tensor
from jfuse.lowering.rules import lowers_torch

_NEAREST, _BICUBIC = 1, 2
_ZEROS, _BORDER = 0, 1
"""PyTorch's numbers of modes of interpolation, 0 being bilinear, and of padding; 2 is reflection."""
_KEYS = -0.75
"""The parameter of the cubic: its slope at the distance 1."""


def taps(place: Array, size: Dim, x: Array) -> tuple[Array, Array]:
    """The two pixels around each place along an axis of an image, and their shares, 0 for pixels beyond the edges.

    place: f32[...] -> i32[..., 2], f32[..., 2]
    """
    low = ops.floor(place)
    part = ops.sub(place, low)
    numbers = ops.pack(low, ops.add(low, np.float32(1)), axis=rank(place))
    shares = ops.pack(ops.sub(np.float32(1), part), part, axis=rank(place))
    return _within(numbers, shares, size, x)


def _within(numbers: Array, shares: Array, size: Dim, x: Array) -> tuple[Array, Array]:
    last = as_type(size_tensor(size - 1, [x, *sources()]), DType.f32)
    inside = ops.logical_and(ops.greater_equal(numbers, np.float32(0)), ops.less_equal(numbers, last))
    places = ops.minimum(ops.maximum(numbers, np.float32(0)), last)
    return as_type(places, DType.i32), ops.select_v2(inside, shares, np.float32(0))


def weighted_pixels(x: Array, image: Array, places: Array, shares: Array) -> Array:
    """Sums of pixels times their shares.

    x: f[n, c, h, w]; image: i32[k], of which each sum is; places: i32[k, p, s], among h * w pixels; shares:
    f32[k, p, s] -> f[k, p, c]
    """
    n, c, h, w = x.shape
    images = transposed(x, (0, 2, 3, 1))
    if same(n, 1) is True:
        pixels = ops.gather(shaped(images, (h * w, c), x, *sources()), places, axis=0)
    else:  # by the number of the image apart, so that it is seen to lie within n
        column = lower_unsqueeze(lower_unsqueeze(image, 1), 2)
        numbers = ops.pack(broadcast(column, tuple(places.shape)), places, axis=3)
        pixels = ops.gather_nd(shaped(images, (n, h * w, c), x, *sources()), numbers)
    sums = ops.batch_matmul(lower_unsqueeze(shares, 2), pixels)
    return shaped(sums, (places.shape[0], places.shape[1], c), sums, places, x, *sources())


def pixel_numbers(rows: Array, columns: Array, x: Array) -> Array:
    """The numbers of pixels of an image, of rows and columns that broadcast."""
    return ops.add(ops.mul(rows, size_tensor(x.shape[3], [x, *sources()])), columns)


@lowers_torch("aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d")
def lower_grid_sampler(x: Array, grid: Array, interpolation: int, padding: int, align_corners: bool) -> Array:
    """x: f[n, c, sizes…]; grid: f[n, places…, 2 or 3], from -1 to 1, the last axis of x first -> f[n, c, places…]"""
    n, c, *sizes = x.shape
    out_sizes = tuple(grid.shape[1:-1])
    count = product(out_sizes)
    flat = shaped(grid, (n, count, len(sizes)), grid, x, *sources())
    places: Array | None = None
    shares: Array | None = None
    for axis, size in enumerate(sizes):  # a pixel's number is that of its row times the length of a row, and so on
        place = lower_select(flat, 2, len(sizes) - 1 - axis)
        numbers, parts = _axis(place, size, x, interpolation, padding, align_corners)
        if places is None or shares is None:
            places, shares = numbers, parts
            continue
        length = size_tensor(size, [x, *sources()])
        places = ops.add(lower_unsqueeze(ops.mul(places, length), 3), lower_unsqueeze(numbers, 2))
        shares = ops.mul(lower_unsqueeze(shares, 3), lower_unsqueeze(parts, 2))
        each = places.shape[2] * places.shape[3]
        places, shares = (shaped(v, (n, count, each), grid, *sources()) for v in (places, shares))
    image = shaped(x, (n, c, product(tuple(sizes[:-1])), sizes[-1]), x, *sources()) if len(sizes) > 2 else x
    sampled = weighted_pixels(image, counted(n, x, *sources()), places, shares)
    axes = range(1, len(sizes) + 1)
    return transposed(shaped(sampled, (n, *out_sizes, c), grid, x, *sources()), (0, len(sizes) + 1, *axes))


def _axis(
    place: Array, size: Dim, x: Array, interpolation: int, padding: int, align_corners: bool
) -> tuple[Array, Array]:
    """The pixels along one axis, and their shares, for places from -1 to 1."""
    count = as_type(size_tensor(size, [x, *sources()]), DType.f32)
    last = ops.sub(count, np.float32(1))
    if align_corners:
        place = ops.mul(ops.mul(ops.add(place, np.float32(1)), np.float32(0.5)), last)
    else:
        place = ops.mul(ops.sub(ops.mul(ops.add(place, np.float32(1)), count), np.float32(1)), np.float32(0.5))

    def padded(place: Array) -> Array:
        if padding == _ZEROS:
            return place
        place = place if padding == _BORDER else _reflected(place, count, last, align_corners)
        return ops.minimum(ops.maximum(place, np.float32(0)), last)

    if interpolation == _BICUBIC:  # each of its pixels is padded by itself
        numbers, shares = _cubic_taps(place)
        return _within(padded(numbers), shares, size, x)
    place = padded(place)
    if interpolation == _NEAREST:
        return _within(lower_unsqueeze(ops.round_(place), rank(place)), scalar(1, x), size, x)
    return taps(place, size, x)


def _cubic_taps(place: Array) -> tuple[Array, Array]:
    """The four pixels around each place, and their shares by Keys' cubic.   f32[...] -> f32[..., 4], f32[..., 4]"""
    low = ops.floor(place)
    part = ops.sub(place, low)
    numbers = ops.add(lower_unsqueeze(low, rank(low)), np.arange(-1, 3, dtype=np.float32))
    distances = ops.abs_(ops.sub(lower_unsqueeze(part, rank(part)), np.arange(-1, 3, dtype=np.float32)))
    near = polynomial(distances, (_KEYS + 2, -(_KEYS + 3), 0, 1))
    far = polynomial(distances, (_KEYS, -5 * _KEYS, 8 * _KEYS, -4 * _KEYS))
    return numbers, ops.select_v2(ops.less_equal(distances, np.float32(1)), near, far)


def _reflected(place: Array, count: Array, last: Array, align_corners: bool) -> Array:
    """Places beyond the edges turned back: at the centres of the last pixels, or at their outer edges."""
    start, span = (np.float32(0), last) if align_corners else (np.float32(-0.5), count)
    beyond = ops.abs_(ops.sub(place, start))
    turns = ops.floor(ops.div(beyond, span))
    rest = ops.sub(beyond, ops.mul(turns, span))
    is_odd = ops.greater(
        ops.sub(turns, ops.mul(ops.floor(ops.mul(turns, np.float32(0.5))), np.float32(2))), np.float32(0)
    )
    return ops.add(ops.select_v2(is_odd, ops.sub(span, rest), rest), start)


@lowers_torch("aten.affine_grid_generator")
def lower_affine_grid(theta: Array, size: Sequence[Dim], align_corners: bool) -> Array:
    """theta: f[n, k, k + 1]; size: n, c and k sizes -> f[n, sizes…, k]"""
    n, _, *sizes = size
    if not all(isinstance(d, int) for d in sizes):
        raise LowerError("an affine grid of an open size", remedy="fix height and width")
    lines = [(2 * np.arange(d) + 1) / d - 1 if not align_corners else np.linspace(-1, 1, d) for d in sizes]
    corners = np.meshgrid(*lines, indexing="ij")[::-1]
    base = np.stack([*corners, np.ones(sizes)], -1).reshape(1, -1, len(sizes) + 1).astype(np.float32)
    wide = (
        base if isinstance(n, int) and n == 1 else ops.tile(base, ops.pack(size_tensor(n, [theta, *sources()]), 1, 1))
    )
    grid = ops.batch_matmul(wide, theta, adj_y=True)
    return shaped(grid, (n, *sizes, len(sizes)), theta, *sources())
