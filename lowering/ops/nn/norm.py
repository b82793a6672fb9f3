"""Batch normalization, one multiplication and one addition where the statistics are constants; LRN."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from jfuse.ir.dims import Dim, is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import size_of
from jfuse.lowering.rules import lowers


@dataclass(frozen=True)
class BatchNormAttributes:
    """The attributes of FusedBatchNorm and its later versions.

    exponential_avg_factor: the weight of the batch in the new mean and variance.
    """

    epsilon: float = 1e-4
    exponential_avg_factor: float = 1.0
    data_format: str = "NHWC"
    is_training: bool = True


@lowers("FusedBatchNorm", "FusedBatchNormV2")
def lower_fused_batch_norm(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *, how: BatchNormAttributes
) -> tuple[Array, ...]:
    """x: f[..., c] (or f[b, c, ...]); the others f32[c]. -> y, the new mean and variance, and those of the batch.

    16-bit images are normalized in f32, as TensorFlow does it. In inference TensorFlow leaves the last two undefined.
    """
    channel = how.data_format.index("C")
    image = x if dtype(x) is dtype(scale) else ops.cast(x, out_data_type=dtype(scale))
    if how.is_training:
        y, batch_mean, batch_variance = _by_batch(image, scale, offset, how.epsilon, channel)
        unbiased = ops.mul(batch_variance, _correction(image, channel))
        new_mean = _moved(mean, batch_mean, how.exponential_avg_factor)
        new_variance = _moved(variance, unbiased, how.exponential_avg_factor)
        statistics = (new_mean, new_variance, batch_mean, batch_variance)
    else:
        y = _by_given(image, scale, offset, mean, variance, how.epsilon, channel)
        statistics = (mean, variance, mean, variance)
    return (y if dtype(x) is dtype(scale) else ops.cast(y, out_data_type=dtype(x))), *statistics


@lowers("FusedBatchNormV3")
def lower_fused_batch_norm_v3(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *, how: BatchNormAttributes
) -> tuple[Array, ...]:
    """As FusedBatchNormV2, and a zero for what the gradient on GPUs keeps."""
    results = lower_fused_batch_norm.function(x, scale, offset, mean, variance, how=how)
    return *results, np.zeros((), dtype(scale).numpy)


@lowers("LRN")
def lower_lrn(x: Array, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5) -> Array:
    """x / (bias + alpha * s)^beta, s the sum of squares of the channels around.   f[b,h,w,c] -> f[b,h,w,c]"""
    if min(bias, alpha) < 0 and float(beta).is_integer() and beta != 1:
        # TensorFlow takes the logarithm of the sum unless beta is 1 or 0.5, so that a negative one gives NaN. LiteRT
        # takes the power, which is NaN too where the exponent is no integer: the next float is none.
        beta = float(np.nextafter(np.float32(beta), np.float32(np.inf)))
        beta = max(beta, float(np.finfo(np.float32).tiny)) if beta > 0 else beta
    return ops.local_response_normalization(x, radius=depth_radius, bias=bias, alpha=alpha, beta=beta)


def _by_given(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, epsilon: float, channel: int
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, one MUL and one ADD where those are constants."""
    if all(map(is_constant, (scale, offset, mean, variance))):
        # In double precision: the offset is a difference of numbers that may be much larger than itself.
        wide = [np.asarray(v, np.float64) for v in (scale, offset, mean, variance)]
        factor = wide[0] / np.sqrt(wide[3] + np.float32(epsilon))
        shift = wide[1] - wide[2] * factor
        factor, shift = (_spread(v.astype(dtype(scale).numpy), x, channel) for v in (factor, shift))
        return ops.add(ops.mul(x, factor), shift)
    factor = ops.mul(ops.rsqrt(ops.add(variance, scalar(epsilon, variance))), scale)
    centred = ops.sub(x, _spread(mean, x, channel))
    return ops.add(ops.mul(centred, _spread(factor, x, channel)), _spread(offset, x, channel))


def _by_batch(x: Array, scale: Array, offset: Array, epsilon: float, channel: int) -> tuple[Array, Array, Array]:
    """x normalized by the mean and the variance of its own channels, and these."""
    axes = np.array([a for a in range(rank(x)) if a != channel], np.int32)
    mean = ops.mean(x, axes, keep_dims=True)
    centred = ops.sub(x, mean)
    variance = ops.mean(ops.square(centred), axes, keep_dims=True)
    factor = ops.mul(ops.rsqrt(ops.add(variance, scalar(epsilon, variance))), _spread(scale, x, channel))
    y = ops.add(ops.mul(centred, factor), _spread(offset, x, channel))
    return y, *(ops.reshape(v, (_count(x.shape[channel]),)) for v in (mean, variance))


def _spread(vector: Array, x: Array, channel: int) -> Array:
    """One value per channel, broadcast against the image."""
    behind = rank(x) - 1 - channel
    return ops.reshape(vector, (_count(vector.shape[0]), *(1,) * behind)) if behind else vector


def _count(channels: Dim) -> int:
    """The number of channels as RESHAPE takes it. It is open where a batch of rows is normalized row by row."""
    return int(channels) if is_known(channels) else -1


def _moved(old: Array, new: Array, weight: float) -> Array:
    """The moving average. With a weight of 1 `old` may be empty."""
    if weight == 1:
        return new
    return ops.add(ops.mul(old, scalar(1 - weight, old)), ops.mul(new, scalar(weight, new)))


def _correction(x: Array, channel: int) -> Array:
    """n / (n - 1) for n elements of a channel: what makes an estimate of the variance unbiased."""
    axes = [a for a in range(rank(x)) if a != channel]
    sizes = [np.asarray(int(x.shape[a]), np.int32) if is_known(x.shape[a]) else size_of(x, a) for a in axes]
    count = ops.cast(reduce(ops.mul, sizes), out_data_type=DType.f32)
    return ops.div(count, ops.maximum(ops.sub(count, scalar(1, count)), scalar(1, count)))
