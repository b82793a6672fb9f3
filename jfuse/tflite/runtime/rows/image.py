"""Resizing, blocks and detection: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.needs import I8, either, first, never, option, rank_above
from jfuse.tflite.runtime.quantized import integers
from jfuse.tflite.runtime.row import ALL_BUT_STRINGS, Row, Values, kernel

ROWS: tuple[Row, ...] = (
    kernel(
        "BATCH_TO_SPACE_ND",
        "1.6.0 1.14.0 2.3.0 2.12.0",
        (4, first("i16")),
        (3, either(rank_above(4), never(rank_above(3)))),
        I8,
        result=ALL_BUT_STRINGS,
        values=Values.MOVED,
        quantized=integers("i8 i16", "same"),
    ),
    kernel(
        "DEPTH_TO_SPACE",
        "2.1.0 2.5.0",
        I8,
        result="f32 i8 i32 i64 u8",
        values=Values.MOVED,
        quantized=integers("i8", "same"),
    ),
    kernel("NON_MAX_SUPPRESSION_V4", "2.1.0", operand="f32", values=Values.COMPUTED),
    kernel("NON_MAX_SUPPRESSION_V5", "2.1.0", operand="f32", values=Values.COMPUTED),
    kernel(
        "RESIZE_BILINEAR",
        "1.7.0 1.14.0 2.2.0 2.5.0",
        (4, first("i16")),
        (3, option("half_pixel_centers")),
        I8,
        result="f32",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", "same"),
    ),
    kernel(
        "RESIZE_NEAREST_NEIGHBOR",
        "1.13.1 1.14.0 2.3.0 2.4.0",
        (4, first("i16")),
        (3, either(option("half_pixel_centers"), option("align_corners"))),
        I8,
        result="f32 f16 bf16 i8 i16 i32 u8 u16 u32 bool",
        values=Values.COMPUTED,
        quantized=integers("i8 i16", "same"),
    ),
    kernel(
        "SPACE_TO_BATCH_ND",
        "1.6.0 1.14.0 2.3.0 2.12.0",
        (4, first("i16")),
        (3, either(rank_above(4), never(rank_above(3)))),
        I8,
        result=ALL_BUT_STRINGS,
        values=Values.MOVED,
        quantized=integers("i8 i16", "same"),
    ),
    kernel(
        "SPACE_TO_DEPTH",
        "1.5.0 1.14.0",
        I8,
        result="f32 i8 i32 i64 u8",
        values=Values.MOVED,
        quantized=integers("i8", "same"),
    ),
)
