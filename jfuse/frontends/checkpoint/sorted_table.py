"""Sorted string tables, in which TensorFlow keeps the index of a checkpoint.

Source: tensorflow/core/lib/io/table_format.txt (LevelDB's format)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jfuse.base.errors import ImportFailed
from jfuse.frontends.checkpoint.checksum import masked_crc32c

_MAGIC = (0xDB4775248B80FB57).to_bytes(8, "little")
_FOOTER = 48  # bytes: two handles of blocks, padding, the magic number
_LAST_SHIFT = 63  # of the tenth byte of a number
_GROUP = 16  # keys in a row that leave out what they share with the one before, as TensorFlow writes them
_TRAILER = 5  # bytes behind each block: how it is compressed, its checksum


def read_table(data: bytes, source: str) -> dict[bytes, bytes]:
    """The entries of a table in their order.   source: the file's name, for messages

    Raises ImportFailed where the table is damaged or compressed.
    """
    if len(data) < _FOOTER or not data.endswith(_MAGIC):
        raise _damaged(source, "it does not end as a table does")
    try:
        _, at = _handle(data[-_FOOTER:], 0)
        index, _ = _handle(data[-_FOOTER:], at)
        blocks = [_handle(value, 0)[0] for _, value in _entries(_block(data, index, source))]
        if sum(size + _TRAILER for _, size in blocks) > len(data):
            raise ValueError("blocks overlap")
        return {key: value for handle in blocks for key, value in _entries(_block(data, handle, source))}
    except (IndexError, ValueError) as error:
        raise _damaged(source, str(error)) from error


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place behind it.

    Raises IndexError where the bytes end before it does, ValueError for one of more than 64 bits.
    """
    value = shift = 0
    while True:
        if shift > _LAST_SHIFT:
            raise ValueError("a number has more than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    """Offset and size of a block, and the place behind them."""
    offset, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return (offset, size), at


def _block(data: bytes, handle: tuple[int, int], source: str) -> bytes:
    offset, size = handle
    end = offset + size
    if end + _TRAILER > len(data) - _FOOTER:
        raise _damaged(source, "a block stands behind its end")
    if data[end]:
        raise _damaged(source, "a block is compressed, as TensorFlow writes none")
    checksum = masked_crc32c(np.frombuffer(data, np.uint8, size + 1, offset))
    if checksum != int.from_bytes(data[end + 1 : end + _TRAILER], "little"):
        raise _damaged(source, "the checksum of a block is wrong")
    return data[offset:end]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block: each key says how much of the one before it begins with."""
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (restarts + 1)
    if end < 0:
        raise ValueError("a block is shorter than it says")
    at, key, keys = 0, b"", 0
    while at < end:
        shared, at = read_varint(block, at)
        rest, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if shared > len(key) or at + rest + size > end:
            raise ValueError("an entry is longer than its block")
        key = key[:shared] + block[at : at + rest]
        at += rest
        keys += len(key)
        if keys > 2 * _GROUP * len(block):  # twice what an honest writer reaches; others would fill the memory
            raise ValueError("keys share more than a writer lets them")
        yield key, block[at : at + size]
        at += size


def _damaged(source: str, found: str) -> ImportFailed:
    return ImportFailed(f"{source} is damaged", expected="the index of a checkpoint", found=found)
