"""Reductions, segments, bits and random numbers: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.needs import I8, I16_I8, first
from jfuse.tflite.runtime.quantized import Quantized, integers
from jfuse.tflite.runtime.row import MOST_AXES, SHARED, Row, Runtime, Values, takes, versions

ROWS: tuple[Row, ...] = (
    Row(
        "ARG_MAX",
        litert=Runtime(
            versions("1.9.0 1.14.0 2.9.0", (3, first("bool")), I8),
            takes(operand="f32 i8 i32 u8 bool", result=None, broadcasts=None, values=Values.COMPUTED),
            quantized=Quantized(integers("i8", "plain")),
        ),
    ),
    Row(
        "ARG_MIN",
        litert=Runtime(
            versions("1.9.0 1.14.0 2.9.0", (3, first("bool")), I8),
            takes(operand="f32 i8 i32 u8 bool", result=None, broadcasts=None, values=Values.COMPUTED),
            quantized=Quantized(integers("i8", "plain")),
        ),
    ),
    Row(
        "BITCAST",
        litert=Runtime(
            versions("2.13.0"), takes(operand=None, result=None, broadcasts=None, values=Values.TYPED), in_place=SHARED
        ),
    ),
    Row(
        "CUMSUM",
        litert=Runtime(
            versions("2.4.0"), takes(operand=None, result="f32 i32 i64", broadcasts=None, values=Values.WRAPPED)
        ),
    ),
    Row(
        "MEAN",
        litert=Runtime(
            versions("1.6.0 1.14.0 2.4.0", *I16_I8),
            takes(operand=None, result="f32 i32 i64", broadcasts=None, values=Values.TYPED),
            quantized=Quantized(integers("i8 i16", "free")),
        ),
    ),
    Row(
        "MULTINOMIAL",
        litert=Runtime(versions("2.8.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "RANDOM_STANDARD_NORMAL",
        litert=Runtime(versions("2.8.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "RANDOM_UNIFORM",
        litert=Runtime(versions("2.8.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "REDUCE_ALL",
        litert=Runtime(versions("2.6.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "REDUCE_ANY",
        litert=Runtime(versions("1.11.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "REDUCE_MAX",
        litert=Runtime(
            versions("1.11.0 1.14.0 2.5.0", *I16_I8),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8", broadcasts=None, values=Values.CHOSEN),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "REDUCE_MIN",
        litert=Runtime(
            versions("1.11.0 1.14.0 2.5.0", *I16_I8),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8", broadcasts=None, values=Values.CHOSEN),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "REDUCE_PROD",
        litert=Runtime(
            versions("1.11.0 2.6.0", (2, first("i8 i16"))),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8", broadcasts=None, values=Values.WRAPPED),
        ),
    ),
    Row(
        "RIGHT_SHIFT",
        litert=Runtime(
            versions("2.13.0"),
            takes(operand=None, result="i8 i16 i32 u8 u16 u32", broadcasts=MOST_AXES, values=Values.COMPUTED),
        ),
    ),
    Row(
        "SEGMENT_SUM",
        litert=Runtime(
            versions("2.2.0"), takes(operand=None, result="f32 i32", broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "STABLEHLO_AND",
        litert=Runtime(
            versions("2.17.0"),
            takes(operand=None, result="i8 i16 i32 i64 u8 u16 u32 u64 bool", broadcasts=0, values=Values.BITWISE),
        ),
    ),
    Row(
        "SUM",
        litert=Runtime(
            versions("1.10.0 1.15.0", I8),
            takes(operand=None, result="f32 i32 i64", broadcasts=None, values=Values.WRAPPED),
            quantized=Quantized(integers("i8", "free")),
        ),
    ),
    Row(
        "UNSORTED_SEGMENT_MAX",
        litert=Runtime(
            versions("2.10.0"), takes(operand=None, result="f32 i32", broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "UNSORTED_SEGMENT_MIN",
        litert=Runtime(
            versions("2.11.0"), takes(operand=None, result="f32 i32", broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "UNSORTED_SEGMENT_PROD",
        litert=Runtime(
            versions("2.10.0"), takes(operand=None, result="f32 i32", broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "UNSORTED_SEGMENT_SUM",
        litert=Runtime(
            versions("2.10.0"), takes(operand=None, result="f32 i32", broadcasts=None, values=Values.COMPUTED)
        ),
    ),
)
