"""`TensorType`: the element type, shape and quantization of a tensor."""

from __future__ import annotations

import builtins
import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from ai_edge_litert import schema_py_generated as generated

from jfuse.ir.dims import Dim, Shape, is_known, product, substitute_dim
from jfuse.ir.quantization import Quantization


class DType(enum.Enum):
    """An element type of TFLite's schema. The value is the short name that the text form prints."""

    f32 = "f32"
    f16 = "f16"
    bf16 = "bf16"
    f64 = "f64"
    i8 = "i8"
    i16 = "i16"
    i32 = "i32"
    i64 = "i64"
    u8 = "u8"
    u16 = "u16"
    u32 = "u32"
    u64 = "u64"
    i4 = "i4"
    u4 = "u4"
    i2 = "i2"
    f8e4m3fn = "f8e4m3fn"
    f8e5m2 = "f8e5m2"
    c64 = "c64"
    c128 = "c128"
    bool = "bool"
    string = "string"
    resource = "resource"
    variant = "variant"

    def __repr__(self) -> str:
        return self.value

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of arrays of this type; strings are object arrays of bytes."""
        return _NUMPY[self]

    @property
    def is_float(self) -> builtins.bool:
        """f16, bf16, f32, f64 and the 8-bit floats."""
        return self in _FLOATS

    @property
    def is_integer(self) -> builtins.bool:
        """Signed and unsigned integers of any width; bool is not one."""
        return self.value[0] in "iu" and self.value[1:].isdigit()

    @classmethod
    def of(cls, dtype: object) -> DType:
        """The DType of a NumPy dtype, or of anything that `np.dtype` takes. Raises KeyError for those TFLite lacks."""
        numpy_dtype = np.dtype(dtype)  # type: ignore[call-overload]
        return cls.string if numpy_dtype.kind in "SUO" else _FROM_NUMPY[numpy_dtype]


_NUMPY: Mapping[DType, np.dtype[Any]] = {
    DType.f32: np.dtype(np.float32),
    DType.f16: np.dtype(np.float16),
    DType.bf16: np.dtype(ml_dtypes.bfloat16),
    DType.f64: np.dtype(np.float64),
    DType.i8: np.dtype(np.int8),
    DType.i16: np.dtype(np.int16),
    DType.i32: np.dtype(np.int32),
    DType.i64: np.dtype(np.int64),
    DType.u8: np.dtype(np.uint8),
    DType.u16: np.dtype(np.uint16),
    DType.u32: np.dtype(np.uint32),
    DType.u64: np.dtype(np.uint64),
    DType.i4: np.dtype(ml_dtypes.int4),
    DType.u4: np.dtype(ml_dtypes.uint4),
    DType.i2: np.dtype(ml_dtypes.int2),
    DType.f8e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.f8e5m2: np.dtype(ml_dtypes.float8_e5m2),
    DType.c64: np.dtype(np.complex64),
    DType.c128: np.dtype(np.complex128),
    DType.bool: np.dtype(np.bool_),
    DType.string: np.dtype(object),
    DType.resource: np.dtype(object),
    DType.variant: np.dtype(object),
}
_FROM_NUMPY = {numpy: dtype for dtype, numpy in _NUMPY.items() if numpy != np.dtype(object)}
_FLOATS = frozenset({DType.f16, DType.bf16, DType.f32, DType.f64, DType.f8e4m3fn, DType.f8e5m2})


@dataclass(frozen=True, slots=True)
class HeldType:
    """The type of the tensors that a variant holds, as a file states it.

    shape: -1 where a size is open; None where even the rank is unknown.
    """

    dtype: DType
    shape: tuple[int, ...] | None

    def __str__(self) -> str:
        dims = "*" if self.shape is None else ",".join("?" if d < 0 else str(d) for d in self.shape)
        return f"{self.dtype.value}[{dims}]"


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and dtype of one tensor; a dimension is an int or symbolic, known only at run time.

    ranked: False where a file tells not even how many dimensions there are; the shape is () then.
    holds: of a variant, what the file says of the tensors in it.
    """

    shape: Shape
    dtype: DType
    quantization: Quantization | None = None
    ranked: bool = True
    holds: tuple[HeldType, ...] = ()

    def __str__(self) -> str:
        dims = ",".join(str(dim).replace(" ", "") for dim in self.shape) if self.ranked else "*"
        holds = f"{{{' '.join(map(str, self.holds))}}}" if self.holds else ""
        return f"{self.dtype.value}[{dims}]{holds}{self.quantization or ''}"

    @property
    def rank(self) -> int:
        """The number of dimensions, which is always known."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements: an int, or an expression of symbols where dimensions are open."""
        return product(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return all(is_known(dim) for dim in self.shape)

    def substitute(self, sizes: Mapping[str, Dim]) -> TensorType:
        """This type with sizes in place of symbols: `f32[B,8]` with {"B": 4} is `f32[4,8]`."""
        if not sizes or self.is_static:
            return self
        return replace(self, shape=tuple(substitute_dim(dim, sizes) for dim in self.shape))


TENSOR_TYPES: Mapping[DType, int] = {
    DType.f32: generated.TensorType.FLOAT32,
    DType.f16: generated.TensorType.FLOAT16,
    DType.bf16: generated.TensorType.BFLOAT16,
    DType.f64: generated.TensorType.FLOAT64,
    DType.i8: generated.TensorType.INT8,
    DType.i16: generated.TensorType.INT16,
    DType.i32: generated.TensorType.INT32,
    DType.i64: generated.TensorType.INT64,
    DType.u8: generated.TensorType.UINT8,
    DType.u16: generated.TensorType.UINT16,
    DType.u32: generated.TensorType.UINT32,
    DType.u64: generated.TensorType.UINT64,
    DType.i4: generated.TensorType.INT4,
    DType.u4: generated.TensorType.UINT4,
    DType.i2: generated.TensorType.INT2,
    DType.f8e4m3fn: generated.TensorType.FLOAT8_E4M3FN,
    DType.f8e5m2: generated.TensorType.FLOAT8_E5M2,
    DType.c64: generated.TensorType.COMPLEX64,
    DType.c128: generated.TensorType.COMPLEX128,
    DType.bool: generated.TensorType.BOOL,
    DType.string: generated.TensorType.STRING,
    DType.resource: generated.TensorType.RESOURCE,
    DType.variant: generated.TensorType.VARIANT,
}
DTYPES: Mapping[int, DType] = {code: dtype for dtype, code in TENSOR_TYPES.items()}
"""The numbers that the file format has for element types, and back."""
