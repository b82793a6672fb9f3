"""Operator versions and oldest runtimes, as TFLite's op_version.cc and runtime_version.cc state them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Eqn, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType
from jfuse.tflite.metadata import min_runtime_bytes, min_runtime_version
from jfuse.tflite.runtime.table import ROWS
from jfuse.tflite.runtime.versions import min_runtime, version_of

PER_TENSOR = Quantization((0.5,), (0,))
PER_CHANNEL = Quantization((0.5, 0.25), (0, 0))


class Named:
    """An op of which only the builtin's name matters here."""

    def __init__(self, builtin: str) -> None:
        self.builtin = builtin
        self.name = builtin.lower()


def tensor(text: str, quantization: Quantization | None = None) -> Var:
    """`i8` is a matrix of that dtype, `i8/5` has rank 5, `i8q` has one scale, `i8c` one per channel."""
    dtype, mark, rank = re.fullmatch(r"([a-z]+\d*)([qc]?)(?:/(\d))?", text).groups()  # type: ignore[union-attr]
    found = {"": quantization, "q": PER_TENSOR, "c": PER_CHANNEL}[mark]
    return Var(TensorType((2,) * int(rank or 2), DType(dtype), found))


def equation(builtin: str, operands: str, result: str = "f32", **params: Any) -> Eqn:
    """Operands as `tensor` takes them; `-` is omitted."""
    atoms = tuple(None if o == "-" else tensor(o) for o in operands.split())
    return Eqn(Named(builtin), atoms, (tensor(result),), params)  # type: ignore[arg-type]


