"""The tensors of one subgraph: their names, types and data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import JfuseError, LowerError
from jfuse.ir.dims import Shape, is_known
from jfuse.ir.graph import Atom, Const, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.sparse import Level, SparseConst
from jfuse.ir.types import TENSOR_TYPES, DType, HeldType, TensorType
from jfuse.tflite.names import Names
from jfuse.tflite.schema import QUANTIZED_IN_BLOCKS
from jfuse.tflite.write.buffers import Buffers

_LARGEST_SIZE = 2**31 - 1  # of one axis


class WrittenTensors:
    """The tensors of one subgraph, by their index in `tables`.

    graph_name: for messages. named: the names of some, which come before all others.
    """

    def __init__(self, buffers: Buffers, graph_name: str, named: Mapping[Atom, str] = MappingProxyType({})) -> None:
        self._named = named
        self.tables: list[Any] = []
        self.places: dict[Var, int] = {}
        self._constants: dict[tuple[int, Quantization | None], int] = {}
        self._buffers = buffers
        self._names = Names()
        self._graph_name = graph_name

    def bind(self, var: Var, name: str) -> int:
        """A tensor for a Var, under its own name where it has one."""
        self.places[var] = self.add(self._named.get(var) or var.name or name, var.type)
        return self.places[var]

    def of(self, atom: Atom, name: str) -> int:
        """The tensor of a bound Var, or of a constant, which is called `name` where it has none."""
        if isinstance(atom, Var):
            if atom not in self.places:
                raise JfuseError("a variable is read before it is bound", where=self._graph_name, found=repr(atom))
            return self.places[atom]
        key = (self._buffers.contents(atom), atom.quantization)
        if key not in self._constants:
            self._constants[key] = self._add_constant(atom, name)
        return self._constants[key]

    def intermediates(self, variables: Sequence[Var], name: str) -> np.ndarray:
        """New tensors for Vars that nothing else reads: i32[n]."""
        places = [self.bind(var, name) for var in variables]
        for place, var in zip(places, variables, strict=True):
            if var.type.quantization is None:
                # TensorFlow's quantizer takes even an empty table for the calibrated range (quantize_model.cc).
                self.tables[place].quantization = None
        return np.array(places, np.int32)

    def add(self, name: str, tensor_type: TensorType, buffer: int = 0) -> int:
        """A new tensor; raises LowerError where a size is more than a file can say."""
        if any(is_known(d) and d > _LARGEST_SIZE for d in tensor_type.shape):
            raise LowerError("a tensor is too large for a file", where=name, found=str(tensor_type))
        table = schema.TensorT()
        table.name = self._names.unique(name)
        table.type = TENSOR_TYPES[tensor_type.dtype]
        table.buffer = buffer
        table.hasRank = tensor_type.ranked
        table.shape = np.array([d if is_known(d) else 1 for d in tensor_type.shape], np.int32)
        if not tensor_type.is_static:
            table.shapeSignature = np.array([d if is_known(d) else -1 for d in tensor_type.shape], np.int32)
        table.quantization = _quantization(tensor_type.quantization)
        table.variantTensors = [_held(held) for held in tensor_type.holds] or None
        self.tables.append(table)
        place = len(self.tables) - 1
        if tensor_type.quantization is not None and tensor_type.quantization.block_size:
            self._add_blocks(table, tensor_type.shape, tensor_type.quantization)
        return place

    def _add_blocks(self, table: Any, shape: Shape, quantization: Quantization) -> None:
        """The scales of blocks, as a tensor that the quantization names."""
        blocks = (*shape[:-1], shape[-1] // quantization.block_size)
        scales = Const(np.array(quantization.block_scale, np.float16).reshape([int(d) for d in blocks]))
        table.quantization.detailsType = QUANTIZED_IN_BLOCKS
        table.quantization.details = schema.BlockwiseQuantizationT(
            self.of(scales, f"{table.name}/scales"), -1, quantization.block_size
        )

    def _add_constant(self, const: Const, name: str) -> int:
        name = self._named.get(const) or const.name or name
        place = self.add(name, const.type, self._buffers.constant(const))
        self.tables[place].sparsity = sparsity_table(const)
        return place


def _held(held: HeldType) -> Any:
    table = schema.VariantSubTypeT()
    table.type = TENSOR_TYPES[held.dtype]
    table.shape = None if held.shape is None else np.array(held.shape, np.int32)
    table.hasRank = held.shape is not None
    return table


def _quantization(quantization: Quantization | None) -> Any:
    table = schema.QuantizationParametersT()  # empty for float tensors: readers of every age take it
    if quantization is not None:
        table.scale = np.array(quantization.scale, np.float32)
        table.zeroPoint = np.array(quantization.zero_point, np.int64)
        table.quantizedDimension = quantization.axis
        if quantization.minimum:
            table.min = np.array(quantization.minimum, np.float32)
        if quantization.maximum:
            table.max = np.array(quantization.maximum, np.float32)
    return table


# The tables of a file that place the elements of a sparse constant.

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
