"""Constants in integers or f16: their scales, and their quantized numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Const
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType
from jfuse.quantization.recipe import QuantizeRule
from jfuse.tflite.runtime.quantized import Granularity

# Weights that already lie on a grid, as training with quantization or an integer file left them.
# Such weights keep their values: the grid is read from the numbers themselves, so that it does not matter which
# passes moved, split or scaled them on the way.

_OFF = 1e-3
"""How far from a step a number may lie, in steps: a few roundings of f32 at 255 steps from zero stay below 1e-4. What
lies on a grid by chance is no worse off than otherwise, where half a step is lost."""
_PROBED = 16  # numbers of each channel that are looked at before all are


def grid_scale(array: np.ndarray, axes: tuple[int, ...], last: int) -> np.ndarray:
    """Find the finest step that divides all numbers along `axes`, at most `last` steps from zero: f32, 0 for none.

    A grid with one more step on the negative side counts where there is no other: its end is cut off by one step.
    axes: they stay with size 1 in the result.
    """
    axes = tuple(axis % array.ndim for axis in axes)
    row_axes = [i for i in range(array.ndim) if i not in axes]
    rows = np.transpose(array, (*row_axes, *axes)).reshape(int(np.prod([array.shape[i] for i in row_axes])), -1)
    shape = [1 if i in axes else size for i, size in enumerate(array.shape)]
    return _of_rows(rows.astype(np.float64), last).astype(np.float32).reshape(shape)


def _of_rows(rows: np.ndarray, last: int) -> np.ndarray:
    """The same of each row: f64[n]."""
    largest = np.abs(rows).max(axis=1, initial=0)
    scales = np.zeros(len(rows))
    probes = rows[:, :: max(rows.shape[1] // _PROBED, 1)] if rows.size else rows
    left = np.flatnonzero(largest > 0)
    for steps in (*range(last, 0, -1), last + 1):
        near = left[_are_steps(probes[left], largest[left] / steps)]
        near = near[_are_steps(rows[near], largest[near] / steps)]
        if steps > last:
            near = near[rows[near].max(axis=1, initial=0) < largest[near]]
        scales[near] = largest[near] / steps
        left = left[scales[left] == 0]
    return scales


def _are_steps(rows: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Which rows hold multiples of their step alone: bool[n]."""
    steps = rows / step[:, None]
    near: np.ndarray = np.abs(steps - np.rint(steps)).max(axis=1, initial=0) < _OFF
    return near


LAST_STEP = {DType.i2: 1, DType.i4: 7, DType.i8: 127, DType.i16: 2**15 - 1, DType.i32: 2**31 - 1, DType.i64: 2**62}
"""The largest number of steps from zero to either side, of symmetric types: the lowest integer is not used."""
BIAS = {DType.i8: DType.i32, DType.i16: DType.i64}
"""The type of a bias beside activations."""
_CLIPPED = np.linspace(1, 0.5, 21)  # which shares of the largest weight "mse" tries as the last step
_DAMPING = 0.01  # of the mean square of a term, which keeps terms that hang together apart
_TERMS_AT_ONCE = 128  # after which the others are brought up to date: one product of matrices for many of vectors
_SAME = np.float32(1)  # scale of a tensor of zeros, of which any scale tells the truth


def weights_in(
    const: Const,
    rule: QuantizeRule,
    granularity: Granularity,
    *,
    axis: int = 0,
    least_scale: np.ndarray | None = None,
    moments: np.ndarray | None = None,
) -> Const:
    """Weights as integers of a rule, symmetric about zero.

    const: f32[...], of finite numbers. axis: of the channels. A block of the rule is so many neighbours along the last
    axis, which it divides. least_scale: f64[channels], scales may be greater but not smaller. moments:
    f64[terms + 1, terms + 1] of the rows that the weights of the first axis are multiplied with, to round them in turn.
    """
    dtype, algorithm, block_size = rule.weights, rule.weight_algorithm, rule.block_size
    array = np.asarray(const.array, np.float32)
    if granularity == "block":
        return _in_blocks(const, array, dtype, block_size, algorithm, moments)
    channel_axes = (axis,) if granularity == "channel" and array.ndim else ()
    others = tuple(i for i in range(array.ndim) if i not in channel_axes)
    scale = _scale(array, others, dtype, algorithm, _importance(moments, array.shape[1:]))
    if least_scale is not None:
        shape = [-1 if i in channel_axes else 1 for i in range(array.ndim)]
        least = least_scale if channel_axes else np.max(least_scale)
        scale = np.maximum(scale, np.reshape(least, shape) if channel_axes else least).astype(np.float32)
    quantization = Quantization(tuple(scale.ravel().tolist()), (0,), axis if channel_axes else 0)
    return Const(_steps(array, scale, dtype, moments), const.name, quantization)


def _in_blocks(
    const: Const, array: np.ndarray, dtype: DType, block_size: int, algorithm: str, moments: np.ndarray | None
) -> Const:
    blocks = array.reshape(*array.shape[:-1], -1, block_size)
    # Scales are f16 in the file, and a scale of 0 would lose what is there.
    least = np.float16(np.finfo(np.float16).smallest_subnormal)
    importance = _importance(moments, blocks.shape[1:])
    scale = np.maximum(_scale(blocks, (-1,), dtype, algorithm, importance).astype(np.float16), least)
    steps = _steps(blocks, scale.astype(np.float32), dtype, moments).reshape(array.shape)
    of_blocks = tuple(scale.astype(np.float32).ravel().tolist())
    return Const(steps, const.name, Quantization((), (), 0, block_size=block_size, block_scale=of_blocks))


