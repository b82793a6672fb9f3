"""CRC-32C (Castagnoli) of large arrays in NumPy: many stretches side by side, joined at the end.

The checksum without its first and last inversion is linear over GF(2): that of two parts in a row is the first one's,
moved on by the second's length, XOR the second one's; leading zeros change nothing.
Source: RFC 3720, B.4 (the polynomial); zlib's crc32_combine (moving on by a length)
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

_POLYNOMIAL = 0x82F63B78  # reflected
_ONES = 0xFFFFFFFF
_BLOCK = 1 << 20  # bytes: the stretches of one block, side by side, stay in the cache
_STRETCH, _SHORT = 256, 16  # bytes of a stretch, four at a step; short where there is little to put side by side
_LITTLE = 1 << 14
_MASK_DELTA = 0xA282EAD8  # tensorflow/core/lib/hash/crc32c.h


def masked_crc32c(data: np.ndarray) -> int:
    """The checksum as TensorFlow's files keep it.   data: u8[n]"""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _ONES


def crc32c(data: np.ndarray) -> int:
    """The CRC-32C of bytes.   data: u8[n]"""
    first = len(data) % _BLOCK
    raw = _raw(data[:first])
    for start in range(first, len(data), _BLOCK):
        raw = _moved(raw, _BLOCK) ^ _raw(data[start : start + _BLOCK])
    return raw ^ _start(len(data)) ^ _ONES


def _raw(data: np.ndarray) -> int:
    """The checksum of at most one block without inversions."""
    if not len(data):
        return 0
    stretch = _STRETCH if len(data) > _LITTLE else _SHORT
    count = 1 << (-(-len(data) // stretch) - 1).bit_length()  # a power of two, for the joining by pairs
    if len(data) < count * stretch:
        data = np.concatenate([np.zeros(count * stretch - len(data), np.uint8), data])
    words = np.ascontiguousarray(data).view("<u4").reshape(count, -1)
    low, high = _tables()
    crc = np.zeros(count, np.uint32)
    for step in range(stretch // 4):
        crc ^= words[:, step]
        crc = low[crc & 0xFFFF] ^ high[crc >> 16]
    length = stretch
    while len(crc) > 1:
        a, b, c, d = _byte_tables(length)
        left = crc[::2]
        crc = a[left & 0xFF] ^ b[left >> 8 & 0xFF] ^ c[left >> 16 & 0xFF] ^ d[left >> 24] ^ crc[1::2]
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
def _moving(length: int) -> tuple[int, ...]:
    """What each of the 32 bits becomes `length` bytes later, a power of two."""
    if length > 1:
        half = _moving(length // 2)
        return tuple(_apply(half, column) for column in half)
    columns = [1 << bit for bit in range(32)]
    for _ in range(8):
        columns = [c >> 1 ^ _POLYNOMIAL if c & 1 else c >> 1 for c in columns]
    return tuple(columns)


@cache
def _byte_tables(length: int) -> tuple[np.ndarray, ...]:
    """What each value of each of the four bytes becomes `length` bytes later, a power of two.   four of u32[256]"""
    columns = _moving(length)
    found = [[_apply(columns, value << shift) for value in range(256)] for shift in (0, 8, 16, 24)]
    return tuple(np.array(table, np.uint32) for table in found)


def _apply(columns: tuple[int, ...], value: int) -> int:
    """The linear map that takes bit i to columns[i]."""
    result = 0
    while value:
        bit = value & -value
        result ^= columns[bit.bit_length() - 1]
        value ^= bit
    return result


def _moved(crc: int, length: int) -> int:
    """A checksum without inversions, `length` zero bytes later."""
    for bit in range(length.bit_length()):
        if length >> bit & 1:
            crc = _apply(_moving(1 << bit), crc)
    return crc


@lru_cache(maxsize=1024)
def _start(length: int) -> int:
    """What the first inversion becomes `length` bytes later."""
    return _moved(_ONES, length)
