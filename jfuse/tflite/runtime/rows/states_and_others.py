"""Control flow, strings, states, tables, custom operators, and StableHLO without a kernel: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.row import Row, Values, kernel, without_op

STATE = "how a file spells a state, which is a value in the IR: written and read with it"
TABLE = "how a file spells a lookup table, which is two constants in the IR: written and read with HASHTABLE_FIND"


SECOND_SET = "of a second set of operators, which converters from JAX and PyTorch write; the others say the same"
SECOND_SET_WITHOUT_KERNEL = SECOND_SET + ", and the runtime has no kernel"

_STABLEHLO_WITH_KERNEL = {
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
_STABLEHLO_WITHOUT_KERNEL = """
ABS BROADCAST_IN_DIM CBRT CLAMP COMPARE CONCATENATE CONVERT CONVOLUTION COSINE CUSTOM_CALL DIVIDE
DOT_GENERAL DYNAMIC_SLICE DYNAMIC_UPDATE_SLICE EXPONENTIAL FLOOR IOTA LOG LOGISTIC NEGATE OR POWER REDUCE
REMAINDER RESHAPE RSQRT SELECT SLICE SORT SUBTRACT TANH TRANSPOSE WHILE
"""


ROWS: tuple[Row, ...] = (
    kernel("IF", "1.15.0", values=Values.COMPUTED),
    kernel("STABLEHLO_COMPOSITE", "2.17.0", values=Values.COMPUTED),
    kernel("WHILE", "1.15.0", values=Values.COMPUTED),
    kernel("EMBEDDING_LOOKUP_SPARSE", "1.5.0", values=Values.COMPUTED),
    kernel("HASHTABLE_FIND", "2.5.0", values=Values.COMPUTED),
    kernel("HASHTABLE_LOOKUP", "1.5.0", values=Values.COMPUTED),
    kernel("LSH_PROJECTION", "1.5.0", values=Values.COMPUTED),
    kernel("SKIP_GRAM", "1.5.0", values=Values.COMPUTED),
    without_op("ASSIGN_VARIABLE", "2.6.0", gap=STATE),
    Row("CALL", litert=None, gap="the runtime has no kernel; calls are inlined"),
    without_op("CALL_ONCE", "2.5.0", gap=STATE),
    Row("CONCAT_EMBEDDINGS", litert=None, gap="the runtime has no kernel"),
    Row(
        "CUSTOM",
        litert=None,
        gap="any other operator: kept as it is, written on request ([unsupported.md](unsupported.md))",
    ),
    Row("DELEGATE", litert=None, gap="made by the runtime for what a delegate took; in no file"),
    without_op(
        "DENSIFY", "2.2.0", gap="makes sparse weights dense, which jfuse writes dense at once; kept where a file has it"
    ),
    without_op("HASHTABLE", "2.5.0", gap=TABLE),
    without_op("HASHTABLE_IMPORT", "2.5.0", gap=TABLE),
    without_op("HASHTABLE_SIZE", "2.5.0", gap="the size of a table is a constant when a model is converted"),
    Row(
        "PLACEHOLDER_FOR_GREATER_OP_CODES",
        litert=None,
        gap="no operator: what old readers find in place of codes above 126",
    ),
    without_op("READ_VARIABLE", "2.6.0", gap=STATE),
    without_op("VAR_HANDLE", "2.6.0", gap=STATE),
    *(without_op(f"STABLEHLO_{name}", runtime, SECOND_SET) for name, runtime in _STABLEHLO_WITH_KERNEL.items()),
    *(
        Row(f"STABLEHLO_{name}", litert=None, gap=SECOND_SET_WITHOUT_KERNEL)
        for name in _STABLEHLO_WITHOUT_KERNEL.split()
    ),
)
