"""Products of matrices, diagonals, spectra: their rows."""

from __future__ import annotations

from jfuse.ir.types import DType
from jfuse.tflite.runtime.needs import (
    I16_I8,
    asymmetric,
    at,
    bias_typed,
    both,
    columns,
    hybrid,
    never,
    option,
    option_not,
    per_channel,
    product_of,
    sparse,
)
from jfuse.tflite.runtime.quantized import I8_I4, Hybrid, Quantized, WeightOperand, beside_floats, integers
from jfuse.tflite.runtime.row import Row, Runtime, Values, takes, versions

# Without XNNPACK the kernel leaves the activation out (LiteRT 2.3.0).
_BLOCKS = Hybrid(DType.i4, "block", needs=never(option_not("fused_activation_function", "NONE")))

ROWS: tuple[Row, ...] = (
    Row(
        "BATCH_MATMUL",
        litert=Runtime(
            versions("2.3.0 2.3.0 2.4.0 2.5.0", *I16_I8, (4, asymmetric(1))),
            takes(operand=None, result="f32", broadcasts=None, values=Values.COMPUTED),
            quantized=Quantized(
                integers("i8 i16", "free"),
                (WeightOperand(1, columns, beside_floats(tensor="i8"), integer_per_channel=False, computed=True),),
            ),
        ),
    ),
    Row(
        "COMPLEX_ABS",
        litert=Runtime(
            versions("2.5.0"), takes(operand="c64 c128", result=None, broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "FULLY_CONNECTED",
        litert=Runtime(
            versions(
                "1.5.0 1.10.0 1.14.0 1.14.0 2.0.0 2.1.0 2.3.0 2.3.0 2.3.0 2.11.0 2.15.0 2.17.0 2.18.0 2.21.0",
                (14, at(1, "i2")),
                (13, product_of("i16", "i4")),
                (12, both(hybrid(1), per_channel(1))),
                (11, both(product_of("i16", "i8"), bias_typed)),
                (8, sparse(1)),
                (7, product_of("i16", "i16")),
                (6, lambda eqn: len(eqn.inputs) < 3),
                (5, option("keep_num_dims")),
                (4, product_of("i8", "i8")),
                (10, product_of("i8", "i4")),
                (9, asymmetric(1)),
                (3, hybrid(1)),
                (2, option_not("weights_format", "DEFAULT")),
            ),
            takes(operand=None, result="f32", broadcasts=None, values=Values.COMPUTED),
            quantized=Quantized(
                integers("i8 i16", "free", bias=2),
                (
                    WeightOperand(
                        1,
                        0,
                        (*beside_floats(tensor="i8 i4 i2", channel="i8 i4 i2"), _BLOCKS),
                        integer=I8_I4,
                    ),
                ),
            ),
        ),
    ),
    Row(
        "IMAG",
        litert=Runtime(
            versions("2.5.0"), takes(operand="c64 c128", result=None, broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "MATRIX_DIAG",
        litert=Runtime(
            versions("1.14.0"),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8 u32", broadcasts=None, values=Values.MOVED),
        ),
    ),
    Row(
        "MATRIX_SET_DIAG",
        litert=Runtime(
            versions("1.14.0"),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8 u32", broadcasts=None, values=Values.MOVED),
        ),
    ),
    Row(
        "REAL",
        litert=Runtime(
            versions("2.5.0"), takes(operand="c64 c128", result=None, broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "RFFT2D",
        litert=Runtime(versions("2.5.0"), takes(operand="f32", result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
)
