"""Constants as bytes: against the layouts that reference pages of TFLite give, and back."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.types import DType
from jfuse.tflite import tensor_data
from jfuse.tflite.tensor_data import unpack


def pack(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The bytes of a constant that is small enough to come in one part."""
    (part,) = tensor_data.pack(array, dtype)
    return part


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (DType.f32, [1.0], "0000803f"),
        (DType.f16, [1.0, -2.0], "003c00c0"),
        (DType.bf16, [1.0], "803f"),
        (DType.bool, [True, False], "0100"),
        (DType.i64, [-2], "feffffffffffffff"),
        (DType.i4, [1, -1, 7], "f107"),
        (DType.u4, [1, 15, 8], "f108"),
        (DType.i2, [1, -1, -2, 0, 1], "2d01"),
        (DType.c64, [1 + 2j], "0000803f00000040"),
        (DType.f32, [], ""),
        (DType.i4, [], ""),
    ],
)
def test_layouts(dtype: DType, values: list[float], expected: str) -> None:
    array = np.array(values).astype(dtype.numpy)
    data = pack(array, dtype)
    assert data.tobytes().hex() == expected
    back = unpack(data, dtype, array.shape, "here")
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


def test_strings_are_counted_and_pointed_at() -> None:
    array = np.array([[b"ab"], [b""], [b"c\0d"]], object)
    data = pack(array, DType.string)
    header = [3, 20, 22, 22, 25]  # the count, and where each string starts and the last one ends
    assert data.tobytes() == np.array(header, "<i4").tobytes() + b"abc\0d"
    assert unpack(data, DType.string, (3, 1), "here").tolist() == array.tolist()
    assert pack(np.empty((0,), object), DType.string).tobytes() == np.array([0, 8], "<i4").tobytes()


def test_rows_of_packed_integers_are_not_padded() -> None:
    array = np.array([[1, 2, 3], [4, 5, 6]]).astype(DType.i4.numpy)
    assert pack(array, DType.i4).tolist() == [0x21, 0x43, 0x65]
    assert np.array_equal(unpack(pack(array, DType.i4), DType.i4, (2, 3), "here"), array)


def test_plain_constants_are_views() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.shares_memory(pack(array, DType.f32), array)
    assert np.shares_memory(unpack(pack(array, DType.f32), DType.f32, (3, 2), "here"), array)


@pytest.mark.parametrize(
    ("dtype", "data", "shape", "reason"),
    [
        (DType.f32, bytes(7), (2,), "too short"),
        (DType.i4, bytes(1), (3,), "too short"),
        (DType.string, bytes(4), (0,), "too short"),
        (DType.string, np.array([2, 12, 12], "<i4").tobytes(), (1,), "another number of strings"),
        (DType.string, np.array([1, 12, 99], "<i4").tobytes(), (1,), "out of order"),
        (DType.string, np.array([1, 4, 12], "<i4").tobytes(), (1,), "out of order"),
        (DType.string, np.array([2, 16, 15, 16], "<i4").tobytes(), (2,), "out of order"),
        (DType.bool, b"\x02", (1,), "other than 0 and 1"),
    ],
)
def test_bytes_that_do_not_fit(dtype: DType, data: bytes, shape: tuple[int, ...], reason: str) -> None:
    with pytest.raises(BadFlatbuffer, match=f"{reason} at here"):
        unpack(np.frombuffer(data, np.uint8), dtype, shape, "here")
