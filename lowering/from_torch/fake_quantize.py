"""Values as a quantized tensor could hold them, as training with quantization leaves them."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.shapes import from_front
from jfuse.lowering.rule_tools.query import is_constant, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import DEFAULT, lowers_torch

_MOST_BITS = 16


@lowers_torch("aten.fake_quantize_per_tensor_affine")
def lower_fake_quantize(x: Array, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Array:
    """FAKE_QUANT where the range is known and has the steps of so many bits; else the same arithmetic."""
    how = _bits(quant_min, quant_max)
    if how is None or not (is_constant(scale) and is_constant(zero_point)):
        return _rounded(x, as_type(scale, DType.f32), as_type(zero_point, DType.f32), quant_min, quant_max)
    step, zero = np.float32(np.asarray(scale).item()), int(np.asarray(zero_point).item())
    bounds = (np.float32(step * (end - zero)) for end in (quant_min, quant_max))
    bits, is_narrow = how
    return DEFAULT.lowers["FakeQuantWithMinMaxVars"](x, *bounds, num_bits=bits, narrow_range=is_narrow)


@lowers_torch(
    "aten.fake_quantize_per_tensor_affine_cachemask", "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams"
)
def lower_fake_quantize_with_mask(x: Array, scale: Any, zero_point: Any, *limits: Any) -> Any:
    """As fake_quantize_per_tensor_affine; nobody may ask for the mask, which is of gradients.

    limits: the least and the greatest integer, behind whether it is done where that is an operand.
    """
    rounded = lower_fake_quantize(x, scale, zero_point, *limits[-2:])
    return (rounded if len(limits) == 2 else _where_enabled(limits[0], rounded, x)), None


def _where_enabled(flag: Array, rounded: Array, x: Array) -> Array:
    if is_constant(flag):
        return rounded if np.asarray(flag).item() else x
    return ops.select_v2(ops.not_equal(flag, scalar(0, flag)), rounded, x)


@lowers_torch("aten.fake_quantize_per_channel_affine")
def lower_fake_quantize_per_channel(
    x: Array, scale: Array, zero_point: Array, axis: int, quant_min: int, quant_max: int
) -> Array:
    """The nearest of the steps of each channel."""
    column = tuple(x.shape[i] if i == from_front(axis, x) else 1 for i in range(rank(x)))
    step, zero = (shaped(as_type(v, DType.f32), column, x) for v in (scale, zero_point))
    return _rounded(x, step, zero, quant_min, quant_max)


@lowers_torch("aten.fake_quantize_per_channel_affine_cachemask")
def lower_fake_quantize_per_channel_with_mask(
    x: Array, scale: Array, zero_point: Array, axis: int, quant_min: int, quant_max: int
) -> Any:
    """As fake_quantize_per_channel_affine; nobody may ask for the mask, which is of gradients."""
    return lower_fake_quantize_per_channel(x, scale, zero_point, axis, quant_min, quant_max), None


@lowers_torch("aten._fused_moving_avg_obs_fq_helper_functional")
def lower_observed(
    x: Array,
    observes: Array,
    is_on: Array,
    low: Array,
    high: Array,
    scale: Array,
    zero_point: Array,
    share: float,
    *rounding: Any,
) -> Any:
    """fake_quantize with the scale that an observer, which has to be off, has found.

    rounding: the least and the largest integer, the axis, whether it is by channel, and whether it is symmetric.
    """
    if not is_constant(observes) or np.asarray(observes).item():
        raise LowerError(
            "an observer of ranges that is on", remedy="module.apply(torch.ao.quantization.disable_observer)"
        )
    *limits, axis = rounding[:3]
    if len(rounding) > 3 and rounding[3]:
        rounded = lower_fake_quantize_per_channel(x, scale, zero_point, axis, *limits)
    else:
        rounded = lower_fake_quantize(x, scale, zero_point, *limits)
    return _where_enabled(is_on, rounded, x), None, low, high, scale, zero_point


def _bits(low: int, high: int) -> tuple[int, bool] | None:
    """How many bits integers from low to high have, and whether they lack one; None where that is no type."""
    for bits in range(2, _MOST_BITS + 1):
        if high - low + 1 in (2**bits, 2**bits - 1):
            return bits, high - low + 1 < 2**bits
    return None


def _rounded(x: Array, step: Array, zero: Array, low: int, high: int) -> Array:
    """Rounded as PyTorch does: halves to even integers, before the zero point is added."""
    steps = ops.add(ops.round_(ops.mul(x, ops.div(scalar(1, x), step))), zero)
    cut = ops.minimum(ops.maximum(steps, scalar(low, x)), scalar(high, x))
    return ops.mul(ops.sub(cut, zero), step)
