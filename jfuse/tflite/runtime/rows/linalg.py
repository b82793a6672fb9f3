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
from jfuse.tflite.runtime.row import Row, Values, kernel

# Without XNNPACK the kernel leaves the activation out (LiteRT 2.3.0).
_BLOCKS = Hybrid(DType.i4, "block", needs=never(option_not("fused_activation_function", "NONE")))

ROWS: tuple[Row, ...] = (
    kernel(
        "BATCH_MATMUL",
        "2.3.0 2.3.0 2.4.0 2.5.0",
        *I16_I8,
        (4, asymmetric(1)),
        result="f32",
        values=Values.COMPUTED,
        quantized=Quantized(
            integers("i8 i16", "free"),
            (WeightOperand(1, columns, beside_floats(tensor="i8"), integer_per_channel=False, computed=True),),
        ),
    ),
    kernel("COMPLEX_ABS", "2.5.0", operand="c64 c128", values=Values.COMPUTED),
    kernel(
        "FULLY_CONNECTED",
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
        result="f32",
        values=Values.COMPUTED,
        quantized=Quantized(
            integers("i8 i16", "free", bias=2),
            (WeightOperand(1, 0, (*beside_floats(tensor="i8 i4 i2", channel="i8 i4 i2"), _BLOCKS), integer=I8_I4),),
        ),
    ),
    kernel("IMAG", "2.5.0", operand="c64 c128", values=Values.COMPUTED),
    kernel("MATRIX_DIAG", "1.14.0", result="f32 i8 i16 i32 i64 u8 u32", values=Values.MOVED),
    kernel("MATRIX_SET_DIAG", "1.14.0", result="f32 i8 i16 i32 i64 u8 u32", values=Values.MOVED),
    kernel("REAL", "2.5.0", operand="c64 c128", values=Values.COMPUTED),
    kernel("RFFT2D", "2.5.0", operand="f32", values=Values.COMPUTED),
)
