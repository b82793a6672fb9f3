"""Layout, gathering and scattering, shapes: their rows."""

from __future__ import annotations

from jfuse.tflite.runtime.needs import I8, I16_I8, anywhere, at, either, first, never, option, per_channel, rank_above
from jfuse.tflite.runtime.quantized import Quantized, WeightOperand, beside_floats, integers
from jfuse.tflite.runtime.row import ALL_BUT_STRINGS, OVERWRITTEN, SHARED, Row, Runtime, Values, takes, versions

ROWS: tuple[Row, ...] = (
    Row(
        "BROADCAST_ARGS",
        litert=Runtime(versions("2.6.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "BROADCAST_TO",
        litert=Runtime(
            versions("- 2.5.0 2.5.0 2.23.0", (4, first("f8")), (3, first("i8 i16")), default=2),
            takes(operand=None, result=ALL_BUT_STRINGS, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "BUCKETIZE",
        litert=Runtime(
            versions("2.8.0"), takes(operand="f32 f64 i32 i64", result=None, broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "CONCATENATION",
        litert=Runtime(
            versions(
                "1.5.0 1.14.0 2.3.0 2.14.0 2.21.0 2.23.0 2.23.0",
                (7, first("f8")),
                (6, first("f16")),
                (5, first("i4")),
                (4, first("u32")),
                *I16_I8,
            ),
            takes(operand=None, result="f32 f16 bf16 i8 i16 i32 i64 u8 u32 bool", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "DYNAMIC_UPDATE_SLICE",
        litert=Runtime(
            versions(
                "2.9.0 2.17.0 2.19.0 2.20.0 2.21.0 2.22.0",
                (6, first("bf16")),
                (5, first("i4")),
                (4, first("i16")),
                (3, first("f16")),
                (2, at(2, "i64")),
            ),
            takes(operand=None, result=ALL_BUT_STRINGS, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
            in_place=OVERWRITTEN,
        ),
    ),
    Row(
        "EMBEDDING_LOOKUP",
        litert=Runtime(
            versions("1.13.0 1.14.0 1.14.0 2.18.0 2.21.0", (4, either(at(1, "i4"), per_channel(1))), (5, at(1, "i2"))),
            takes(operand=None, result=ALL_BUT_STRINGS, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(
                integers("i8 i16", "same"),
                (
                    WeightOperand(
                        1,
                        0,
                        beside_floats(tensor="i8 i4 i2", channel="i8 i4 i2", block="i4 i2", i4=2, i2=4),
                        moved=True,
                    ),
                ),
            ),
        ),
    ),
    Row(
        "EXPAND_DIMS",
        litert=Runtime(
            versions("1.10.0"),
            takes(operand=None, result=None, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
            in_place=SHARED,
        ),
    ),
    Row(
        "FILL",
        litert=Runtime(
            versions(
                "1.13.0 2.3.0 2.5.0 2.12.0 2.23.0",
                (5, at(1, "f8")),
                (4, at(1, "f16")),
                (3, at(1, "i8 i16")),
                (2, at(1, "bool string")),
            ),
            takes(operand=None, result=f"{ALL_BUT_STRINGS} string", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "GATHER",
        litert=Runtime(
            versions(
                "1.6.0 1.14.0 1.15.0 2.4.0 2.5.0 2.13.0 2.15.0 2.23.0",
                (8, first("f8")),
                (7, first("i4")),
                (6, at(1, "i16")),
                (5, option("batch_dims")),
                (4, first("i16")),
                (3, first("bool")),
                I8,
            ),
            takes(
                operand=None,
                result="f32 f16 bf16 i8 i16 i32 i64 u8 bool string",
                broadcasts=None,
                values=Values.MOVED,
                string_rank=1,
            ),
            quantized=Quantized(integers("i8 i16", "same"), (WeightOperand(0, 0, moved=True),)),
        ),
    ),
    Row(
        "GATHER_ND",
        litert=Runtime(
            versions(
                "1.14.0 2.3.0 2.5.0 2.13.0 2.16.0 2.23.0",
                (6, first("f8")),
                (5, first("bool")),
                (4, at(1, "i16")),
                (3, first("i16")),
                (2, first("string")),
            ),
            takes(
                operand=None, result="f32 f16 bf16 i8 i16 i32 i64 u8 bool string", broadcasts=None, values=Values.MOVED
            ),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "MIRROR_PAD",
        litert=Runtime(
            versions("1.13.1 2.3.0 2.12.0", *I16_I8),
            takes(operand=None, result=ALL_BUT_STRINGS, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "ONE_HOT",
        litert=Runtime(
            versions("1.11.0"),
            takes(operand=None, result="f32 i8 i32 i64 u8 bool", broadcasts=None, values=Values.MOVED),
        ),
    ),
    Row(
        "PACK",
        litert=Runtime(
            versions("1.11.0 1.14.0 2.3.0 2.13.0 2.23.0", (5, first("f8")), (4, first("u32")), *I16_I8),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8 u32", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "PAD",
        litert=Runtime(
            versions(
                "1.5.0 1.14.0 2.4.0 2.6.0 2.20.0 2.23.0",
                (6, first("f8")),
                (5, first("bool")),
                (4, rank_above(4)),
                *I16_I8,
            ),
            takes(operand=None, result="f32 f16 bf16 i8 i16 i32 i64 u8 bool", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "PADV2",
        litert=Runtime(
            versions(
                "1.9.0 1.14.0 2.4.0 2.6.0 2.20.0 2.23.0",
                (6, first("f8")),
                (5, first("bool")),
                (4, rank_above(4)),
                *I16_I8,
            ),
            takes(operand=None, result="f32 f16 bf16 i8 i16 i32 i64 u8 bool", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "RANGE",
        litert=Runtime(
            versions("1.13.0 2.14.0", (2, first("i64"))),
            takes(operand=None, result="f32 i32 i64", broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "RANK",
        litert=Runtime(versions("1.14.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "RESHAPE",
        litert=Runtime(
            versions("1.5.0"),
            takes(operand=None, result=None, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
            in_place=SHARED,
        ),
    ),
    Row(
        "REVERSE_SEQUENCE",
        litert=Runtime(
            versions("1.14.0"),
            takes(operand=None, result="f32 i16 i32 i64 u8", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i16", "same")),
        ),
    ),
    Row(
        "REVERSE_V2",
        litert=Runtime(
            versions("1.14.0 2.2.0 2.5.0 2.23.0", (4, first("f8")), (3, first("i8")), (2, first("bool"))),
            takes(operand=None, result="f32 f16 bf16 i8 i16 i32 i64 u8 bool", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "SCATTER_ND",
        litert=Runtime(
            versions("2.1.0"),
            takes(operand=None, result="f32 i8 i32 i64 u8 bool", broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "SHAPE",
        litert=Runtime(versions("1.10.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "SLICE",
        litert=Runtime(
            versions(
                "1.14.0 1.14.0 1.14.0 2.4.0 2.5.0 2.14.0 2.21.0 2.23.0",
                (8, first("f16")),
                (7, first("i4")),
                (6, first("u32")),
                (5, rank_above(4)),
                (4, first("i16")),
                (3, first("string")),
                I8,
            ),
            takes(operand=None, result=None, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "SPARSE_TO_DENSE",
        litert=Runtime(
            versions("1.9.0 1.14.0 1.15.0", (3, at(2, "i8 u8")), (2, at(2, "i64"))),
            takes(operand=None, result="f32 i8 i32 i64 u8", broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "SPLIT",
        litert=Runtime(
            versions(
                "1.5.0 1.14.0 1.14.0 2.3.0 2.23.0",
                (5, at(1, "f8")),
                (4, at(1, "i16")),
                (3, at(1, "i32")),
                (2, at(1, "i8")),
            ),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "SPLIT_V",
        litert=Runtime(
            versions("1.13.1 2.3.0 2.23.0", (3, first("f8")), I8),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "SQUEEZE",
        litert=Runtime(
            versions("1.6.0 2.5.0", (2, first("string"))),
            takes(operand=None, result=None, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
            in_place=SHARED,
        ),
    ),
    Row(
        "STRIDED_SLICE",
        litert=Runtime(
            versions(
                "1.6.0 1.14.0 2.1.0 2.2.0 2.5.0 2.6.0 2.14.0 2.14.0",
                (8, option("offset")),
                (7, first("u32")),
                (6, either(option("ellipsis_mask"), option("new_axis_mask"))),
                (5, first("string")),
                (4, rank_above(4)),
                (3, first("bool")),
                I8,
            ),
            takes(operand=None, result=None, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "TILE",
        litert=Runtime(
            versions("1.10.1 2.2.0 2.8.0", (3, first("i8")), (2, first("string"))),
            takes(operand=None, result=None, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "TOPK_V2",
        litert=Runtime(
            versions("1.7.0 1.14.0 2.13.0", (3, anywhere("i16")), I8),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8", broadcasts=None, values=Values.CHOSEN),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "TRANSPOSE",
        litert=Runtime(
            versions(
                "1.6.0 1.14.0 1.15.0 2.3.0 2.4.0 2.12.0 2.14.4 2.22.0 2.23.0",
                (9, first("f16")),
                (8, either(rank_above(6), first("bf16"))),
                (7, first("i4")),
                (6, rank_above(5)),
                (5, first("i16")),
                (4, rank_above(4)),
                (3, first("bool")),
                I8,
            ),
            takes(operand=None, result=ALL_BUT_STRINGS, broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "UNIQUE",
        litert=Runtime(
            versions("1.14.0"),
            takes(operand=None, result="f32 i8 i16 i32 i64 u8", broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "UNPACK",
        litert=Runtime(
            versions(
                "1.11.0 1.14.0 2.2.0 2.3.0 2.22.0 2.23.0",
                (6, first("f8")),
                (5, first("f16 bf16")),
                (4, first("i16")),
                (3, first("bool")),
                (2, first("i8 u8")),
            ),
            takes(operand=None, result="f32 f16 bf16 i8 i16 i32 u8 bool", broadcasts=None, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "WHERE",
        litert=Runtime(
            versions("1.14.0 2.8.0", (2, never(first("bool")))),
            takes(operand="f32 i8 i32 i64 u8 u32 bool", result=None, broadcasts=None, values=Values.COMPUTED),
        ),
    ),
)
