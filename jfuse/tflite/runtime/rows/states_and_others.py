"""States, lookup tables, custom operators and codes of no operator, for which jfuse has no kernel: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.row import Row, Runtime, versions

STATE = "how a file spells a state, which is a value in the IR: written and read with it"
TABLE = "how a file spells a lookup table, which is two constants in the IR: written and read with HASHTABLE_FIND"

ROWS: tuple[Row, ...] = (
    Row("ASSIGN_VARIABLE", litert=Runtime(versions("2.6.0"), limits=None), gap=STATE),
    Row("CALL", litert=None, gap="the runtime has no kernel; calls are inlined"),
    Row("CALL_ONCE", litert=Runtime(versions("2.5.0"), limits=None), gap=STATE),
    Row("CONCAT_EMBEDDINGS", litert=None, gap="the runtime has no kernel"),
    Row(
        "CUSTOM",
        litert=None,
        gap="any other operator: kept as it is, written on request ([unsupported.md](unsupported.md))",
    ),
    Row("DELEGATE", litert=None, gap="made by the runtime for what a delegate took; in no file"),
    Row(
        "DENSIFY",
        litert=Runtime(versions("2.2.0"), limits=None),
        gap="makes sparse weights dense, which jfuse writes dense at once; kept where a file has it",
    ),
    Row("HASHTABLE", litert=Runtime(versions("2.5.0"), limits=None), gap=TABLE),
    Row("HASHTABLE_IMPORT", litert=Runtime(versions("2.5.0"), limits=None), gap=TABLE),
    Row(
        "HASHTABLE_SIZE",
        litert=Runtime(versions("2.5.0"), limits=None),
        gap="the size of a table is a constant when a model is converted",
    ),
    Row(
        "PLACEHOLDER_FOR_GREATER_OP_CODES",
        litert=None,
        gap="no operator: what old readers find in place of codes above 126",
    ),
    Row("READ_VARIABLE", litert=Runtime(versions("2.6.0"), limits=None), gap=STATE),
    Row("VAR_HANDLE", litert=Runtime(versions("2.6.0"), limits=None), gap=STATE),
)
