"""Resizing, blocks and detection: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.needs import I8, either, first, never, option, rank_above
from jfuse.tflite.runtime.quantized import Quantized, integers
from jfuse.tflite.runtime.row import ALL_BUT_STRINGS, Row, Runtime, Values, takes, versions

ROWS: tuple[Row, ...] = (
    Row(
        "BATCH_TO_SPACE_ND",
        litert=Runtime(
            versions(
                "1.6.0 1.14.0 2.3.0 2.12.0", (4, first("i16")), (3, either(rank_above(4), never(rank_above(3)))), I8
            ),
            takes(operand=None, result=ALL_BUT_STRINGS, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "DEPTH_TO_SPACE",
        litert=Runtime(
            versions("2.1.0 2.5.0", I8),
            takes(operand=None, result="f32 i8 i32 i64 u8", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8", "same")),
        ),
    ),
    Row(
        "NON_MAX_SUPPRESSION_V4",
        litert=Runtime(versions("2.1.0"), takes(operand="f32", result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "NON_MAX_SUPPRESSION_V5",
        litert=Runtime(versions("2.1.0"), takes(operand="f32", result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "RESIZE_BILINEAR",
        litert=Runtime(
            versions("1.7.0 1.14.0 2.2.0 2.5.0", (4, first("i16")), (3, option("half_pixel_centers")), I8),
            takes(operand=None, result="f32", broadcasts=None, values=Values.COMPUTED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "RESIZE_NEAREST_NEIGHBOR",
        litert=Runtime(
            versions(
                "1.13.1 1.14.0 2.3.0 2.4.0",
                (4, first("i16")),
                (3, either(option("half_pixel_centers"), option("align_corners"))),
                I8,
            ),
            takes(
                operand=None, result="f32 f16 bf16 i8 i16 i32 u8 u16 u32 bool", broadcasts=None, values=Values.COMPUTED
            ),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "SPACE_TO_BATCH_ND",
        litert=Runtime(
            versions(
                "1.6.0 1.14.0 2.3.0 2.12.0", (4, first("i16")), (3, either(rank_above(4), never(rank_above(3)))), I8
            ),
            takes(operand=None, result=ALL_BUT_STRINGS, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "SPACE_TO_DEPTH",
        litert=Runtime(
            versions("1.5.0 1.14.0", I8),
            takes(operand=None, result="f32 i8 i32 i64 u8", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8", "same")),
        ),
    ),
)
