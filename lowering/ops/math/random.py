"""Random numbers: those that the runtime draws, and those that follow from a seed alone.

The latter are TensorFlow's bit by bit: Philox 4x32-10 in integers.

Words of 32 bits are i32, which wrap around in LiteRT. Where a word is multiplied it is made an i64 of 0 to 2^32 - 1.
Sources: tsl/lib/random/philox_random.h, tensorflow/core/kernels/random_ops_util.h and stateless_random_ops_v2.cc.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.quantile import lower_ndtri
from jfuse.lowering.rule_tools.operands import all_known, as_i32, known_sizes, sizes_operand
from jfuse.lowering.rule_tools.query import dtype, is_constant, static, type_of
from jfuse.lowering.rule_tools.shape_tensors import size_tensor
from jfuse.lowering.rules import lowers

_ROUNDS = 10
_FACTORS = np.array([0xD2511F53 - 2**32, 0xCD9E8D57 - 2**32], np.int64)  # less 2^32: products stay below 2^63
_KEY_STEPS = np.array([0x9E3779B9, 0xBB67AE85], np.uint32).view(np.int32)
_SCRAMBLING_KEY = np.array([0x3EC8F720, 0x02461E29], np.int32)
_LEAST_UNIFORM = np.float32(1e-7)  # what Box and Muller's logarithm is taken of
_MANTISSA = np.int32(1 << 23)
_THREEFRY = 2  # of tensorflow::RNG_ALG_*; 3 is Philox on CPUs
_COUNTED = DType.i64


def _philox(counters: Array, key: Array) -> Array:
    """Four words for each counter.   counters: i64[n,2], the low half first; key: i32[2] -> i32[n,4]"""
    even, odd = _halves(ops.bitcast(counters, out_data_type=DType.i32))

    def turned(turn: Array, even: Array, odd: Array, key: Array) -> tuple[Array, ...]:
        wide = ops.cast(ops.bitcast(even, out_data_type=DType.u32), out_data_type=_COUNTED)
        low, high = _halves(ops.bitcast(ops.mul(wide, _FACTORS), out_data_type=DType.i32))
        high = ops.add(high, even)  # the 2^32 that the factors lack
        mixed = ops.bitwise_xor(ops.bitwise_xor(_swapped(high), odd), key)
        return ops.add(turn, np.int32(1)), mixed, _swapped(low), ops.add(key, _KEY_STEPS)

    carried = np.int32(0), even, odd, key
    types = [type_of(v) for v in carried]
    cond = trace_graph(lambda turn, *_: ops.less(turn, np.int32(_ROUNDS)), types, name="cond")
    _, even, odd, _ = ops.while_(carried, [cond, trace_graph(turned, types, name="body")])
    return ops.reshape(ops.pack(even, odd, axis=2), np.array([-1, 4], np.int32))


def _halves(words: Array) -> tuple[Array, Array]:
    """i32[n,2,2] -> the low and the high words, i32[n,2] each"""
    low, high = ops.unpack(words, axis=2)
    return low, high


def _swapped(x: Array) -> Array:
    return ops.reverse_v2(x, np.array([1], np.int32))


@lowers("StatelessRandomGetKeyCounter")
def lower_stateless_random_get_key_counter(seed: Array) -> tuple[Array, Array]:
    """Two words of a scrambled seed as the key, two as the upper half of the counter.   i[2] -> u64[1], u64[2]"""
    wide = seed if dtype(seed) is _COUNTED else ops.cast(seed, out_data_type=_COUNTED)
    mixed = _philox(ops.reshape(wide, np.array([1, 2], np.int32)), _SCRAMBLING_KEY)
    key, upper = ops.split(np.int32(1), mixed, num_splits=2)
    counter = ops.concatenation(np.zeros((1, 2), np.int32), upper, axis=0)
    return ops.bitcast(key, out_data_type=DType.u64), ops.bitcast(counter, out_data_type=DType.u64)


def _words(shape: Array, key: Array, counter: Array, alg: Array, each: int = 1) -> Array:
    """The words of as many counters as elements take, `each` of them.   u64[1], u64[2] -> i32[4 * counters]"""
    if not is_constant(alg) or int(alg) == _THREEFRY:
        raise LowerError("random numbers of another algorithm than Philox have no TFLite spelling")
    words = ops.mul(_count(shape), np.int32(each))
    blocks = ops.floor_div(ops.add(words, np.int32(3)), np.int32(4))
    numbers = ops.cast(ops.range_(np.int32(0), blocks, np.int32(1)), out_data_type=_COUNTED)
    low = ops.mul(ops.expand_dims(numbers, np.int32(1)), np.array([1, 0], np.int64))
    counters = ops.add(low, ops.bitcast(counter, out_data_type=_COUNTED))
    key = ops.reshape(ops.bitcast(key, out_data_type=DType.i32), np.array([2], np.int32))
    return ops.reshape(_philox(counters, key), np.array([-1], np.int32))


def _count(shape: Array) -> Array:
    """The number of elements as i32[]: a constant where the shape is known."""
    known = known_sizes(shape)
    if known is not None and all_known(known):
        return np.asarray(math.prod(int(d) for d in known), np.int32)
    return ops.reduce_prod(as_i32(shape), np.zeros(1, np.int32))


def _first_of(drawn: Array, shape: Array) -> Array:
    """The first numbers, in a shape."""
    begin, end = np.zeros(1, np.int32), ops.reshape(_count(shape), np.ones(1, np.int32))
    return ops.reshape(ops.strided_slice(drawn, begin, end, np.ones(1, np.int32)), sizes_operand(shape))


def _uniform(words: Array) -> Array:
    """The lowest 23 bits of words as f32 from 0 up to 1."""
    return ops.mul(ops.cast(ops.floor_mod(words, _MANTISSA), out_data_type=DType.f32), np.float32(2.0**-23))


def _need_f32(wanted: DType) -> None:
    if wanted is not DType.f32:
        raise LowerError(f"random numbers of {wanted.value} from a seed have no TFLite spelling", expected="f32")


@lowers("StatelessRandomUniformV2")
def lower_stateless_random_uniform_v2(
    shape: Array, key: Array, counter: Array, alg: Array, *, dtype: DType = DType.f32
) -> Array:
    """The lowest 23 bits of a word each, as f32 from 0 up to 1."""
    _need_f32(dtype)
    return _first_of(_uniform(_words(shape, key, counter, alg)), shape)


@lowers("StatelessRandomNormalV2")
def lower_stateless_random_normal_v2(
    shape: Array, key: Array, counter: Array, alg: Array, *, dtype: DType = DType.f32
) -> Array:
    """Box and Muller's two normal numbers of two uniform ones: the first is a sine, the second a cosine."""
    _need_f32(dtype)
    pairs = ops.reshape(_words(shape, key, counter, alg), np.array([-1, 2], np.int32))
    first, second = ops.unpack(_uniform(pairs), axis=1)
    radius = ops.sqrt(ops.mul(ops.log(ops.maximum(first, _LEAST_UNIFORM)), np.float32(-2)))
    angle = ops.mul(second, np.float32(2 * math.pi))
    drawn = ops.pack(ops.mul(ops.sin(angle), radius), ops.mul(ops.cos(angle), radius), axis=1)
    return _first_of(ops.reshape(drawn, np.array([-1], np.int32)), shape)


