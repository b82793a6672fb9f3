"""Random numbers: RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL and MULTINOMIAL.

An operator goes on in one stream from call to call, until the file is loaded again or an input is given another size.
These functions answer as the first call does; seeds of 0 and 0 stand for seeds that nobody knows.
"""

from __future__ import annotations

import math

import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.graph import Atom
from jfuse.ir.trace import active_trace
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.op import Array, Sizes, namespace, tfl

_ROUNDS = 10
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF


@tfl("RANDOM_UNIFORM", sized_by_data=True, draws=True)
def random_uniform(shape: Sizes, /, *, seed: int = 0, seed2: int = 0) -> Array:
    """Numbers from 0 to 1, 1 excluded: multiples of 2^-23.

    shape: i32[rank] -> f32[...]   Source: tflite/kernels/random_ops.cc
    """
    return _uniform(philox(seed, seed2, math.prod(shape))).reshape(shape)


@random_uniform.types
def _uniform_type(shape: tuple[int, ...], *, seed: int, seed2: int) -> TensorType:
    return TensorType(tuple(shape), DType.f32)


@random_uniform.types_by_data
def _uniform_type_by_data(shape: Atom, *, seed: int, seed2: int) -> TensorType:
    return TensorType(tuple(active_trace().names.fresh("N") for _ in range(int(shape.type.shape[0]))), DType.f32)


@tfl("RANDOM_STANDARD_NORMAL", sized_by_data=True, draws=True)
def random_standard_normal(shape: Sizes, /, *, seed: int = 0, seed2: int = 0) -> Array:
    """Numbers of mean 0 and variance 1, by the method of Box and Muller.

    shape: i32[rank] -> f32[...]   Source: tflite/kernels/random_ops.cc
    """
    size = math.prod(shape)
    pairs = _uniform(philox(seed, seed2, size + size % 2)).reshape(-1, 2)
    radius = np.sqrt(np.float32(-2) * np.log(np.maximum(pairs[:, 0], np.float32(1e-7))))
    angle = np.float32(2 * np.pi) * pairs[:, 1]
    normal = np.stack([np.sin(angle) * radius, np.cos(angle) * radius], axis=1)
    return normal.astype(np.float32).reshape(-1)[:size].reshape(shape)


random_standard_normal.types(_uniform_type)
random_standard_normal.types_by_data(_uniform_type_by_data)


@tfl("MULTINOMIAL", draws=True)
def multinomial(
    logits: Array, samples: Sizes, /, *, seed: int = 0, seed2: int = 0, output_type: DType = DType.i64
) -> Array:
    """For each row of unnormalized log probabilities, so many places drawn with these probabilities.

    logits: f32[batch, classes]; samples: i32[] -> i32|i64[batch, samples]   Source: tflite/kernels/random_ops.cc
    """
    xp = namespace(logits)
    rows = logits.astype(np.float64)
    finite = xp.isfinite(rows)
    highest = xp.where(finite, rows, -np.inf).max(axis=1, keepdims=True)
    cumulative = xp.cumsum(xp.where(finite, xp.exp(rows - highest), 0.0), axis=1)
    words = philox(seed, seed2, 2 * samples * len(rows)).reshape(len(rows), samples, 2).astype(np.uint64)
    bits = (words[..., 0] & np.uint64(0xFFFFF)) << np.uint64(32) | words[..., 1]
    wanted = bits.astype(np.float64) * 2.0**-52 * cumulative[:, -1:]
    passed = cumulative[:, None, :] <= wanted[:, :, None]
    return passed.sum(axis=2).astype(output_type.numpy)


@multinomial.types
def _multinomial_type(logits: TensorType, samples: int, *, seed: int, seed2: int, output_type: DType) -> TensorType:
    if output_type not in (DType.i32, DType.i64):
        raise TypeMismatch("places are i32 or i64", found=output_type)
    return TensorType((logits.shape[0], samples), output_type)


def philox(seed: int, seed2: int, count: int) -> np.ndarray:
    """The first numbers of the stream Philox 4x32-10 as TensorFlow starts it: u32[count].

    After Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
    """
    if not seed and not seed2:
        return np.random.default_rng().integers(0, 2**32, count, np.uint32)
    blocks = -(-count // 4)
    numbers = np.arange(blocks, dtype=np.uint64)
    words = [numbers & _MASK, numbers >> np.uint64(32)]
    words += [np.full(blocks, half, np.uint64) for half in (seed2 & _MASK, seed2 >> 32 & _MASK)]
    key = [seed & _MASK, seed >> 32 & _MASK]
    for _ in range(_ROUNDS):
        products = [np.uint64(factor) * word for factor, word in zip(_FACTORS, words[::2], strict=True)]
        high, low = zip(*((p >> np.uint64(32), p & np.uint64(_MASK)) for p in products), strict=True)
        words = [high[1] ^ words[1] ^ np.uint64(key[0]), low[1], high[0] ^ words[3] ^ np.uint64(key[1]), low[0]]
        key = [(k + step) & _MASK for k, step in zip(key, _KEY_STEPS, strict=True)]
    return np.stack(words, axis=1).reshape(-1)[:count].astype(np.uint32)


def _uniform(words: np.ndarray) -> np.ndarray:
    """Numbers from 0 to 1 with the lowest 23 bits of each word for their digits."""
    return ((words & np.uint32(0x7FFFFF)) | np.uint32(127 << 23)).view(np.float32) - np.float32(1)
