"""Random numbers. TFLite's streams start as TensorFlow's do, where seeds are given, and go on in another way."""

from __future__ import annotations

import math

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.quantile import lower_ndtri
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import is_constant, static
from jfuse.lowering.rule_tools.shape_tensors import size_tensor
from jfuse.lowering.rules import lowers

_TRUNCATED = 2.0  # standard deviations
EXACT = 1 << 23  # so many integers an f32 drawn from 0 to 1 can tell apart


@lowers("RandomUniform")
def lower_random_uniform(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = DType.f32) -> Array:
    """RANDOM_UNIFORM, which draws f32."""
    _need_f32(dtype)
    return ops.random_uniform(as_i32(shape), seed=seed, seed2=seed2)


@lowers("RandomStandardNormal")
def lower_random_standard_normal(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = DType.f32) -> Array:
    """RANDOM_STANDARD_NORMAL, which draws f32."""
    _need_f32(dtype)
    return ops.random_standard_normal(as_i32(shape), seed=seed, seed2=seed2)


@lowers("RandomUniformInt")
def lower_random_uniform_int(shape: Array, minval: Array, maxval: Array, *, seed: int = 0, seed2: int = 0) -> Array:
    """RANDOM_UNIFORM, scaled and rounded down; up to 2^23 integers, which is what an f32 can tell apart."""
    if not is_constant(minval) or not is_constant(maxval) or int(maxval) - int(minval) > EXACT:
        raise LowerError(
            "random integers from a range that is large, or computed at run time, have no TFLite spelling",
            expected=f"constants, at most {EXACT} apart",
        )
    drawn = ops.random_uniform(as_i32(shape), seed=seed, seed2=seed2)
    whole = ops.floor(ops.mul(drawn, np.float32(int(maxval) - int(minval))))
    return ops.add(ops.cast(whole, out_data_type=DType.of(minval.dtype)), minval)


@lowers("TruncatedNormal")
def lower_truncated_normal(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = DType.f32) -> Array:
    """Normal numbers between -2 and 2: the quantiles of uniform ones, where TensorFlow draws until one fits."""
    _need_f32(dtype)
    drawn = ops.random_uniform(as_i32(shape), seed=seed, seed2=seed2)
    below = math.erfc(_TRUNCATED / math.sqrt(2)) / 2
    quantiles = lower_ndtri(ops.add(ops.mul(drawn, np.float32(1 - 2 * below)), np.float32(below)))
    return ops.minimum(ops.maximum(quantiles, np.float32(-_TRUNCATED)), np.float32(_TRUNCATED))


@lowers("RandomShuffle")
def lower_random_shuffle(value: Array, *, seed: int = 0, seed2: int = 0) -> Array:
    """The rows in the order of random numbers, found by TOPK_V2."""
    size = size_tensor(value.shape[0], [value])
    drawn = ops.random_uniform(ops.reshape(size, np.ones(1, np.int32)), seed=seed, seed2=seed2)
    return ops.gather(value, ops.topk_v2(drawn, size)[1], axis=0)


@lowers("Multinomial")
def lower_multinomial(
    logits: Array, num_samples: Array, *, seed: int = 0, seed2: int = 0, output_dtype: DType = DType.i64
) -> Array:
    """MULTINOMIAL of f32."""
    _need_f32(DType.of(logits.dtype))
    samples = static(num_samples, "num_samples")
    if not is_known(samples):
        raise LowerError("the number of samples follows from an open size")
    return ops.multinomial(logits, np.asarray(samples, np.int32), seed=seed, seed2=seed2, output_type=output_dtype)


def _need_f32(dtype: DType) -> None:
    if dtype is not DType.f32:
        raise LowerError(f"random numbers of {dtype.value} have no TFLite operator", expected="f32")