CASES = [
    ("ABS", "i32", {}, 5, "2.12.0"),
    ("ABS", "i16q", {}, 3, "2.5.0"),
    ("ABS", "i16", {}, 4, "2.6.0"),
    ("ABS", "f32", {}, 1, "1.13.0"),
    ("ADD", "f32 f32", {}, 1, "1.5.0"),
    ("ADD", "i64 i64", {}, 4, "2.6.0"),
    ("ADD", "i16 i16", {}, 5, "2.13.0"),
    ("ADD", "i16q i16q", {"pot_scale_int16": False}, 3, "2.4.0"),
    ("ADD", "i16q i16q", {"pot_scale_int16": True}, 1, "1.5.0"),
    ("ARG_MAX", "bool i32", {}, 3, "2.9.0"),
    ("BATCH_MATMUL", "f32 f32", {}, 1, "2.3.0"),
    ("BATCH_MATMUL", "f32 i8", {"asymmetric_quantize_inputs": True}, 4, "2.5.0"),
    ("BATCH_TO_SPACE_ND", "f32/4 i32 i32", {}, 1, "1.6.0"),
    ("BATCH_TO_SPACE_ND", "f32/3 i32 i32", {}, 3, "2.3.0"),
    ("BROADCAST_TO", "f32 i32", {}, 2, "2.5.0"),
    ("BROADCAST_TO", "i8 i32", {}, 3, "2.5.0"),
    ("CAST", "f32", {}, 1, "1.5.0"),
    ("CAST", "f16", {}, 5, "2.12.0"),
    ("CAST", "u16", {}, 4, "2.9.0"),
    ("CAST", "i4", {}, 6, "2.15.0"),
    ("CONCATENATION", "i16 i16", {}, 3, "2.3.0"),
    ("CONV_2D", "i8/4 i8/4 i32/1", {}, 3, "1.14.0"),
    ("CONV_2D", "f32/4 i8c/4 f32/1", {}, 5, "2.4.0"),
    ("CONV_2D", "f32/4 f32/4 f32/1", {}, 1, "1.5.0"),
    ("DEPTHWISE_CONV_2D", "f32/4 f32/4 f32/1", {"dilation_w_factor": 2}, 2, "1.12.0"),
    ("DEQUANTIZE", "i8c", {}, 5, "2.7.0"),
    ("DEQUANTIZE", "f16", {}, 3, "1.15.0"),
    ("DEQUANTIZE", "u8", {}, 1, "1.13.1"),
    ("DIV", "f32/5 f32/5", {}, 1, "1.6.0"),
    ("DIV", "f32/5 f32/1", {}, 2, "2.3.0"),
    ("DYNAMIC_UPDATE_SLICE", "f32 f32 i64/1", {}, 2, "2.17.0"),
    ("EMBEDDING_LOOKUP", "i32/1 f32", {}, 1, "1.13.0"),
    ("EMBEDDING_LOOKUP", "i32/1 i4", {}, 4, "2.18.0"),
    ("EQUAL", "string string", {}, 3, "2.3.0"),
    ("FAKE_QUANT", "f32", {"narrow_range": True}, 2, "1.10.0"),
    ("FILL", "i32/1 string/0", {}, 2, "2.3.0"),
    ("FULLY_CONNECTED", "f32 f32 f32/1", {}, 1, "1.5.0"),
    ("FULLY_CONNECTED", "f32 f32", {}, 6, "2.1.0"),
    ("FULLY_CONNECTED", "f32 f32 -", {}, 1, "1.5.0"),
    ("FULLY_CONNECTED", "f32/3 f32 f32/1", {"keep_num_dims": True}, 5, "2.0.0"),
    ("FULLY_CONNECTED", "f32 i8 f32/1", {}, 3, "1.14.0"),
    ("FULLY_CONNECTED", "f32 i8 f32/1", {"asymmetric_quantize_inputs": True}, 9, "2.3.0"),
    ("FULLY_CONNECTED", "f32 i8c f32/1", {}, 12, "2.17.0"),
    ("FULLY_CONNECTED", "i8 i4 i32/1", {}, 10, "2.11.0"),
    ("FULLY_CONNECTED", "i16 i8 i32/1", {"quantized_bias_type": DType.i32}, 11, "2.15.0"),
    ("FULLY_CONNECTED", "f32 f32 f32/1", {"weights_format": "SHUFFLED4x16INT8"}, 2, "1.10.0"),
    ("GATHER", "f32 i16", {}, 6, "2.13.0"),
    ("GATHER", "f32 i32", {"batch_dims": 1}, 5, "2.5.0"),
    ("GATHER", "f32 i32", {"batch_dims": 0}, 1, "1.6.0"),
    ("GATHER_ND", "string i32", {}, 2, "2.3.0"),
    ("LSTM", "f32 " * 20, {"kernel_type": "BASIC"}, 2, "1.10.0"),
    ("LSTM", "f32 - i8 i8 i8", {"kernel_type": "FULL"}, 3, "1.14.0"),
    ("MAXIMUM", "f32/5 f32/1", {}, 3, "2.3.0"),
    ("MUL", "c64 c64", {}, 6, "2.11.0"),
    ("MUL", "i16q i16q", {}, 4, "2.3.0"),
    ("MUL", "u32 u32", {}, 7, "2.13.0"),
    ("PAD", "f32/5 i32", {}, 4, "2.6.0"),
    ("RESHAPE", "string i32/1", {}, 1, "1.5.0"),
    ("RESIZE_BILINEAR", "f32/4 i32/1", {"half_pixel_centers": True}, 3, "2.2.0"),
    ("REVERSE_V2", "bool i32/1", {}, 2, "2.2.0"),
    ("SELECT", "bool/5 f32/5 f32/5", {}, 3, "2.12.0"),
    ("SELECT", "bool f32 f32/5", {}, 3, "2.12.0"),
    ("SELECT_V2", "bool f32 f32", {}, 1, "2.2.0"),
    ("SLICE", "string i32/1 i32/1", {}, 3, "1.14.0"),
    ("SPARSE_TO_DENSE", "i32 i32 i64/1 i64/0", {}, 2, "1.14.0"),
    ("SPLIT", "i32/0 i32", {}, 3, "1.14.0"),
    ("SPLIT", "i32/0 f32", {}, 1, "1.5.0"),
    ("STRIDED_SLICE", "f32 i32/1 i32/1 i32/1", {"ellipsis_mask": 1}, 6, "2.6.0"),
    ("STRIDED_SLICE", "f32/5 i32/1 i32/1 i32/1", {"ellipsis_mask": 0}, 4, "2.2.0"),
    ("STRIDED_SLICE", "f32 i32/1 i32/1 i32/1", {"offset": True}, 8, "2.14.0"),
    ("SUB", "f32/5 f32/1", {}, 3, "2.3.0"),
    ("TOPK_V2", "f32 i16/0", {}, 3, "2.13.0"),
    ("TRANSPOSE", "f32/5 i32/1", {}, 4, "2.3.0"),
    ("TRANSPOSE", "f32/6 i32/1", {}, 6, "2.12.0"),
    ("TRANSPOSE", "bf16 i32/1", {}, 8, "2.22.0"),
    ("TRANSPOSE_CONV", "i32/1 f32/4 f32/4 f32/1", {"fused_activation_function": "NONE"}, 3, "2.3.0"),
    ("TRANSPOSE_CONV", "i32/1 f32/4 f32/4", {"fused_activation_function": "RELU"}, 4, "2.13.0"),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "f32/3 - i8 i8", {"asymmetric_quantize_inputs": False}, 2, "1.14.0"),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "f32/3 - i8 i8", {"asymmetric_quantize_inputs": True}, 3, "2.3.0"),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "f32/3 f32 f32", {"diagonal_recurrent_tensors": True}, 4, "2.12.0"),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", "f32/3 f32 f32", {}, 1, "1.13.1"),
    ("UNPACK", "u8", {}, 2, "1.14.0"),
    ("WHERE", "bool", {}, 1, "1.14.0"),
    ("WHERE", "f32", {}, 2, "2.8.0"),
    ("WHILE", "f32", {}, 1, "1.15.0"),
]