@lowers("StatelessRandomUniformFullIntV2")
def lower_stateless_random_uniform_full_int_v2(
    shape: Array, key: Array, counter: Array, alg: Array, *, dtype: DType = DType.i32
) -> Array:
    """The words themselves, two of them for a number of 64 bits."""
    each = dtype.numpy.itemsize // 4
    words = _words(shape, key, counter, alg, each)
    if each > 1:
        words = ops.reshape(words, np.array([-1, each], np.int32))
    return _first_of(words if dtype is DType.i32 else ops.bitcast(words, out_data_type=dtype), shape)


@lowers("StatelessRandomUniformIntV2")
def lower_stateless_random_uniform_int_v2(
    shape: Array, key: Array, counter: Array, alg: Array, minval: Array, maxval: Array
) -> Array:
    """The least number, and the remainder of an unsigned word by how many there are."""
    of = dtype(minval)
    if of is not DType.i32:
        raise LowerError(f"random numbers of {of.value} within a range have no TFLite spelling", expected="i32")
    low, high = (ops.cast(v, out_data_type=_COUNTED) for v in (minval, maxval))
    words = ops.bitcast(_words(shape, key, counter, alg), out_data_type=DType.u32)
    rest = ops.floor_mod(ops.cast(words, out_data_type=_COUNTED), ops.sub(high, low))
    return _first_of(ops.cast(ops.add(rest, low), out_data_type=of), shape)


def seeded(name: str, function: Any) -> None:
    """The rule for the op of TensorFlow 1 that takes the seed itself."""

    def lower(shape: Array, seed: Array, *, dtype: DType = DType.f32) -> Array:
        return function(shape, *lower_stateless_random_get_key_counter(seed), np.int32(1), dtype=dtype)

    lower.__doc__ = f"As {name}V2."
    lowers(name)(lower)


seeded("StatelessRandomUniform", lower_stateless_random_uniform_v2)
seeded("StatelessRandomNormal", lower_stateless_random_normal_v2)


@lowers("StatelessRandomUniformInt")
def lower_stateless_random_uniform_int(shape: Array, seed: Array, minval: Array, maxval: Array) -> Array:
    """As StatelessRandomUniformIntV2."""
    key_counter = lower_stateless_random_get_key_counter(seed)
    return lower_stateless_random_uniform_int_v2(shape, *key_counter, np.int32(1), minval, maxval)


# Random numbers. TFLite's streams start as TensorFlow's do, where seeds are given, and go on in another way.

_TRUNCATED = 2.0  # standard deviations
EXACT = 1 << 23  # so many integers an f32 drawn from 0 to 1 can tell apart


@lowers("RandomUniform")
def lower_random_uniform(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = DType.f32) -> Array:
    """RANDOM_UNIFORM, which draws f32."""
    _need_f32_operator(dtype)
    return ops.random_uniform(as_i32(shape), seed=seed, seed2=seed2)


@lowers("RandomStandardNormal")
def lower_random_standard_normal(shape: Array, *, seed: int = 0, seed2: int = 0, dtype: DType = DType.f32) -> Array:
    """RANDOM_STANDARD_NORMAL, which draws f32."""
    _need_f32_operator(dtype)
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
    _need_f32_operator(dtype)
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
    _need_f32_operator(DType.of(logits.dtype))
    samples = static(num_samples, "num_samples")
    if not is_known(samples):
        raise LowerError("the number of samples follows from an open size")
    return ops.multinomial(logits, np.asarray(samples, np.int32), seed=seed, seed2=seed2, output_type=output_dtype)


def _need_f32_operator(dtype: DType) -> None:
    if dtype is not DType.f32:
        raise LowerError(f"random numbers of {dtype.value} have no TFLite operator", expected="f32")
