"""Images read at places between their pixels: GATHER of the pixels around each place, and a product with weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfuse.errors import LowerError
from jfuse.ir.dims import Dim, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import broadcast
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.shapes import lower_select, lower_unsqueeze, transposed
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped, size_tensor
from jfuse.lowering.rules import lowers_torch

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER = 0, 1
"""PyTorch's numbers of modes of interpolation, and of padding; 2 is reflection."""


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
    found = ops.batch_matmul(lower_unsqueeze(shares, 2), pixels)
    return shaped(found, (places.shape[0], places.shape[1], c), found, places, x, *sources())


def pixel_numbers(rows: Array, columns: Array, x: Array) -> Array:
    """The numbers of pixels of an image, of rows and columns that broadcast."""
    return ops.add(ops.mul(rows, size_tensor(x.shape[3], [x, *sources()])), columns)


@lowers_torch("aten.grid_sampler", "aten.grid_sampler_2d")
def lower_grid_sampler(x: Array, grid: Array, interpolation: int, padding: int, align_corners: bool) -> Array:
    """x: f[n, c, h, w]; grid: f[n, p, q, 2], x and y from -1 to 1 -> f[n, c, p, q]"""
    if rank(x) != 4 or interpolation not in (_BILINEAR, _NEAREST):
        raise LowerError(
            "grid_sample of volumes, or by the bicubic filter", remedy='images, with mode="bilinear" or "nearest"'
        )
    n, c, h, w = x.shape
    p, q = grid.shape[1:3]
    flat = shaped(grid, (n, p * q, 2), grid, x, *sources())
    columns, rows = (
        _axis(lower_select(flat, 2, i), size, x, interpolation, padding, align_corners) for i, size in ((0, w), (1, h))
    )
    count = 4 if interpolation == _BILINEAR else 1
    places = pixel_numbers(lower_unsqueeze(rows[0], 3), lower_unsqueeze(columns[0], 2), x)
    shares = ops.mul(lower_unsqueeze(rows[1], 3), lower_unsqueeze(columns[1], 2))
    shape = (n, p * q, count)
    flat_places, flat_shares = (shaped(v, shape, grid, *sources()) for v in (places, shares))
    found = weighted_pixels(x, counted(n, x, *sources()), flat_places, flat_shares)
    return transposed(shaped(found, (n, p, q, c), grid, x, *sources()), (0, 3, 1, 2))


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
    if padding != _ZEROS:
        place = place if padding == _BORDER else _reflected(place, count, last, align_corners)
        place = ops.minimum(ops.maximum(place, np.float32(0)), last)
    if interpolation == _NEAREST:
        return _within(lower_unsqueeze(ops.round_(place), rank(place)), scalar(1, x), size, x)
    return taps(place, size, x)


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
    """theta: f[n, 2, 3]; size: n, c, h, w -> f[n, h, w, 2]"""
    if len(size) != 4 or not all(isinstance(d, int) for d in size[2:]):
        raise LowerError("an affine grid of an open size, or of a volume", remedy="fix height and width")
    n, _, h, w = size
    rows, columns = ((2 * np.arange(d) + 1) / d - 1 if not align_corners else np.linspace(-1, 1, d) for d in (h, w))
    ones = np.ones((h, w))
    base = np.stack([ones * columns, ones * rows[:, None], ones], -1).reshape(1, h * w, 3).astype(np.float32)
    wide = (
        base if isinstance(n, int) and n == 1 else ops.tile(base, ops.pack(size_tensor(n, [theta, *sources()]), 1, 1))
    )
    found = ops.batch_matmul(wide, theta, adj_y=True)
    return shaped(found, (n, h, w, 2), theta, *sources())
