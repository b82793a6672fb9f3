"""Reductions, segments, bits and random numbers: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.needs import I8, I16_I8, first
from jfuse.tflite.runtime.quantized import integers
from jfuse.tflite.runtime.row import MOST_AXES, SHARED, Row, Values, kernel

ROWS: tuple[Row, ...] = (
    kernel(
        "ARG_MAX",
        "1.9.0 1.14.0 2.9.0",
        (3, first("bool")),
        I8,
        operand="f32 i8 i32 u8 bool",
        values=Values.COMPUTED,
        quantized=integers("i8", "plain"),
    ),
    kernel(
        "ARG_MIN",
        "1.9.0 1.14.0 2.9.0",
        (3, first("bool")),
        I8,
        operand="f32 i8 i32 u8 bool",
        values=Values.COMPUTED,
        quantized=integers("i8", "plain"),
    ),
    kernel("BITCAST", "2.13.0", values=Values.TYPED, in_place=SHARED),
    kernel("CUMSUM", "2.4.0", result="f32 i32 i64", values=Values.WRAPPED),
    kernel(
        "MEAN",
        "1.6.0 1.14.0 2.4.0",
        *I16_I8,
        result="f32 i32 i64",
        values=Values.TYPED,
        quantized=integers("i8 i16", "free"),
    ),
    kernel("MULTINOMIAL", "2.8.0", values=Values.COMPUTED),
    kernel("RANDOM_STANDARD_NORMAL", "2.8.0", values=Values.COMPUTED),
    kernel("RANDOM_UNIFORM", "2.8.0", values=Values.COMPUTED),
    kernel("REDUCE_ALL", "2.6.0", values=Values.COMPUTED),
    kernel("REDUCE_ANY", "1.11.0", values=Values.COMPUTED),
    kernel(
        "REDUCE_MAX",
        "1.11.0 1.14.0 2.5.0",
        *I16_I8,
        result="f32 i8 i16 i32 i64 u8",
        values=Values.CHOSEN,
        quantized=integers("i8 i16", "same"),
    ),
    kernel(
        "REDUCE_MIN",
        "1.11.0 1.14.0 2.5.0",
        *I16_I8,
        result="f32 i8 i16 i32 i64 u8",
        values=Values.CHOSEN,
        quantized=integers("i8 i16", "same"),
    ),
    kernel("REDUCE_PROD", "1.11.0 2.6.0", (2, first("i8 i16")), result="f32 i8 i16 i32 i64 u8", values=Values.WRAPPED),
    kernel("RIGHT_SHIFT", "2.13.0", result="i8 i16 i32 u8 u16 u32", broadcasts=MOST_AXES, values=Values.COMPUTED),
    kernel("SEGMENT_SUM", "2.2.0", result="f32 i32", values=Values.COMPUTED),
    kernel("STABLEHLO_AND", "2.17.0", result="i8 i16 i32 i64 u8 u16 u32 u64 bool", broadcasts=0, values=Values.BITWISE),
    kernel("SUM", "1.10.0 1.15.0", I8, result="f32 i32 i64", values=Values.WRAPPED, quantized=integers("i8", "free")),
    kernel("UNSORTED_SEGMENT_MAX", "2.10.0", result="f32 i32", values=Values.COMPUTED),
    kernel("UNSORTED_SEGMENT_MIN", "2.11.0", result="f32 i32", values=Values.COMPUTED),
    kernel("UNSORTED_SEGMENT_PROD", "2.10.0", result="f32 i32", values=Values.COMPUTED),
    kernel("UNSORTED_SEGMENT_SUM", "2.10.0", result="f32 i32", values=Values.COMPUTED),
)
