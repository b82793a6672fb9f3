"""The buffers of a file: its constants, each once, and whatever else is data."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.ir.contents import Contents
from jfuse.ir.graph import Const
from jfuse.ir.types import DType
from jfuse.tflite.tensor_data import pack, packed_size

ALIGNMENT = 16  # of constant data; the schema's force_align, which delegates and memory-mapped files rely on
MOST_INSIDE = 2**31 - 2**20  # bytes; offsets are signed 32-bit, and tables need room beside the constants


@dataclass(frozen=True)
class _Data:
    """The bytes of one buffer, made when they are written: packing may copy."""

    size: int
    make: Callable[[], Iterable[np.ndarray]]

    def parts(self) -> Iterator[Any]:
        """The bytes, which need not be in memory once they are written."""
        return (part.data for part in self.make())


class Buffers:
    """The buffers of one file by their index. The first one is empty: tensors without data name it."""

    def __init__(self) -> None:
        self.size = 0  # bytes of all data
        self._data: list[_Data] = []
        self._contents = Contents()
        self._buffer_of: dict[int, int] = {}

    def contents(self, const: Const) -> int:
        """A number that is equal for constants of equal dtype, shape and contents."""
        return self._contents.number(const)

    def constant(self, const: Const) -> int:
        """The buffer that holds a constant; equal constants share one."""
        if const.type.size == 0 and const.type.dtype is not DType.string:
            return 0  # no bytes: the runtime cannot tell such a constant from other tensors
        key = self.contents(const)
        index = self._buffer_of.get(key)
        if index is None:
            index = self._buffer_of[key] = self._add(
                _Data(packed_size(const.stored, const.type.dtype), lambda: pack(const.stored, const.type.dtype))
            )
        return index

    def add(self, data: np.ndarray) -> int:
        """A buffer of its own.   data: u8[n]"""
        return self._add(_Data(data.size, lambda: [data]))

    def _add(self, data: _Data) -> int:
        self.size += data.size + ALIGNMENT
        self._data.append(data)
        return len(self._data)

    def inside(self) -> list[Any]:
        """The tables of buffers with their data, for a `Builder`."""
        return [schema.BufferT(), *(_AlignedBuffer(data) for data in self._data)]

    def outside(self, start: int) -> list[Any]:
        """The tables of buffers whose data is `parts`; the first part begins at `start`."""
        tables = [schema.BufferT()]
        for data in self._data:
            table = schema.BufferT()
            table.offset, table.size = start, data.size
            start = _aligned(start + table.size)
            tables.append(table)
        return tables

    @property
    def size_behind(self) -> int:
        """The bytes of `parts`."""
        return sum(_aligned(data.size) for data in self._data) + ALIGNMENT

    def parts(self) -> Iterator[Any]:
        """The data of all buffers, each filled up to the alignment, and a few zeros at the end: kernels read ahead."""
        for data in self._data:
            yield from data.parts()
            yield padding(data.size)
        yield bytes(ALIGNMENT)


def padding(size: int) -> bytes:
    """The zeros that pad so many bytes to the alignment."""
    return bytes(_aligned(size) - size)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Builder(flatbuffers.Builder):  # type: ignore[misc]
    """A builder that leaves out the data of buffers, and gives the file in parts: no constant is copied into it.

    Equal vectors of numbers stand in the file once: half of an integer file's tables may be zero points of channels.

    size: bytes of memory, which the system lends where something is written: room for the data costs nothing.
    """

    def __init__(self, size: int) -> None:
        super().__init__(0)
        memory = mmap.mmap(-1, size)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):  # beside the room for each buffer's data stand a few bytes
            with suppress(OSError):  # of kernels without huge pages
                memory.madvise(mmap.MADV_NOHUGEPAGE)
        self.Bytes = memoryview(memory)
        self.head = size
        self._left_out: list[tuple[int, _Data]] = []  # with the place of the first byte, counted from the file's end
        self._vectors: dict[tuple[str, bytes], int] = {}

    def CreateNumpyVector(self, x: np.ndarray) -> int:
        """The place of a vector of numbers."""
        key = x.dtype.str, x.tobytes()
        if key not in self._vectors:
            self._vectors[key] = super().CreateNumpyVector(x)
        return self._vectors[key]

    def leave_out(self, data: _Data) -> None:
        """Go on before the place of the data, whose vector has been started."""
        self.head -= data.size
        self._left_out.append((self.Offset(), data))

    def parts(self) -> Iterator[Any]:
        """The finished file as buffers that follow each other."""
        at, end = self.Head(), len(self.Bytes)
        for from_end, data in sorted(self._left_out, key=lambda pair: -pair[0]):
            yield self.Bytes[at : end - from_end]
            yield from data.parts()
            at = end - from_end + data.size
        yield self.Bytes[at:]


class _AlignedBuffer(schema.BufferT):  # type: ignore[misc]
    """A buffer whose data starts at a multiple of 16 bytes. The generated `Pack` ignores the schema's force_align."""

    def __init__(self, data: _Data) -> None:
        super().__init__()
        self.data = data

    def Pack(self, builder: Builder) -> Any:
        """Write the table that points to the data, and leave out the data."""
        builder.StartVector(1, self.data.size, ALIGNMENT)
        builder.leave_out(self.data)
        data = builder.EndVector()
        schema.BufferStart(builder)
        schema.BufferAddData(builder, data)
        return schema.BufferEnd(builder)
