"""Images of another size: by TFLite's two resizes, or by products with matrices of weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.shapes import lower_unsqueeze, to_last, transposed
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import rank, type_of
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor, shaped
from jfuse.lowering.rules import DEFAULT, lowers_torch

Scales = Sequence[float] | None
Curve = Callable[[np.ndarray], np.ndarray]


def _sizes(x: Array, size: Sequence[Dim] | None, scales: Scales) -> tuple[Dim, ...]:
    old = x.shape[2:]
    if size is not None:
        return tuple(size)
    assert scales is not None
    return tuple(_scaled(d, s) for d, s in zip(old, scales, strict=True))


def _scaled(size: Dim, factor: float) -> Dim:
    if is_known(size):
        return int(np.floor(int(size) * factor))
    if float(factor).is_integer():
        return size * int(factor)
    if float(1 / factor).is_integer():
        return size // int(1 / factor)
    raise LowerError("an open size times a fraction", found=str(factor), remedy="fix height and width")


def _resized(name: str, x: Array, size: tuple[Dim, ...], **options: Any) -> Array:
    """TensorFlow's resize, of channels that are axis 1."""
    images = transposed(x, (0, 2, 3, 1))
    resized = DEFAULT.lowers[name](images, shape_tensor(size, [x, *sources()]), **options)
    return transposed(resized, (0, 3, 1, 2))


def _fit(old: Sequence[Dim], new: Sequence[Dim], scales: Scales) -> bool:
    """Whether the scales are the quotients of the sizes, which TFLite takes for granted."""
    if scales is None:
        return True
    known = all(map(is_known, (*old, *new)))
    return not known or all(abs(int(o) * s - int(n)) < 1e-6 for o, n, s in zip(old, new, scales, strict=True))


@lowers_torch("aten.upsample_nearest1d", "aten.upsample_nearest2d")
def lower_nearest(x: Array, size: Sequence[Dim] | None = None, scales: Any = None, *more: float) -> Array:
    """RESIZE_NEAREST_NEIGHBOR.   x: f[b, c, h, w], or f[b, c, w]"""
    factors = _listed(scales, more)
    new_sizes = _sizes(x, size, factors)
    if not _fit(x.shape[2:], new_sizes, factors):
        return _weighted(x, new_sizes, lambda o, n, s: _nearest(o, n, s), factors)
    if rank(x) == 3:
        resized = _resized("ResizeNearestNeighbor", lower_unsqueeze(x, 2), (1, *new_sizes))
        return shaped(resized, (*resized.shape[:2], resized.shape[3]), x, *sources())
    return _resized("ResizeNearestNeighbor", x, new_sizes)


@lowers_torch("aten._upsample_nearest_exact1d", "aten._upsample_nearest_exact2d")
def lower_nearest_exact(x: Array, size: Sequence[Dim] | None = None, scales: Any = None, *more: float) -> Array:
    """RESIZE_NEAREST_NEIGHBOR from the centres of pixels.   x: f[b, c, h, w], or f[b, c, w]"""
    factors = _listed(scales, more)
    new_sizes = _sizes(x, size, factors)
    if not _fit(x.shape[2:], new_sizes, factors):
        return _weighted(x, new_sizes, lambda o, n, s: _nearest(o, n, s, 0.5), factors)
    if rank(x) == 3:
        resized = lower_nearest_exact(lower_unsqueeze(x, 2), (1, *new_sizes))
        return shaped(resized, (*resized.shape[:2], resized.shape[3]), x, *sources())
    return _resized("ResizeNearestNeighbor", x, new_sizes, half_pixel_centers=True)


@lowers_torch("aten.upsample_nearest3d")
def lower_nearest_of_volumes(x: Array, size: Sequence[Dim] | None = None, scales: Any = None, *more: float) -> Array:
    """Three products with the shares of the elements.   x: f[b, c, d, h, w]"""
    factors = _listed(scales, more)
    return _weighted(x, _sizes(x, size, factors), lambda o, n, s: _nearest(o, n, s), factors)


@lowers_torch("aten.upsample_trilinear3d")
def lower_trilinear(
    x: Array, size: Sequence[Dim] | None, align_corners: bool, scales: Any = None, *more: float
) -> Array:
    """Three products with the shares of the elements.   x: f[b, c, d, h, w]"""
    factors = _listed(scales, more)

    def weights(old: int, new: int, scale: float | None) -> np.ndarray:
        return _linear(old, new, scale, align_corners)

    return _weighted(x, _sizes(x, size, factors), weights, None if align_corners else factors)


def _listed(scales: Any, more: Sequence[float]) -> Scales:
    if isinstance(scales, float) and None not in more:
        return [scales, *more]
    return scales if isinstance(scales, list | tuple) else None


@lowers_torch("aten.upsample_bilinear2d")
def lower_bilinear(
    x: Array, size: Sequence[Dim] | None, align_corners: bool, scales: Any = None, *more: float
) -> Array:
    """RESIZE_BILINEAR.   x: f[b, c, h, w]"""
    factors = _listed(scales, more)
    new_sizes = _sizes(x, size, factors)
    if align_corners or _fit(x.shape[2:], new_sizes, factors):
        return _resized(
            "ResizeBilinear", x, new_sizes, align_corners=align_corners, half_pixel_centers=not align_corners
        )
    return _weighted(x, new_sizes, _linear, factors)


