"""The bytes of constant tensors: strings, packed 2- and 4-bit integers, and plain arrays, both ways."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.contents import contiguous, in_order
from jfuse.ir.types import DType

_BITS = {DType.i4: 4, DType.u4: 4, DType.i2: 2}
_STRING_HEADER = np.dtype("<i4")


def pack(array: np.ndarray, dtype: DType) -> Iterator[np.ndarray]:
    """The bytes of a constant as TFLite stores them, in parts u8[n]; views where the array is stored as it is."""
    if dtype is DType.string:
        yield _pack_strings([bytes(item) for item in array.ravel()])
    elif dtype in _BITS:  # a byte holds elements of several rows
        yield _pack_bits(contiguous(array).reshape(-1).view(np.uint8), _BITS[dtype])
    else:
        yield from (part.reshape(-1).view(np.uint8) for part in in_order(array))


def packed_size(array: np.ndarray, dtype: DType) -> int:
    """The number of bytes that `pack` gives for an array, without packing it."""
    if dtype is DType.string:
        return _STRING_HEADER.itemsize * (array.size + 2) + sum(len(item) for item in array.ravel())
    return -(-array.size * _BITS[dtype] // 8) if dtype in _BITS else array.nbytes


def unpack(data: np.ndarray, dtype: DType, shape: tuple[int, ...], where: str) -> np.ndarray:
    """The array in a constant's bytes, a view where it is stored as it is; raises BadFlatbuffer where they do not fit.

    data: u8[n]; bytes beyond what the shape needs are ignored, as the runtime does.
    """
    size = math.prod(shape)
    if dtype is DType.string:
        return _unpack_strings(data, size, where).reshape(shape)
    bits = _BITS.get(dtype, 8 * dtype.numpy.itemsize)
    needed = (size * bits + 7) // 8
    if data.size < needed:
        raise BadFlatbuffer(
            f"the data of a constant {dtype.value}{list(shape)} is too short",
            where=where,
            expected=needed,
            found=data.size,
        )
    data = data[:needed]
    if dtype in _BITS:
        return _unpack_bits(data, size, dtype).reshape(shape)
    if dtype is DType.bool and size and int(data.max()) > 1:
        raise BadFlatbuffer("a bool constant holds bytes other than 0 and 1", where=where)
    return data.view(dtype.numpy).reshape(shape)


def _pack_strings(items: list[bytes]) -> np.ndarray:
    """A count, then one more offset than strings, from the start of the buffer; then the strings."""
    start = _STRING_HEADER.itemsize * (len(items) + 2)
    offsets = np.cumsum([start, *(len(item) for item in items)])
    header = np.array([len(items), *offsets], _STRING_HEADER)
    return np.frombuffer(header.tobytes() + b"".join(items), np.uint8)


def _unpack_strings(data: np.ndarray, size: int, where: str) -> np.ndarray:
    header = (size + 2) * _STRING_HEADER.itemsize
    if data.size < header:
        raise BadFlatbuffer("the data of a string constant is too short", where=where, expected=header, found=data.size)
    count, *offsets = data[:header].view(_STRING_HEADER).tolist()
    if count != size:
        raise BadFlatbuffer(
            "a string constant holds another number of strings", where=where, expected=size, found=count
        )
    if offsets[0] < header or offsets[-1] > data.size or any(a > b for a, b in pairwise(offsets)):
        raise BadFlatbuffer("the offsets of a string constant are out of order", where=where)
    items = np.empty(size, object)
    items[:] = [data[a:b].tobytes() for a, b in pairwise(offsets)]
    return items


def _pack_bits(values: np.ndarray, bits: int) -> np.ndarray:
    """Several values to the byte, the first in the lowest bits; the rows of a matrix are not padded."""
    per_byte = 8 // bits
    padded = np.zeros(-(-values.size // per_byte) * per_byte, np.uint8)
    padded[: values.size] = values & (2**bits - 1)
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    packed: np.ndarray = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1).astype(np.uint8)
    return packed


def _unpack_bits(data: np.ndarray, size: int, dtype: DType) -> np.ndarray:
    bits = _BITS[dtype]
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    values = ((data[:, None] >> shifts) & np.uint8(2**bits - 1)).reshape(-1)[:size].astype(np.int8)
    if dtype is not DType.u4:
        sign = 2 ** (bits - 1)
        values = (values ^ np.int8(sign)) - np.int8(sign)
    unpacked: np.ndarray = values.astype(dtype.numpy)
    return unpacked
