"""Control flow: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.row import Row, Runtime, Values, takes, versions

ROWS: tuple[Row, ...] = (
    Row(
        "IF",
        litert=Runtime(versions("1.15.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "STABLEHLO_COMPOSITE",
        litert=Runtime(versions("2.17.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "WHILE",
        litert=Runtime(versions("1.15.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
)