@lowers_torch("aten.upsample_linear1d")
def lower_linear(x: Array, size: Sequence[Dim] | None, align_corners: bool, scales: Any = None) -> Array:
    """As an image of height 1.   x: f[b, c, w]"""
    new_sizes = _sizes(x, size, _listed(scales, ()))
    resized = lower_bilinear(lower_unsqueeze(x, 2), (1, *new_sizes), align_corners)
    return shaped(resized, (*resized.shape[:2], resized.shape[3]), x, *sources())


@lowers_torch("aten.upsample_bicubic2d")
def lower_bicubic(x: Array, size: Sequence[Dim] | None, align_corners: bool, scales: Any = None, *more: float) -> Array:
    """Two products with the weights of the bicubic filter, a = -0.75.   x: f[b, c, h, w]"""
    factors = _listed(scales, more)
    new_sizes = _sizes(x, size, factors)

    def weights(old: int, new: int, scale: float | None) -> np.ndarray:
        return _cubic(old, new, scale, align_corners)

    return _weighted(x, new_sizes, weights, None if align_corners else factors)


def _antialiased(name: str, curve: Curve, reach: int) -> None:
    def lower(x: Array, size: Sequence[Dim] | None, align_corners: bool, scales: Any = None, *more: float) -> Array:
        factors = _listed(scales, more)

        def weights(old: int, new: int, scale: float | None) -> np.ndarray:
            step = (old - 1) / max(new - 1, 1) if align_corners else old / new if scale is None else 1 / scale
            return _wide_filter(old, new, step, curve, reach)

        return _weighted(x, _sizes(x, size, factors), weights, None if align_corners else factors)

    lower.__doc__ = (
        "Two products with the weights of a filter as wide as an old pixel and a new one.   x: f[b, c, h, w]"
    )
    lowers_torch(f"aten._upsample_{name}2d_aa")(lower)


def _wide_filter(old: int, new: int, step: float, curve: Curve, reach: int) -> np.ndarray:
    """The weights of old pixels for new ones, that are `step` apart: f32[new, old]; each row adds up to 1.

    curve: the filter, of distances in pixels; reach: how far from 0 it is more than 0.
    Source: torch:aten/src/ATen/native/cpu/UpSampleKernel.cpp, _compute_indices_min_size_weights_aa
    """
    width = max(step, 1.0)
    centres = (np.arange(new) + 0.5)[:, None] * step
    pixels = np.arange(old)
    first, last = (np.trunc(np.maximum(centres + side * reach * width + 0.5, 0)) for side in (-1, 1))
    weights = np.where((pixels >= first) & (pixels < last), curve((pixels + 0.5 - centres) / width), 0)
    return np.asarray(weights / weights.sum(1, keepdims=True), np.float32)


def _triangle(distance: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(1 - np.abs(distance), 0))


def _keys(distance: np.ndarray) -> np.ndarray:
    """Keys' cubic, a = -0.5 where it is antialiased."""
    a, d = -0.5, np.abs(distance)
    far = np.where(d < 2, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, 0)
    return np.where(d < 1, ((a + 2) * d - (a + 3)) * d * d + 1, far)


_antialiased("bilinear", _triangle, 1)
_antialiased("bicubic", _keys, 2)


def _weighted(
    x: Array, size: Sequence[Dim], weights: Callable[[int, int, float | None], np.ndarray], scales: Scales
) -> Array:
    """x times a matrix of weights along each spatial axis."""
    if not all(map(is_known, (*x.shape[2:], *size))):
        raise LowerError("a resize by weights of an open size", found=str(type_of(x)), remedy="fix height and width")
    for number, new in enumerate(size):
        matrix = weights(int(x.shape[2 + number]), int(new), None if scales is None else scales[number])
        x = to_last(x, 2 + number, lambda v, m=matrix: matrix_product(v, m, False, True))  # type: ignore[misc]
    return x


def _centres(old: int, new: int, scale: float | None, align_corners: bool = False) -> np.ndarray:
    """Where new pixels lie among the old ones."""
    places = np.arange(new, dtype=np.float64)
    if align_corners:
        return places * ((old - 1) / (new - 1) if new > 1 else 0)
    return (places + 0.5) * (old / new if scale is None else 1 / scale) - 0.5


def _matrix(old: int, taps: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    matrix = np.zeros((len(taps[0][0]), old), np.float64)
    for places, weights in taps:
        np.add.at(matrix, (np.arange(len(places)), np.clip(places, 0, old - 1).astype(int)), weights)
    return matrix.astype(np.float32)


def _nearest(old: int, new: int, scale: float | None, centre: float = 0.0) -> np.ndarray:
    places = np.floor((np.arange(new) + centre) * (old / new if scale is None else 1 / scale))
    return _matrix(old, [(places, np.ones(new))])


def _linear(old: int, new: int, scale: float | None, align_corners: bool = False) -> np.ndarray:
    centres = np.maximum(_centres(old, new, scale, align_corners), 0)
    first = np.floor(centres)
    return _matrix(old, [(first, 1 - (centres - first)), (first + 1, centres - first)])


def _cubic(old: int, new: int, scale: float | None, align_corners: bool) -> np.ndarray:
    a = -0.75
    centres = _centres(old, new, scale, align_corners)
    first = np.floor(centres)
    t = centres - first

    def near(d: np.ndarray) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: np.ndarray) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return _matrix(old, [(first - 1, far(t + 1)), (first, near(t)), (first + 1, near(1 - t)), (first + 2, far(2 - t))])
