"""Strings and lookups: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.row import Row, Runtime, Values, takes, versions

ROWS: tuple[Row, ...] = (
    Row(
        "EMBEDDING_LOOKUP_SPARSE",
        litert=Runtime(versions("1.5.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "HASHTABLE_FIND",
        litert=Runtime(versions("2.5.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "HASHTABLE_LOOKUP",
        litert=Runtime(versions("1.5.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "LSH_PROJECTION",
        litert=Runtime(versions("1.5.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "SKIP_GRAM",
        litert=Runtime(versions("1.5.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
)