@pytest.mark.parametrize(("builtin", "operands", "params", "version", "runtime"), CASES)
def test_versions(builtin: str, operands: str, params: dict[str, Any], version: int, runtime: str) -> None:
    assert version_of(equation(builtin, operands, **params)) == version
    assert min_runtime(builtin, version) == runtime


def test_versions_that_hang_on_the_result() -> None:
    assert version_of(equation("QUANTIZE", "f32", "i16")) == 2
    assert version_of(equation("QUANTIZE", "f32", "i8c")) == 3
    assert version_of(equation("QUANTIZE", "f32", "i8")) == 1
    assert version_of(equation("CAST", "f32", "f16")) == 5
    assert version_of(equation("CAST", "f32", "i8")) == 3
    assert version_of(equation("BIDIRECTIONAL_SEQUENCE_LSTM", "f32 i8 i8", "f32")) == 2


def test_grouped_convolution() -> None:
    image, filters = (Var(TensorType(s, DType.f32)) for s in ((1, 8, 8, 4), (6, 3, 3, 2)))
    eqn = Eqn(Named("CONV_2D"), (image, filters), (image,))  # type: ignore[arg-type]
    assert version_of(eqn) == 6


def test_multiplication_that_scales_up() -> None:
    big = Quantization((2.0,), (0,))
    operands = tensor("u8", big), tensor("u8", big)
    assert version_of(Eqn(Named("MUL"), operands, (tensor("u8", big),))) == 3  # type: ignore[arg-type]
    assert version_of(Eqn(Named("MUL"), operands, (tensor("u8", Quantization((9.0,), (0,))),))) == 1  # type: ignore[arg-type]


NO_KERNEL = {"CUSTOM", "CONCAT_EMBEDDINGS", "CALL", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"}
STABLEHLO = {"ADD", "AND", "MULTIPLY", "MAXIMUM", "MINIMUM", "SHIFT_LEFT", "PAD", "SCATTER", "GATHER", "REDUCE_WINDOW"}
STABLEHLO |= {"RNG_BIT_GENERATOR", "COMPOSITE", "CASE"}


@pytest.mark.parametrize("builtin", ROWS)
def test_the_runtime_has_the_kernels_that_its_source_registers(builtin: str) -> None:
    name = builtin.removeprefix("STABLEHLO_")
    if builtin in NO_KERNEL or (name != builtin and name not in STABLEHLO):
        with pytest.raises(JfuseError, match=f"no runtime has a kernel for {builtin}"):
            min_runtime(builtin, 1)
    else:
        assert min_runtime(builtin, 2 if builtin == "BROADCAST_TO" else 1).count(".") == 2


def test_versions_that_do_not_exist() -> None:
    for builtin, version in (("BROADCAST_TO", 1), ("ADD", 7), ("ADD", 0)):
        with pytest.raises(JfuseError, match=f"{builtin} has no version {version}"):
            min_runtime(builtin, version)


def test_the_oldest_runtime_is_compared_by_numbers() -> None:
    used = [("FULLY_CONNECTED", 1), ("SPLIT_V", 1), ("SHAPE", 1), ("RESHAPE", 1)]  # 1.5.0, 1.13.1, 1.10.0
    assert min_runtime_version(used) == "1.13.1"
    assert min_runtime_version([*used, ("CUMSUM", 1), ("GELU", 1), ("ATAN2", 1)]) == "2.10.0"
    assert min_runtime_version([]) == "1.5.0"
    assert min_runtime_bytes([("GELU", 1)]).tobytes() == b"2.9.0" + bytes(11)
