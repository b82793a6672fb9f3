"""The buffers of a .tflite file: their bytes, in the flatbuffer or behind it, and the constants made of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from jfuse.base.errors import BadFlatbuffer
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.graph import Const
from jfuse.ir.sparse import Level, SparseConst, Sparsity
from jfuse.ir.types import DType, TensorType
from jfuse.tflite.read.external import ExternalBuffers
from jfuse.tflite.read.fields import checked_index, integers
from jfuse.tflite.schema import SPARSE_FORMATS
from jfuse.tflite.tensor_data import unpack

_IN_FILE = 1  # an offset above this tells that the data lies behind the flatbuffer


class ReadBuffers:
    """The buffers of one file. Whatever they give are views of the file's bytes.

    data: the bytes of the whole file. external: its weights in other files.
    """

    def __init__(
        self, tables: Sequence[Any], data: Any, external: ExternalBuffers, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._limits = limits
        self._left = limits.constant_bytes
        self._counted: set[tuple[int, int]] = set()
        self._tables = tables
        self.data = data
        self._external = external
        self._constants: dict[tuple[int, int, TensorType, str | None, int], Const] = {}

    def bytes_of(self, index: int, where: str) -> np.ndarray | None:
        """The bytes of a buffer: u8[n]; None where it has none."""
        buffer = self._tables[checked_index(index, len(self._tables), "buffer", where)]
        outside = self.behind(int(buffer.offset), int(buffer.size), "a buffer lies", where)
        if outside is not None:
            return outside
        return None if buffer.data is None or not len(buffer.data) else np.asarray(buffer.data)

    def behind(self, offset: int, size: int, what: str, where: str | None = None) -> np.ndarray | None:
        """Bytes behind the flatbuffer; None where the offset says that there are none.   what: begins the message"""
        if offset <= _IN_FILE:
            return None
        if offset + size > len(self.data):
            expected = f"{len(self.data)} bytes at most"
            raise BadFlatbuffer(
                f"{what} beyond the end of the file", where=where, expected=expected, found=offset + size
            )
        return np.frombuffer(self.data, np.uint8, size, offset)

    def data_of(self, tensor: Any, where: str) -> np.ndarray | None:
        """The bytes of a tensor, in the file or in another one: u8[n]; None where it has none.   tensor: its table"""
        inside = self.bytes_of(int(tensor.buffer), where)
        if not tensor.externalBuffer:
            return inside
        if inside is not None:
            raise BadFlatbuffer("the data of a tensor is in the file and in another one", where=where)
        return self._external.bytes_of(int(tensor.externalBuffer), where)

    def constant(self, tensor: Any, tensor_type: TensorType, name: str | None, where: str) -> Const | None:
        """The constant of a type in a tensor's buffer; None where the buffer has no bytes.   tensor: its table"""
        sparsity = tensor.sparsity
        key = (int(tensor.buffer), int(tensor.externalBuffer), tensor_type, name, id(sparsity))
        if key not in self._constants:
            data = self.data_of(tensor, where)
            if data is None:
                return None
            if sparsity is not None:
                self._take(prod(map(int, tensor_type.shape)) * tensor_type.dtype.numpy.itemsize, where)
                self._constants[key] = sparse_constant(sparsity, data, tensor_type, name, where)
                return self._constants[key]
            shape = tuple(int(d) for d in tensor_type.shape)
            if key[:2] not in self._counted:  # tensors may share a buffer
                self._counted.add(key[:2])
                self._take(len(data), where)
            array = unpack(data, tensor_type.dtype, shape, where)
            self._constants[key] = Const(array, name, tensor_type.quantization)
        return self._constants[key]

    def _take(self, size: int, where: str) -> None:
        self._left -= size
        if self._left < 0:
            raise BadFlatbuffer(
                "the constants of the file are too large",
                where=where,
                expected=f"at most {self._limits.constant_bytes:,} bytes",
                remedy="limits=jfuse.Limits(constant_bytes=…)",
            )


# The sparse constants of a .tflite file.

_MOST_IN_A_BYTE = 4  # elements, of two bits


def sparse_constant(table: Any, data: Any, tensor_type: TensorType, name: str | None, where: str) -> SparseConst:
    """The constant of a type whose elements are in `data`: u8[n].   table: the tensor's sparsity"""
    if tensor_type.dtype in (DType.string, DType.resource, DType.variant):
        raise BadFlatbuffer("a sparse tensor holds no numbers", where=where, found=str(tensor_type))
    shape = tuple(int(d) for d in tensor_type.shape)
    for vector in (table.traversalOrder, table.blockMap, table.dimMetadata):
        if vector is not None and len(vector) > 2 * len(shape):
            sizes = f"{len(vector)} for {len(shape)} axes"
            raise BadFlatbuffer("a sparse tensor has too many levels", where=where, found=sizes)
    levels = tuple(_level(level, where) for level in table.dimMetadata or ())
    sparsity = Sparsity(integers(table.traversalOrder), integers(table.blockMap), levels)
    count = len(sparsity.places(shape, where, _MOST_IN_A_BYTE * len(data)))
    return SparseConst(
        unpack(data, tensor_type.dtype, (count,), where), shape, sparsity, name, tensor_type.quantization
    )


def _level(table: Any, where: str) -> Level:
    if table.format not in SPARSE_FORMATS:
        raise BadFlatbuffer("a sparse tensor has an unknown format", where=where, found=table.format)
    if SPARSE_FORMATS[table.format] == "DENSE":
        return int(table.denseSize)
    vectors = [None if v is None else v.values for v in (table.arraySegments, table.arrayIndices)]
    if vectors[0] is None or vectors[1] is None:
        raise BadFlatbuffer("a sparse tensor lacks its segments or indices", where=where)
    return Const(vectors[0]), Const(vectors[1])
