"""Products of matrices, spectra, activations, convolutions, pooling, normalization, quantization: their rows."""

from __future__ import annotations

from types import MappingProxyType

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.kernels.nn.quantize import nudged_range
from jfuse.tflite.runtime.needs import (
    I8,
    I16_I8,
    asymmetric,
    at,
    bias_typed,
    both,
    columns,
    either,
    first,
    hybrid,
    is_grouped,
    never,
    option,
    option_not,
    per_channel,
    product_of,
    result,
    sparse,
)
from jfuse.tflite.runtime.quantized import (
    I8_I4,
    Hybrid,
    Quantized,
    TrainedRange,
    WeightOperand,
    beside_floats,
    integers,
)
from jfuse.tflite.runtime.row import ALL_BUT_STRINGS, MOST_AXES, OVERWRITTEN, Row, Values, kernel


def _of_fake_quant(eqn: Eqn) -> TrainedRange:
    narrow, bits = bool(eqn.params["narrow_range"]), int(eqn.params["num_bits"])
    step, low, high = nudged_range(eqn.params["min"], eqn.params["max"], bits, narrow)
    return TrainedRange(low, high, step, bits, int(narrow))


_LOGISTIC_ENDS = MappingProxyType({DType.i8: 6.3, DType.i16: 10.7})
_TANH_ENDS = MappingProxyType({DType.i8: 3.2, DType.i16: 5.4})
"""Beyond these the results are the last steps. The tables of 16 bits end at 255 * 512 / 12288 and at half of it
(reference/integer_ops/logistic.h and tanh.h); integers whose scale is over 5 wrap around there."""


# Without XNNPACK the kernel leaves the activation out (LiteRT 2.3.0).
_BLOCKS = Hybrid(DType.i4, "block", needs=never(option_not("fused_activation_function", "NONE")))


