"""The sparse constants of a .tflite file."""

from __future__ import annotations

from typing import Any

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.graph import Const
from jfuse.ir.sparse import Level, SparseConst, Sparsity
from jfuse.ir.types import DType, TensorType
from jfuse.tflite.read.fields import integers
from jfuse.tflite.schema import SPARSE_FORMATS
from jfuse.tflite.tensor_data import unpack

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
