"""FarmHash's 64-bit fingerprint, which TensorFlow and TFLite hash with.

Source: github.com/google/farmhash, Fingerprint64 ("na"); arithmetic is modulo 2^64.
"""

from __future__ import annotations

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_ALL = (1 << 64) - 1
_BLOCK = 64


def fingerprint64(data: bytes) -> int:
    """The fingerprint of some bytes, from 0 to 2^64 - 1."""
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 32:
        return _up_to_32(data)
    return _up_to_64(data) if size <= _BLOCK else _longer(data)


def _word(data: bytes, place: int, size: int = 8) -> int:
    return int.from_bytes(data[place : place + size], "little")


def _rotated(value: int, bits: int) -> int:
    value &= _ALL
    return value >> bits | value << 64 - bits & _ALL


def _shifted(value: int) -> int:
    value &= _ALL
    return value ^ value >> 47


def _mixed(u: int, v: int, factor: int) -> int:
    a = _shifted(((u ^ v) & _ALL) * factor)
    b = _shifted(((v ^ a) & _ALL) * factor)
    return b * factor & _ALL


def _up_to_16(data: bytes) -> int:
    size = len(data)
    factor = _K2 + 2 * size & _ALL
    if size >= 8:
        a, b = _word(data, 0) + _K2, _word(data, size - 8)
        return _mixed(_rotated(b, 37) * factor + a & _ALL, (_rotated(a, 25) + b) * factor & _ALL, factor)
    if size >= 4:
        return _mixed(size + (_word(data, 0, 4) << 3), _word(data, size - 4, 4), factor)
    if size:
        y, z = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
        return _shifted(y * _K2 & _ALL ^ z * _K0 & _ALL) * _K2 & _ALL
    return _K2


def _up_to_32(data: bytes) -> int:
    size = len(data)
    factor = _K2 + 2 * size & _ALL
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    y, z = _rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + _K2, 18) + c
    return _mixed(y & _ALL, z & _ALL, factor)


def _up_to_64(data: bytes) -> int:
    size = len(data)
    factor = _K2 + 2 * size & _ALL
    a, b = _word(data, 0) * _K2, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d & _ALL
    z = _mixed(y, a + _rotated(b + _K2, 18) + c & _ALL, factor)
    e, f = _word(data, 16) * factor, _word(data, 24)
    g, h = (y + _word(data, size - 32)) * factor, (z + _word(data, size - 24)) * factor
    return _mixed(_rotated(e + f, 43) + _rotated(g, 30) + h & _ALL, e + _rotated(f + a, 18) + g & _ALL, factor)


def _half(data: bytes, place: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes, hashed into a pair of seeds."""
    w, x, y, z = (_word(data, place + 8 * i) for i in range(4))
    a += w
    b = _rotated(b + a + z, 21)
    total = a + x + y
    return total + z & _ALL, b + _rotated(total, 44) + a & _ALL


def _longer(data: bytes) -> int:
    x, y = 81, 81 * _K1 + 113 & _ALL
    z = _shifted(y * _K2 + 113) * _K2 & _ALL
    x = x * _K2 + _word(data, 0) & _ALL
    v, w = (0, 0), (0, 0)
    last = (len(data) - 1) // _BLOCK * _BLOCK
    for place in range(0, last, _BLOCK):
        x, y, z, v, w = _block(data, place, (x, y, z), v, w, _K1, 1)
    rest = len(data) - 1 & _BLOCK - 1
    factor = _K1 + ((z & 0xFF) << 1) & _ALL
    first = w[0] + rest
    v = (v[0] + first & _ALL, v[1])
    w = (first + v[0] & _ALL, w[1])
    x, y, z, v, w = _block(data, last + rest - (_BLOCK - 1), (x, y, z), v, w, factor, 9)
    ends = _mixed(v[0], w[0], factor) + _shifted(y) * _K0 + z, _mixed(v[1], w[1], factor) + x
    return _mixed(ends[0] & _ALL, ends[1] & _ALL, factor)


def _block(
    data: bytes,
    place: int,
    state: tuple[int, int, int],
    v: tuple[int, int],
    w: tuple[int, int],
    factor: int,
    often: int,
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    """64 bytes, hashed into three words and two pairs. often: how often the pairs are added."""
    x, y, z = state
    x = _rotated(x + y + v[0] + _word(data, place + 8), 37) * factor & _ALL
    y = _rotated(y + v[1] + _word(data, place + 48), 42) * factor & _ALL
    x ^= w[1] * often & _ALL
    y = y + v[0] * often + _word(data, place + 40) & _ALL
    z = _rotated(z + w[0], 33) * factor & _ALL
    v = _half(data, place, v[1] * factor, x + w[0])
    w = _half(data, place + 32, z + w[1], y + _word(data, place + 16))
    return z, y, x, v, w
