"""StableHLO operators that jfuse has no kernel for: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.row import Row, without_op

SECOND_SET = "of a second set of operators, which converters from JAX and PyTorch write; the others say the same"
SECOND_SET_WITHOUT_KERNEL = SECOND_SET + ", and the runtime has no kernel"

_WITH_KERNEL = {
    "ADD": "2.16.0",
    "CASE": "2.17.0",
    "GATHER": "2.16.0",
    "MAXIMUM": "2.16.0",
    "MINIMUM": "2.16.0",
    "MULTIPLY": "2.16.0",
    "PAD": "2.16.0",
    "REDUCE_WINDOW": "2.16.0",
    "RNG_BIT_GENERATOR": "2.15.0",
    "SCATTER": "2.15.0",
    "SHIFT_LEFT": "2.17.0",
}
"""By name, without "STABLEHLO_": the oldest runtime."""
_WITHOUT_KERNEL = """
ABS BROADCAST_IN_DIM CBRT CLAMP COMPARE CONCATENATE CONVERT CONVOLUTION COSINE CUSTOM_CALL DIVIDE
DOT_GENERAL DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE EXPONENTIAL FLOOR IOTA LOG LOGISTIC NEGATE OR POWER REDUCE
REMAINDER RESHAPE RSQRT SELECT SLICE SORT SUBTRACT TANH TRANSPOSE WHILE
"""

ROWS: tuple[Row, ...] = (
    *(without_op(f"STABLEHLO_{name}", runtime, SECOND_SET) for name, runtime in _WITH_KERNEL.items()),
    *(Row(f"STABLEHLO_{name}", litert=None, gap=SECOND_SET_WITHOUT_KERNEL) for name in _WITHOUT_KERNEL.split()),
)
