"""QUANTIZE and DEQUANTIZE: every value of every narrow type against LiteRT, and what arrays cannot say."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.nn.quantize import dequantized
from tests.corpus.quantized import apply, file_of, floats, integers, weights
from tests.corpus.whole_file import WholeFile


@pytest.mark.parametrize(
    ("dtype", "zero_point"),
    [(DType.i8, 0), (DType.i8, 7), (DType.i8, -128), (DType.u8, 0), (DType.u8, 120), (DType.i16, 0)],
)
@pytest.mark.parametrize("scale", [0.05, 0.0123, 1 / 256])
def test_every_value(dtype: DType, zero_point: int, scale: float) -> None:
    limits = np.iinfo(dtype.numpy)
    x = np.arange(limits.min, limits.max + 1, dtype=dtype.numpy)
    operand = integers(x.size, dtype=dtype, scale=scale, zero_point=zero_point)
    file = file_of("dequantize", apply(ops.dequantize, (operand,), floats(x.size)))
    wanted = WholeFile(file.make()).run("serving_default", {"x0": x}, ["y0"])["y0"]
    quantization = Quantization((scale,), (zero_point,))
    for found in (dequantized(x, quantization), jax.jit(lambda x: dequantized(x, quantization))(x)):
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_scale_for_each_index(axis: int) -> None:
    scales = np.array([0.01, 0.02, 0.5], np.float32)
    x = weights(3, 3, scale=scales.tolist(), axis=axis)
    assert x.quantization is not None
    wanted = x.array.astype(np.float32) * np.expand_dims(scales, 1 - axis)
    assert np.array_equal(dequantized(x.array, x.quantization), wanted)


def test_halves() -> None:
    x = np.array([1.5, -2, np.inf], np.float16)
    assert ops.dequantize(x).dtype == np.float32
    assert np.array_equal(ops.dequantize(x), x.astype(np.float32))


def test_arrays_carry_no_scale() -> None:
    with pytest.raises(TypeMismatch, match="integers without a scale"):
        ops.dequantize(np.zeros(3, np.int8))
    with pytest.raises(TypeMismatch, match="the integers depend on the type of the result"):
        ops.quantize(np.zeros(3, np.float32))
