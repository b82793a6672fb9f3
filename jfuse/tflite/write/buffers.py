"""The buffers of a file: its constants, each once, and whatever else is data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.ir.graph import Const
from jfuse.ir.types import DType
from jfuse.tflite.tensor_data import pack, packed_size

ALIGNMENT = 16  # of constant data; the schema's force_align, which delegates and memory-mapped files rely on
MOST_INSIDE = 2**31 - 2**20  # bytes; offsets are signed 32-bit, and tables need room beside the constants


@dataclass(frozen=True)
class _Data:
    """The bytes of one buffer, made when they are written: packing may copy."""

    size: int
    make: Callable[[], np.ndarray]


class Buffers:
    """The buffers of one file by their index. The first one is empty: tensors without data name it."""

    def __init__(self) -> None:
        self.size = 0  # bytes of all data
        self._data: list[_Data] = []
        self._buffer_of: dict[str, int] = {}

    def constant(self, const: Const) -> int:
        """The buffer that holds a constant; equal constants share one."""
        if const.type.size == 0 and const.type.dtype is not DType.string:
            return 0  # no bytes: the runtime cannot tell such a constant from other tensors
        found = self._buffer_of.get(const.digest)
        if found is None:
            found = self._buffer_of[const.digest] = self._add(
                _Data(packed_size(const.stored, const.type.dtype), lambda: pack(const.stored, const.type.dtype))
            )
        return found

    def add(self, data: np.ndarray) -> int:
        """A buffer of its own.   data: u8[n]"""
        return self._add(_Data(data.size, lambda: data))

    def _add(self, data: _Data) -> int:
        self.size += data.size + ALIGNMENT
        self._data.append(data)
        return len(self._data)

    def inside(self) -> list[Any]:
        """The tables of buffers with their data."""
        return [schema.BufferT(), *(_AlignedBuffer(data.make()) for data in self._data)]

    def outside(self, start: int) -> list[Any]:
        """The tables of buffers whose data is `parts`, the first of which begins at `start`."""
        tables = [schema.BufferT()]
        for data in self._data:
            table = schema.BufferT()
            table.offset, table.size = start, data.size
            start = _aligned(start + table.size)
            tables.append(table)
        return tables

    def parts(self) -> Iterator[Any]:
        """The data of all buffers, each filled up to the alignment, and a few zeros at the end: kernels read ahead."""
        for data in self._data:
            yield data.make().data
            yield padding(data.size)
        yield bytes(ALIGNMENT)


def padding(size: int) -> bytes:
    """What fills so many bytes up to the alignment."""
    return bytes(_aligned(size) - size)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _AlignedBuffer(schema.BufferT):  # type: ignore[misc]
    """A buffer whose data starts at a multiple of 16 bytes. The generated `Pack` ignores the schema's force_align."""

    def __init__(self, data: np.ndarray) -> None:
        super().__init__()
        self.data = data

    def Pack(self, builder: Any) -> Any:
        """Write the data and the table that points to it."""
        builder.StartVector(1, self.data.size, ALIGNMENT)
        head = builder.head - self.data.size
        builder.head = head
        builder.Bytes[head : head + self.data.size] = self.data.data
        data = builder.EndVector()
        schema.BufferStart(builder)
        schema.BufferAddData(builder, data)
        return schema.BufferEnd(builder)