ROWS: tuple[Row, ...] = (
    kernel(
        "AVERAGE_POOL_2D",
        "1.5.0 1.14.0 2.3.0",
        *I16_I8,
        result="f32",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", "same"),
    ),
    kernel(
        "CONV_2D",
        "1.5.0 1.14.0 1.14.0 2.3.0 2.4.0 2.9.0 2.11.0 2.15.0",
        (8, both(product_of("i16", "i8"), bias_typed)),
        (6, is_grouped),
        (4, product_of("i16", "i16")),
        (3, product_of("i8", "i8")),
        (7, product_of("i8", "i4")),
        (5, both(hybrid(1), per_channel(1))),
        (2, hybrid(1)),
        result="f32",
        values=Values.COMPUTED,
        quantized=Quantized(
            integers("i8 i16", "free", bias=2),
            (WeightOperand(1, 0, beside_floats(tensor="i8 i4", channel="i8 i4"), integer=I8_I4),),
        ),
    ),
    kernel(
        "CONV_3D", "2.5.0", result="f32", values=Values.COMPUTED, quantized=Quantized(weights=(WeightOperand(1, 4),))
    ),
    kernel(
        "CONV_3D_TRANSPOSE",
        "2.6.0",
        result="f32",
        values=Values.COMPUTED,
        quantized=Quantized(weights=(WeightOperand(1, 3),)),
    ),
    kernel(
        "DEPTHWISE_CONV_2D",
        "1.5.0 1.12.0 1.14.0 2.2.0 2.3.0 2.3.0 2.11.0",
        (5, product_of("i16", "i16")),
        (6, both(hybrid(1), per_channel(1))),
        (4, hybrid(1)),
        (3, product_of("i8", "i8")),
        (7, product_of("i8", "i4")),
        (2, either(option_not("dilation_w_factor", 1), option_not("dilation_h_factor", 1))),
        result="f32",
        values=Values.COMPUTED,
        quantized=Quantized(
            integers("i8 i16", "free", bias=2), (WeightOperand(1, 3, beside_floats(channel="i8"), integer=I8_I4),)
        ),
    ),
    kernel(
        "DEQUANTIZE",
        "1.13.1 1.14.0 1.15.0 2.2.0 2.7.0 2.18.0 2.21.0 2.22.0 2.23.0",
        (9, first("f8")),
        (8, first("u4")),
        (7, first("i2")),
        (6, first("i4")),
        (3, first("i16 f16")),
        (5, both(first("i8"), per_channel(0))),
        I8,
        values=Values.TYPED,
    ),
    kernel("DILATE", "2.15.0", result=ALL_BUT_STRINGS, values=Values.COMPUTED),
    kernel("ELU", "1.14.0", result="f32", values=Values.COMPUTED, quantized=integers("i8", "free")),
    kernel(
        "FAKE_QUANT",
        "1.5.0 1.10.0",
        (2, option("narrow_range")),
        result="f32",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", "free", trained=_of_fake_quant),
    ),
    kernel(
        "GELU",
        "2.9.0 2.9.0 2.23.0",
        (3, first("f16")),
        (2, first("i8 u8")),
        result="f32",
        values=Values.COMPUTED,
        quantized=integers("i8", "free"),
    ),
    kernel("HARD_SWISH", "1.15.0", result="f32", values=Values.COMPUTED, quantized=integers("i8", "free")),
    kernel(
        "L2_NORMALIZATION",
        "1.5.0 1.14.0",
        I8,
        result="f32",
        values=Values.COMPUTED,
        quantized=integers("i8", {"i8": (1 / 128, 0)}),
    ),
    kernel("L2_POOL_2D", "1.5.0", result="f32", values=Values.COMPUTED),
    kernel(
        "LEAKY_RELU",
        "1.13.1 2.3.0",
        (2, first("i16")),
        result="f32",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", "free"),
    ),
    kernel("LOCAL_RESPONSE_NORMALIZATION", "1.5.0", result="f32", values=Values.COMPUTED),
    kernel(
        "LOGISTIC",
        "1.14.0 1.14.0 2.3.0",
        *I16_I8,
        result="f32 f16 bf16",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", {"i8": (1 / 256, -128), "i16": (1 / 32768, 0)}, saturates=_LOGISTIC_ENDS),
    ),
    kernel(
        "LOG_SOFTMAX",
        "1.14.0 1.14.0",
        I8,
        result="f32",
        values=Values.COMPUTED,
        quantized=integers("i8", {"i8": (16 / 256, 127)}),
    ),
    kernel(
        "MAX_POOL_2D",
        "1.5.0 1.14.0 2.3.0",
        *I16_I8,
        result="f32 i8 i16 u8",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", "same"),
    ),
    kernel(
        "PRELU", "1.8.0", result="f32", broadcasts=MOST_AXES, values=Values.COMPUTED, quantized=integers("i8", "free")
    ),
    kernel(
        "QUANTIZE",
        "1.14.0 1.15.0 2.7.0 2.21.0 2.21.0 2.21.0",
        (5, result("u4")),
        (4, result("i4")),
        (3, lambda eqn: (q := eqn.outputs[0].type.quantization) is not None and len(q.scale) > 1),
        (2, result("i16")),
        values=Values.TYPED,
    ),
    kernel("REDUCE_WINDOW", "2.15.0", result="f32 f64 i8 i16 i32 i64 u8 bool", values=Values.COMPUTED),
    kernel(
        "RELU",
        "1.5.0 2.1.0 2.5.0",
        (3, first("i16")),
        (2, first("i8 u8")),
        result="f32",
        values=Values.CHOSEN,
        quantized=integers("i8 i16", "free"),
    ),
    kernel(
        "RELU6",
        "1.5.0 1.14.0 2.5.0",
        *I16_I8,
        result="f32",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", "free"),
    ),
    kernel("RELU_0_TO_1", "2.10.0", result="f32", values=Values.COMPUTED, quantized=integers("i8", "free")),
    kernel("RELU_N1_TO_1", "1.5.0", result="f32", values=Values.COMPUTED, quantized=integers("i8", "free")),
    kernel(
        "SOFTMAX",
        "1.5.0 1.14.0 2.3.0 2.23.0",
        (4, first("f16")),
        *I16_I8,
        result="f32 f16",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", {"i8": (1 / 256, -128), "i16": (1 / 32768, 0)}, fades=10),
        in_place=OVERWRITTEN,
    ),
    kernel(
        "TANH",
        "1.14.0 1.14.0 2.3.0",
        *I16_I8,
        result="f32 f16 bf16",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", {"i8": (1 / 128, 0), "i16": (1 / 32768, 0)}, saturates=_TANH_ENDS),
    ),
    kernel(
        "TRANSPOSE_CONV",
        "1.9.0 2.2.0 2.3.0 2.13.0 2.15.0",
        (5, both(at(2, "i16"), at(1, "i8"), bias_typed)),
        (4, option_not("fused_activation_function", "NONE")),
        (3, lambda eqn: len(eqn.inputs) > 3 and eqn.inputs[3] is not None),
        (2, at(2, "i8")),
        result="f32",
        values=Values.COMPUTED,
        quantized=Quantized(integers("i8 i16", "free", bias=3), (WeightOperand(1, 0),)),
    ),
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
