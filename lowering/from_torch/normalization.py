"""Normalizations over channels, which are axis 1, and over last axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, product
from jfuse.ir.graph import Const, Eqn
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.shapes import transposed
from jfuse.lowering.rule_tools.behind import eqns_behind
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import lowers_torch


def _scaled(x: Array, axes: Sequence[int], eps: float) -> Array:
    """x less its mean over axes, divided by its deviation."""
    over = np.asarray(axes, np.int32)
    centred = ops.sub(x, ops.mean(x, over, keep_dims=True))
    variance = ops.mean(ops.mul(centred, centred), over, keep_dims=True)
    return ops.mul(centred, ops.rsqrt(ops.add(variance, scalar(eps, x))))


def _affine(x: Array, weight: Array | None, bias: Array | None) -> Array:
    x = x if weight is None else ops.mul(x, weight)
    return x if bias is None else ops.add(x, bias)


def _of_channels(v: Array | None, x: Array) -> Any:
    """One number for each channel, as x broadcasts with it."""
    return None if v is None else shaped(v, (v.shape[0], *[1] * (rank(x) - 2)))


@lowers_torch("aten._native_batch_norm_legit_no_training")
def lower_batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array | None,
    variance: Array | None,
    momentum: float,
    eps: float,
) -> Any:
    """One MUL and one ADD, of statistics that are constants; nobody may ask for those of the batch."""
    if mean is None or variance is None:
        raise LowerError("a batch norm of the batch's own statistics", remedy="track_running_stats=True")
    if any(v is not None and not is_constant(v) for v in (weight, bias, mean, variance)):
        raise LowerError("a batch norm whose statistics are computed", remedy="keep them in the module")
    wide = [None if v is None else np.asarray(v, np.float64) for v in (weight, bias, mean, variance)]
    factor = 1 / np.sqrt(wide[3] + eps)  # type: ignore[operator]
    factor = factor if wide[0] is None else factor * wide[0]
    offset = -wide[2] * factor + (0 if wide[1] is None else wide[1])  # type: ignore[operator]
    factor, offset = (np.asarray(v, dtype(x).numpy) for v in (factor, offset))
    return _affine(x, _of_channels(factor, x), _of_channels(offset, x)), None, None


@lowers_torch("aten.layer_norm")
def lower_layer_norm(
    x: Array,
    sizes: Sequence[Dim],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    cudnn: bool = True,
) -> Array:
    """Over the last axes, as many as `sizes`."""
    axes = range(rank(x) - len(sizes), rank(x))
    return _affine(_scaled(x, list(axes), eps), weight, bias)


@lowers_torch("aten.native_layer_norm")
def lower_native_layer_norm(
    x: Array, sizes: Sequence[Dim], weight: Array | None, bias: Array | None, eps: float
) -> Any:
    """As layer_norm; nobody may ask for the statistics."""
    return lower_layer_norm(x, sizes, weight, bias, eps), None, None


@lowers_torch("aten.rms_norm")
def lower_rms_norm(x: Array, sizes: Sequence[Dim], weight: Array | None = None, eps: float | None = None) -> Array:
    """x divided by the root of its mean square over the last axes."""
    axes = np.arange(rank(x) - len(sizes), rank(x), dtype=np.int32)
    least = float(np.finfo(dtype(x).numpy).eps) if eps is None else eps
    mean = ops.mean(ops.mul(x, x), axes, keep_dims=True)
    return _affine(ops.mul(x, ops.rsqrt(ops.add(mean, scalar(least, x)))), weight, None)


@lowers_torch("aten.group_norm")
def lower_group_norm(
    x: Array,
    groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    cudnn: bool = True,
) -> Array:
    """Over the channels of a group and all that follows, with channels where x has them.   x: f[b, c, ...]"""
    batch, channels, *rest = x.shape
    if not _had_channels_last(x):
        parts = shaped(x, (batch, groups, channels // groups * product(tuple(rest))), x, *sources())
        normalized = shaped(_scaled(parts, (2,), eps), tuple(x.shape), x, *sources())
        return _affine(normalized, _of_channels(weight, x), _of_channels(bias, x))
    order = [0, *range(2, rank(x)), 1]
    last = transposed(x, order)
    parts = shaped(last, (batch, product(tuple(rest)), groups, channels // groups), x, *sources())
    normalized = shaped(_scaled(parts, (1, 3), eps), tuple(last.shape), x, *sources())
    return transposed(_affine(normalized, weight, bias), [int(i) for i in np.argsort(order)])


_KEEP_AXES = ("joins", "splits", "takes")
"""How operators move entries that leave the order of axes as it is."""


def _had_channels_last(x: Array) -> bool:
    """Whether what x is computed from had its channels last, as convolutions give them: moves that then cancel out."""
    return any(map(_puts_channels_second, eqns_behind(x, _in_the_same_order)))


def _in_the_same_order(eqn: Eqn) -> Sequence[object]:
    return eqn.inputs if eqn.op.elementwise or eqn.op.moves in _KEEP_AXES else ()


def _puts_channels_second(eqn: Eqn) -> bool:
    order = eqn.inputs[1] if eqn.op is ops.transpose else None
    return isinstance(order, Const) and order.array.size > 2 and bool(order.array[1] == order.array.size - 1)


@lowers_torch("aten.native_group_norm")
def lower_native_group_norm(
    x: Array, weight: Array | None, bias: Array | None, n: Any, c: Any, size: Any, groups: int, eps: float
) -> Any:
    """As group_norm; nobody may ask for the means and deviations."""
    return lower_group_norm(x, groups, weight, bias, eps), None, None


@lowers_torch("aten.instance_norm")
def lower_instance_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array | None,
    variance: Array | None,
    use_input: bool,
    momentum: float,
    eps: float,
    cudnn: bool,
) -> Array:
    """Each channel over all that follows; or by statistics that are kept."""
    if not use_input:
        normalized: Array = lower_batch_norm(x, weight, bias, mean, variance, momentum, eps)[0]
        return normalized
    return _affine(_scaled(x, range(2, rank(x)), eps), _of_channels(weight, x), _of_channels(bias, x))