def _importance(moments: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """How much the square of an error of each weight counts in the results."""
    return None if moments is None else np.diag(moments)[:-1].reshape(shape)


def _scale(
    array: np.ndarray, axes: tuple[int, ...], dtype: DType, algorithm: str, importance: np.ndarray | None
) -> np.ndarray:
    """One scale for all along `axes`, which stay with size 1; never 0. That of a grid on which they lie, if any."""
    largest = np.abs(array).max(axis=axes, keepdims=True, initial=0).astype(np.float32)
    common = largest.max(initial=0) or _SAME
    scale = np.where(largest > 0, largest, common) / np.float32(LAST_STEP[dtype])
    scale = np.maximum(scale, np.finfo(np.float32).tiny).astype(np.float32)
    grid = grid_scale(array, axes, LAST_STEP[dtype])
    scale = np.where(grid >= np.finfo(np.float32).tiny, grid, scale)
    if algorithm == "minmax" or np.all(grid > 0):
        return scale
    weighed = 1.0 if importance is None else importance
    errors = [_error(array, scale * share, dtype, axes, weighed) for share in _CLIPPED]
    best: np.ndarray = scale * _CLIPPED[np.argmin(errors, axis=0)].astype(np.float32)
    return np.where(grid > 0, scale, best)


def _error(array: np.ndarray, scale: np.ndarray, dtype: DType, axes: tuple[int, ...], weighed: Any) -> np.ndarray:
    squared = np.square(_rounded(array, scale, dtype) * scale - array) * weighed
    error: np.ndarray = squared.sum(axis=axes, keepdims=True)
    return error


def _rounded(array: np.ndarray, scale: np.ndarray, dtype: DType) -> np.ndarray:
    last = LAST_STEP[dtype]
    clipped: np.ndarray = np.clip(np.rint(array / scale), -last, last)
    return clipped


def _steps(array: np.ndarray, scale: np.ndarray, dtype: DType, moments: np.ndarray | None) -> np.ndarray:
    if moments is None:
        return _rounded(array, scale, dtype).astype(dtype.numpy)
    rows, scales = (a.reshape(len(array), -1) for a in (array, np.broadcast_to(scale, array.shape)))
    return rounded_in_turn(rows, scales, LAST_STEP[dtype], moments).reshape(array.shape).astype(dtype.numpy)


def rounded_in_turn(array: np.ndarray, scale: np.ndarray, last: int, moments: np.ndarray) -> np.ndarray:
    """Weights as whole steps such that the results of the product are off by little: f64[outputs, terms].

    array: f[outputs, terms]; scale: of each weight, f[outputs, terms] or so that it broadcasts. last: the largest
    number of steps on either side of 0. moments: f64[terms + 1, terms + 1], as `Moments` keeps them: of the rows that
    the weights are multiplied with. Terms with large squares come first. Where there are few rows, how two terms hang
    together in them says little of other rows, and counts less.
    Source: "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers" (Frantar et al., 2022)
    """
    squares, rows = moments[:-1, :-1], moments[-1, -1]
    sizes, terms = np.diag(squares), len(squares)
    order = np.argsort(-sizes, kind="stable")
    scale = np.broadcast_to(np.asarray(scale, np.float64), array.shape)[:, order]
    left = np.asarray(array, np.float64)[:, order]
    damped = squares[np.ix_(order, order)] + np.eye(terms) * ((_DAMPING + terms / rows) * sizes.mean() or 1.0)
    # Row i of the Cholesky factor of the inverse says how the terms after i make up best for an error in term i, once
    # those before it are fixed.
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T
    steps = np.empty_like(left)
    for start in range(0, terms, _TERMS_AT_ONCE):
        end = min(start + _TERMS_AT_ONCE, terms)
        errors = np.empty((len(left), end - start))
        for i in range(start, end):
            steps[:, i] = np.clip(np.rint(left[:, i] / scale[:, i]), -last, last)
            error = (left[:, i] - steps[:, i] * scale[:, i]) / upper[i, i]
            left[:, i + 1 : end] -= np.outer(error, upper[i, i + 1 : end])
            errors[:, i - start] = error
        # The terms behind the block get its corrections in one product: the same numbers, far fewer passes over them.
        left[:, end:] -= errors @ upper[start:end, end:]
    rounded = np.empty_like(steps)
    rounded[:, order] = steps
    return rounded


def bias_in(const: Const, scale: np.ndarray, dtype: DType) -> Const:
    """A bias as i32 or i64, of the scale of the products that it is added to.   scale: f64[n] or f64[1]"""
    last = LAST_STEP[dtype]
    steps = np.clip(np.rint(const.array.astype(np.float64) / scale), -last, last)
    return Const(steps.astype(dtype.numpy), const.name, Quantization(tuple(scale.tolist()), (0,), 0))


def least_scale(bias: Const, input_scale: float, dtype: DType) -> np.ndarray:
    """The least scales of weights, by channel, with which the bias stays in half the range of its type: f64[n]."""
    largest: np.ndarray = np.abs(bias.array.astype(np.float64)) / (input_scale * (LAST_STEP[dtype] / 2))
    return largest


def activations_in(const: Const, dtype: DType, quantization: Quantization) -> Const:
    """A constant operand in the type and scale that the kernel has for it: one scale for all."""
    info = np.iinfo(dtype.numpy)
    steps = np.rint(const.array.astype(np.float64) / quantization.scale[0]) + quantization.zero_point[0]
    return Const(np.clip(steps, info.min, info.max).astype(dtype.numpy), const.name, quantization)


def in_halves(const: Const) -> Const | None:
    """A constant in f16; None where a number is too large for it."""
    with np.errstate(over="ignore"):
        array: np.ndarray[Any, Any] = const.array.astype(np.float16)
    return Const(array, const.name) if np.array_equal(np.isfinite(array), np.isfinite(const.array)) else None
