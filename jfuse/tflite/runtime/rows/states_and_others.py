"""Control flow, strings, states, lookup tables, custom operators and codes of no operator: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.row import Row, Values, kernel, without_op

STATE = "how a file spells a state, which is a value in the IR: written and read with it"
TABLE = "how a file spells a lookup table, which is two constants in the IR: written and read with HASHTABLE_FIND"

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
)
