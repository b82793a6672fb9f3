"""The tensors of one subgraph of a .tflite file: what the file states of them, and their constant data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.base.errors import BadFlatbuffer, LowerError
from jfuse.ir.declared_types import fits
from jfuse.ir.dims import SymbolNames, same
from jfuse.ir.graph import Const
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DTYPES, DType, HeldType, TensorType
from jfuse.tflite.read.buffers import ReadBuffers
from jfuse.tflite.read.fields import checked_index, floats, integers, text
from jfuse.tflite.schema import QUANTIZED_IN_BLOCKS

_MOST_AXES = 64  # more than any kernel takes
_MOST_ELEMENTS = 2**48


class ReadTensors:
    """Checked access to the tensors of one subgraph; they go by their index.

    where: the subgraph, for messages.
    """

    def __init__(self, tables: Sequence[Any], buffers: ReadBuffers, where: str) -> None:
        self._tables = tables
        self._buffers = buffers
        self._where = where
        self._declared: dict[int, tuple[tuple[int, ...], DType]] = {}
        self._quantizations: dict[int, Quantization | None] = {}

    def places(self, vector: Any, *, optional: bool = False) -> tuple[int, ...]:
        """The tensors that a vector names; -1 for an omitted operand where it may be one."""
        if vector is None or not len(vector):
            return ()
        for place in (int(vector.min()), int(vector.max())):  # before a list is made of what may be a corrupt vector
            if not (optional and place == -1):
                checked_index(place, len(self._tables), "tensor", self._where)
        return integers(vector)

    def exactly(self, vector: Any, count: int, where: str) -> tuple[int, ...]:
        """As `places`, of a vector that must have so many items."""
        places = self.places(vector)
        if len(places) != count:
            message = "an operator has another number of operands or results"
            raise BadFlatbuffer(message, where=where, expected=count, found=len(places))
        return places

    def name(self, index: int) -> str:
        """The name that the file gives a tensor, which may be empty."""
        return text(self._tables[index].name, f"{self._where} tensor {index}")

    def place(self, index: int) -> str:
        """How messages call a tensor: its subgraph, index and name."""
        return f"{self._where} tensor {index} {self.name(index)!r}"

    def is_variable(self, index: int) -> bool:
        """Whether a tensor is marked as one that is written in place."""
        return bool(self._tables[index].isVariable)

    def variables(self) -> list[int]:
        """The tensors that are marked so; they have no data, or the runtime refuses the file."""
        indices = [index for index, tensor in enumerate(self._tables) if tensor.isVariable]
        for index in indices:
            if self._buffers.data_of(self._tables[index], self.place(index)) is not None:
                raise BadFlatbuffer("a tensor that is written in place has data", where=self.place(index))
        return indices

    def has_rank(self, index: int) -> bool:
        """Whether the file says how many dimensions a tensor has; old files say so of none without any."""
        return bool(self._tables[index].hasRank) or bool(self.declared(index)[0])

    def declared(self, index: int) -> tuple[tuple[int, ...], DType]:
        """The shape, -1 where it is open, and the dtype that the file states for a tensor."""
        if index not in self._declared:
            self._declared[index] = self._read_declared(index)
        return self._declared[index]

    def allocated(self, index: int) -> tuple[int, ...]:
        """The shape that a tensor has at first, with a number where it is open."""
        self.declared(index)
        return integers(self._tables[index].shape)

    def _read_declared(self, index: int) -> tuple[tuple[int, ...], DType]:
        tensor = self._tables[index]
        if tensor.type not in DTYPES:
            raise BadFlatbuffer("a tensor has an unknown type", where=self.place(index), found=tensor.type)
        if max(len(d) for d in (tensor.shape, tensor.shapeSignature, ()) if d is not None) > _MOST_AXES:
            raise BadFlatbuffer(
                "a tensor has an impossible shape", where=self.place(index), found=f"> {_MOST_AXES} axes"
            )
        shape = integers(tensor.shape)
        signature = integers(tensor.shapeSignature) or shape
        if len(signature) != len(shape) or any(d < -1 for d in signature) or any(d < 0 for d in shape):
            where = self.place(index)
            raise BadFlatbuffer("a tensor has an impossible shape", where=where, found=f"{shape}, {signature}")
        if math.prod(max(d, 1) for d in shape) > _MOST_ELEMENTS:
            raise BadFlatbuffer("a tensor is larger than any memory", where=self.place(index), found=str(shape))
        return signature, DTYPES[tensor.type]

    def quantization(self, index: int) -> Quantization | None:
        """Return the quantization of a tensor; None for plain numbers."""
        if index not in self._quantizations:
            self._quantizations[index] = self._read_quantization(index)
        return self._quantizations[index]

    def _read_quantization(self, index: int) -> Quantization | None:
        table = self._tables[index].quantization
        if table is None or ((table.scale is None or not len(table.scale)) and not table.detailsType):
            return None
        shape, axis = self.declared(index)[0], int(table.quantizedDimension)
        scales = 0 if table.scale is None else len(table.scale)
        zero_points = 1 if table.zeroPoint is None else len(table.zeroPoint)
        if shape and not 0 <= axis < len(shape):
            raise BadFlatbuffer(
                "a tensor is quantized along an axis that it lacks", where=self.place(index), found=axis
            )
        if scales > 1 and shape and shape[axis] not in (-1, scales):
            raise BadFlatbuffer(
                f"a tensor has not one scale for each index of axis {axis}",
                where=self.place(index),
                expected=shape[axis],
                found=scales,
            )
        if zero_points not in (1, scales):
            raise BadFlatbuffer(
                "a tensor has another number of zero points than of scales",
                where=self.place(index),
                expected=f"1 or {scales}",
                found=zero_points,
            )
        scale, zero_point = floats(table.scale), integers(table.zeroPoint) or ((0,) if scales else ())
        block_size, block_scale = self._blocks(table, index) if table.detailsType else (0, ())
        ranges = floats(table.min), floats(table.max)
        return Quantization(scale, zero_point, axis, *ranges, block_size, block_scale)

    def _blocks(self, table: Any, index: int) -> tuple[int, tuple[float, ...]]:
        """The size of the blocks along the last axis of a tensor, and the scale of each."""
        where = self.place(index)
        details = table.details
        known = table.detailsType == QUANTIZED_IN_BLOCKS and details is not None
        if not known or details.zeroPoints > 0 or integers(details.blockShape):
            remedy = "quantize it per tensor, per axis, or in blocks with zero points of 0"
            raise LowerError("a tensor is quantized in a way that jfuse does not know", where=where, remedy=remedy)
        shape, size = self.declared(index)[0], int(details.blockSize)
        place = checked_index(int(details.scales), len(self._tables), "tensor", where)
        scales = None if place == index else self.constant(place)
        if size < 1 or not shape or scales is None or scales.array.dtype != np.float16:
            raise BadFlatbuffer("the blocks of a tensor have no scales in f16", where=where)
        if scales.array.size * size != math.prod(shape) or shape[-1] % size:
            mismatch = f"{scales.array.size} scales of {size} numbers"
            raise BadFlatbuffer("the blocks do not fill the tensor", where=where, expected=shape, found=mismatch)
        return size, tuple(scales.array.astype(np.float32).ravel().tolist())

    def element(self, index: int) -> TensorType:
        """The dtype and quantization of a tensor, as those of a scalar, and what it holds where it is a variant."""
        return TensorType((), self.declared(index)[1], self.quantization(index), holds=self._holds(index))

    def _holds(self, index: int) -> tuple[HeldType, ...]:
        tables = self._tables[index].variantTensors or ()
        if tables and self.declared(index)[1] is not DType.variant:
            raise BadFlatbuffer("a tensor that is no variant holds tensors", where=self.place(index))
        return tuple(self._held(table, index) for table in tables)

    def _held(self, table: Any, index: int) -> HeldType:
        shape = () if table.shape is None else integers(table.shape[: _MOST_AXES + 1])
        if table.type not in DTYPES or len(shape) > _MOST_AXES or any(d < -1 for d in shape):
            mismatch = f"type {table.type}, shape {shape}"
            raise BadFlatbuffer(
                "a variant holds tensors of an impossible type", where=self.place(index), found=mismatch
            )
        return HeldType(DTYPES[table.type], shape if shape or table.hasRank else None)

    def type(self, index: int, names: SymbolNames) -> TensorType:
        """The stated type of a tensor: each open dimension is a symbol of its own, B for axis 0 and N for others."""
        shape = self.declared(index)[0]
        dims = (names.fresh("N" if axis else "B") if d < 0 else d for axis, d in enumerate(shape))
        return replace(self.element(index), shape=tuple(dims))

    def compare(self, index: int, derived: TensorType, *, stated: bool = False) -> None:
        """Raise BadFlatbuffer where the file states another type than follows from the operators.

        stated: floats stood in for what is quantized, so that f32 may be any number.
        """
        shape, dtype = self.declared(index)
        dims = zip(shape, derived.shape, strict=False)
        shapes = not (self.has_rank(index) and derived.ranked) or (
            len(shape) == derived.rank and all(d < 0 or same(d, e) is not False for d, e in dims)
        )
        alike = dtype is derived.dtype or (stated and fits(TensorType((), dtype), TensorType((), derived.dtype)))
        if not alike or not shapes:
            file_type = f"{dtype.value}[{','.join('?' if d < 0 else str(d) for d in shape)}]"
            raise BadFlatbuffer(
                "the file states another type than its operators give",
                where=self.place(index),
                expected=str(derived),
                found=file_type,
            )

    def constant(self, index: int) -> Const | None:
        """The constant of a tensor; None for one that is computed."""
        dtype, shape = self.declared(index)[1], self.allocated(index)  # what has data has a size
        tensor_type = TensorType(shape, dtype, self.quantization(index))
        table, where = self._tables[index], self.place(index)
        const = self._buffers.constant(table, tensor_type, self.name(index) or None, where)
        if const is None and 0 in shape and dtype is not DType.string:
            return Const(np.zeros(shape, dtype.numpy), self.name(index) or None, tensor_type.quantization)
        return const
