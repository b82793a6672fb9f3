"""The tables of a file that place the elements of a sparse constant."""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.ir.graph import Const
from jfuse.ir.sparse import Level, SparseConst
from jfuse.ir.types import DType

_VECTORS = {
    DType.i32: (schema.SparseIndexVector.Int32Vector, schema.Int32VectorT),
    DType.u16: (schema.SparseIndexVector.Uint16Vector, schema.Uint16VectorT),
    DType.u8: (schema.SparseIndexVector.Uint8Vector, schema.Uint8VectorT),
}


def sparsity_table(const: Const) -> Any:
    """The table of a sparse constant; None for a dense one."""
    if not isinstance(const, SparseConst):
        return None
    table = schema.SparsityParametersT()
    table.traversalOrder = np.array(const.sparsity.order, np.int32)
    table.blockMap = np.array(const.sparsity.blocks, np.int32)
    table.dimMetadata = [_level(level) for level in const.sparsity.levels]
    return table


def _level(level: Level) -> Any:
    table = schema.DimensionMetadataT()
    if isinstance(level, int):
        table.format, table.denseSize = schema.DimensionType.DENSE, level
        return table
    table.format = schema.DimensionType.SPARSE_CSR
    (table.arraySegmentsType, table.arraySegments), (table.arrayIndicesType, table.arrayIndices) = map(_vector, level)
    return table


def _vector(const: Const) -> tuple[int, Any]:
    number, kind = _VECTORS[const.type.dtype]
    vector = kind()
    vector.values = const.array
    return number, vector
