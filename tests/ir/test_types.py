"""Element types and tensor types."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.ir.dims import symbol
from jfuse.ir.graph import Const
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType

B = symbol("B")
OBJECTS = {DType.string, DType.resource, DType.variant}


@pytest.mark.parametrize("dtype", [d for d in DType if d not in OBJECTS])
def test_numpy_dtypes_come_back(dtype: DType) -> None:
    assert DType.of(dtype.numpy) is dtype


@pytest.mark.parametrize("array", [np.array([b"a"], object), np.array([b"a"]), np.array(["a"])])
def test_text_is_string(array: np.ndarray) -> None:
    assert DType.of(array.dtype) is DType.string


def test_dtypes_that_tflite_lacks_are_no_dtypes() -> None:
    with pytest.raises(KeyError):
        DType.of(np.dtype("datetime64[s]"))


def test_families() -> None:
    assert {d.value for d in DType if d.is_float} == {"f16", "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2"}
    widths = {f"{sign}{bits}" for sign in "iu" for bits in (4, 8, 16, 32, 64)} | {"i2"}
    assert {d.value for d in DType if d.is_integer} == widths


@pytest.mark.parametrize(
    ("tensor_type", "text"),
    [
        (TensorType((), DType.f32), "f32[]"),
        (TensorType((B, 20, 8), DType.f32), "f32[B,20,8]"),
        (TensorType((2 * B + 1,), DType.string), "string[2*B+1]"),
        (TensorType((B, 4), DType.i8, Quantization((0.5,), (-3,))), "i8[B,4]{scale=(0.5,) zero_point=(-3,) axis=0}"),
    ],
)
def test_text(tensor_type: TensorType, text: str) -> None:
    assert str(tensor_type) == text


def test_sizes() -> None:
    assert TensorType((2, B, 3), DType.f32).size == 6 * B
    assert TensorType((2, B, 3), DType.f32).rank == 3
    assert not TensorType((2, B), DType.f32).is_static
    assert TensorType((2, 3), DType.f32).is_static


def test_substitute() -> None:
    tensor_type = TensorType((B, 2 * B), DType.i8, Quantization((0.5,), (0,)))
    assert tensor_type.substitute({"B": 4}) == TensorType((4, 8), DType.i8, Quantization((0.5,), (0,)))
    assert tensor_type.substitute({}) is tensor_type


def test_digests_tell_dtype_shape_and_contents() -> None:
    arrays = [
        np.zeros(4, np.float32),
        np.zeros(4, np.int32),
        np.zeros((2, 2), np.float32),
        np.array([0.0, 0, 0, -0.0], np.float32),
        np.array([b"ab", b"c"], object),
        np.array([b"a", b"bc"], object),
    ]
    assert len({Const(a).digest for a in arrays}) == len(arrays)
    transposed = np.arange(6, dtype=np.int32).reshape(2, 3).T
    assert Const(transposed).digest == Const(np.ascontiguousarray(transposed)).digest
