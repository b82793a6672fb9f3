"""CRC-32C (Castagnoli) of large arrays in NumPy: many stretches side by side, joined at the end.

The checksum without its first and last inversion is linear over GF(2): that of two parts in a row is the first one's,
moved on by the second's length, XOR the second one's; leading zeros change nothing.
Source: RFC 3720, B.4 (the polynomial); zlib's crc32_combine (moving on by a length)
"""

from __future__ import annotations

from functools import cache

import numpy as np

_POLYNOMIAL = 0x82F63B78  # reflected
_ONES = 0xFFFFFFFF
_STRETCH = 256  # bytes, four at a step
_LANES = 4096  # stretches side by side: with _STRETCH one MiB at a time, which stays in the cache
_MASK_DELTA = 0xA282EAD8  # tensorflow/core/lib/hash/crc32c.h


def masked_crc32c(data: np.ndarray) -> int:
    """The checksum as TensorFlow's files keep it.   data: u8[n]"""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ONES


def crc32c(data: np.ndarray) -> int:
    """The CRC-32C of bytes.   data: u8[n]"""
    block = _STRETCH * _LANES
    first = len(data) % block
    raw = _raw(data[:first])
    for start in range(first, len(data), block):
        raw = _moved(raw, block) ^ _raw(data[start : start + block])
    return raw ^ _moved(_ONES, len(data)) ^ _ONES


def _raw(data: np.ndarray) -> int:
    """The checksum of at most one block without inversions."""
    if not len(data):
        return 0
    count = 1 << max(0, -(-len(data) // _STRETCH) - 1).bit_length()  # a power of two, for the joining by pairs
    if len(data) < count * _STRETCH:
        data = np.concatenate([np.zeros(count * _STRETCH - len(data), np.uint8), data])
    words = np.ascontiguousarray(data).view("<u4").reshape(count, -1)
    low, high = _tables()
    crc = np.zeros(count, np.uint32)
    for step in range(_STRETCH // 4):
        crc ^= words[:, step]
        crc = low[crc & 0xFFFF] ^ high[crc >> 16]
    length = _STRETCH
    while len(crc) > 1:
        crc = _apply(_moving(length), crc[::2]) ^ crc[1::2]
        length *= 2
    return int(crc[0])


@cache
def _tables() -> tuple[np.ndarray, np.ndarray]:
    """What the lower and the upper half of a word become, four bytes later."""
    crc = np.arange(1 << 16, dtype=np.uint32)
    high = crc
    for bit in range(32):
        if bit == 16:
            high = crc
        crc = np.where(crc & 1, crc >> 1 ^ _POLYNOMIAL, crc >> 1).astype(np.uint32)
    return crc, high


@cache
def _moving(length: int) -> np.ndarray:
    """What the numbers of one bit become `length` bytes later, a power of two.   u32[32]"""
    if length > 1:
        half = _moving(length // 2)
        return _apply(half, half)
    columns = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(8):
        columns = np.where(columns & 1, columns >> 1 ^ _POLYNOMIAL, columns >> 1).astype(np.uint32)
    return columns


def _apply(columns: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The linear map that takes bit i to columns[i], of each value."""
    result = np.zeros_like(values)
    for bit, column in enumerate(columns):
        result ^= np.where(values >> bit & 1, column, 0).astype(np.uint32)
    return result


def _moved(crc: int, length: int) -> int:
    """A checksum without inversions, `length` zero bytes later."""
    value = np.array([crc], np.uint32)
    for bit in range(length.bit_length()):
        if length >> bit & 1:
            value = _apply(_moving(1 << bit), value)
    return int(value[0])
