"""StableHLO operators that jfuse has no kernel for: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.row import Row, Runtime, versions

SECOND_SET = "of a second set of operators, which converters from JAX and PyTorch write; the others say the same"
SECOND_SET_WITHOUT_KERNEL = SECOND_SET + ", and the runtime has no kernel"

ROWS: tuple[Row, ...] = (
    Row("STABLEHLO_ABS", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_ADD", litert=Runtime(versions("2.16.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_BROADCAST_IN_DIM", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_CASE", litert=Runtime(versions("2.17.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_CBRT", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_CLAMP", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_COMPARE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_CONCATENATE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_CONVERT", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_CONVOLUTION", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_COSINE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_CUSTOM_CALL", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_DIVIDE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_DOT_GENERAL", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_DYNAMIC_SLICE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_DYNAMIC_UPDATE_SLICE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_EXPONENTIAL", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_FLOOR", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_GATHER", litert=Runtime(versions("2.16.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_IOTA", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_LOG", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_LOGISTIC", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_MAXIMUM", litert=Runtime(versions("2.16.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_MINIMUM", litert=Runtime(versions("2.16.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_MULTIPLY", litert=Runtime(versions("2.16.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_NEGATE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_OR", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_PAD", litert=Runtime(versions("2.16.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_POWER", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_REDUCE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_REDUCE_WINDOW", litert=Runtime(versions("2.16.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_REMAINDER", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_RESHAPE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_RNG_BIT_GENERATOR", litert=Runtime(versions("2.15.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_RSQRT", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_SCATTER", litert=Runtime(versions("2.15.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_SELECT", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_SHIFT_LEFT", litert=Runtime(versions("2.17.0"), limits=None), gap=SECOND_SET),
    Row("STABLEHLO_SLICE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_SORT", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_SUBTRACT", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_TANH", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_TRANSPOSE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
    Row("STABLEHLO_WHILE", litert=None, gap=SECOND_SET_WITHOUT_KERNEL),
)
