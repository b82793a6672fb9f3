"""Recurrent layers: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.needs import QUANTIZES_GATES, QUANTIZES_WEIGHTS, asymmetric, first, hybrid, option, option_not
from jfuse.tflite.runtime.row import Row, Runtime, Values, takes, versions

ROWS: tuple[Row, ...] = (
    Row(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        litert=Runtime(
            versions("1.14.0 1.14.0 1.14.0", *QUANTIZES_GATES),
            takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "BIDIRECTIONAL_SEQUENCE_RNN",
        litert=Runtime(
            versions("1.14.0 1.14.0 2.3.0", *QUANTIZES_WEIGHTS),
            takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "LSTM",
        litert=Runtime(
            versions(
                "1.7.0 1.10.0 1.14.0 2.3.0", (2, option_not("kernel_type", "FULL")), (4, asymmetric(2)), (3, hybrid(2))
            ),
            takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "RNN",
        litert=Runtime(
            versions("1.5.0 1.14.0 2.3.0", *QUANTIZES_WEIGHTS),
            takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "SVDF",
        litert=Runtime(
            versions("1.5.0 1.14.0 2.2.0 2.3.0", (3, first("i8")), (4, asymmetric(1)), (2, hybrid(1))),
            takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        litert=Runtime(
            versions("1.13.1 1.14.0 2.3.0 2.12.0", (4, option("diagonal_recurrent_tensors")), *QUANTIZES_GATES),
            takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        litert=Runtime(
            versions("1.14.0 1.14.0 2.3.0", *QUANTIZES_WEIGHTS),
            takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED),
        ),
    ),
)
