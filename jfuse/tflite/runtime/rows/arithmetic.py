"""Elementwise arithmetic, comparisons and logic: their rows."""

from __future__ import annotations

from types import MappingProxyType

from jfuse.ir.types import DType
from jfuse.tflite.runtime.needs import (
    I8,
    I16_I8,
    anywhere,
    both,
    broadcasts_above_rank_4,
    cleared,
    either,
    first,
    never,
    quantized,
    rank_above,
    result,
    scales_up,
)
from jfuse.tflite.runtime.quantized import Quantized, integers
from jfuse.tflite.runtime.row import (
    ALL_BUT_STRINGS,
    EITHER_OVERWRITTEN,
    MOST_AXES,
    Row,
    Runtime,
    Values,
    takes,
    versions,
)

NO_POWERS_OF_TWO = MappingProxyType({"pot_scale_int16": False})


OF_COMPARISONS = MappingProxyType({"below_scale": 1, "unscaled": frozenset({DType.i16})})


def _of_sums(scale: float) -> float:
    return scale * 2.0**-10


def _of_terms(scale: float) -> float:
    """Twice the least, as the result may get larger steps yet: a 1024th of its step is as good as 0 for a sum."""
    return scale * 2.0**-9


def _of_squares(scale: float) -> float:
    return scale**2 * 2.0**-10


OF_SUMS = MappingProxyType({"least_scale": _of_sums, "least_constant": _of_terms, "options": NO_POWERS_OF_TWO})


ROWS: tuple[Row, ...] = (
    Row(
        "ABS",
        litert=Runtime(
            versions(
                "1.13.0 2.4.0 2.5.0 2.6.0 2.12.0",
                (5, first("i32")),
                (3, both(first("i16"), quantized(0))),
                (4, first("i16")),
                (2, first("i8 u8")),
            ),
            takes(operand=None, result="f32 i16 i32", broadcasts=None, values=Values.COMPUTED),
            quantized=Quantized(integers("i8 i16", "free")),
        ),
    ),
    Row(
        "ADD",
        litert=Runtime(
            versions(
                "1.5.0 1.14.0 2.4.0 2.6.0 2.13.0 2.23.0",
                (6, first("f16")),
                (5, both(first("i16"), never(quantized(0)))),
                (4, first("i64")),
                (3, both(first("i16"), cleared("pot_scale_int16"))),
                I8,
            ),
            takes(operand=None, result="f32 f16 i16 i32 i64", broadcasts=MOST_AXES, values=Values.WRAPPED),
            quantized=Quantized(integers("i8 i16", "free", **OF_SUMS)),
            in_place=EITHER_OVERWRITTEN,
        ),
    ),
    Row(
        "ADD_N",
        litert=Runtime(versions("1.14.0"), takes(operand=None, result="f32 i32", broadcasts=0, values=Values.WRAPPED)),
    ),
    Row(
        "ATAN2",
        litert=Runtime(
            versions("2.10.0"), takes(operand=None, result="f32 f16 bf16 f64", broadcasts=0, values=Values.COMPUTED)
        ),
    ),
    Row(
        "BITWISE_XOR",
        litert=Runtime(
            versions("2.13.0"),
            takes(operand=None, result="i8 i16 i32 u8 u16 u32", broadcasts=MOST_AXES, values=Values.BITWISE),
        ),
    ),
    Row(
        "CAST",
        litert=Runtime(
            versions(
                "1.5.0 2.7.0 2.8.0 2.9.0 2.12.0 2.15.0 2.17.0 2.21.0 2.23.0",
                (9, anywhere("f8")),
                (8, anywhere("i2 u4")),
                (7, anywhere("bf16")),
                (6, both(first("i4"), result("f32"))),
                (5, anywhere("f64 f16")),
                (4, anywhere("u16")),
                (3, anywhere("i8")),
                (2, anywhere("u32")),
            ),
            takes(
                operand="f32 f16 bf16 f64 i8 i16 i32 i64 u8 u16 u32 bool c64",
                result="f32 f16 bf16 f64 i8 i16 i32 i64 u8 u16 u32 bool c64",
                broadcasts=None,
                values=Values.TYPED,
            ),
        ),
    ),
    Row(
        "CEIL",
        litert=Runtime(versions("1.14.0"), takes(operand=None, result="f32", broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "COS",
        litert=Runtime(
            versions("1.14.0 2.23.0", (2, first("f16"))),
            takes(operand=None, result="f32 f16", broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "DIV",
        litert=Runtime(
            versions("1.6.0 2.3.0", (2, broadcasts_above_rank_4)),
            takes(operand=None, result="f32 i32", broadcasts=MOST_AXES, values=Values.COMPUTED),
            in_place=EITHER_OVERWRITTEN,
        ),
    ),
    Row(
        "EQUAL",
        litert=Runtime(
            versions("1.14.0 1.14.0 2.3.0 2.13.0 2.21.0", (5, first("i16")), (3, first("string")), I8),
            takes(operand="f32 f16 i16 i32 i64 bool string", result=None, broadcasts=MOST_AXES, values=Values.BITWISE),
            quantized=Quantized(integers("i8 i16", "plain", **OF_COMPARISONS)),
        ),
    ),
    Row(
        "EXP",
        litert=Runtime(
            versions("1.7.0 2.12.0", (2, first("i8 i16"))),
            takes(operand=None, result="f32", broadcasts=None, values=Values.COMPUTED),
            quantized=Quantized(integers("i8 i16", "free")),
        ),
    ),
    Row(
        "FLOOR",
        litert=Runtime(
            versions("1.9.0"), takes(operand=None, result="f32 f16 bf16", broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "FLOOR_DIV",
        litert=Runtime(
            versions("1.14.0 1.14.0 2.13.0", (3, first("i16 i8")), (2, first("f32"))),
            takes(operand=None, result="f32 i8 i16 i32", broadcasts=MOST_AXES, values=Values.COMPUTED),
        ),
    ),
    Row(
        "FLOOR_MOD",
        litert=Runtime(
            versions("1.13.0 2.13.0", (2, first("i16 i8"))),
            takes(operand=None, result="f32 i8 i16 i32 i64", broadcasts=MOST_AXES, values=Values.COMPUTED),
        ),
    ),
    Row(
        "GREATER",
        litert=Runtime(
            versions("1.14.0 1.14.0", I8),
            takes(operand="f32 f16 bf16 i16 i32 i64", result=None, broadcasts=MOST_AXES, values=Values.COMPUTED),
            quantized=Quantized(integers("i8 i16", "plain", **OF_COMPARISONS)),
        ),
    ),
    Row(
        "GREATER_EQUAL",
        litert=Runtime(
            versions("1.14.0 1.14.0 2.13.0", *I16_I8),
            takes(operand="f32 f16 i16 i32 i64", result=None, broadcasts=MOST_AXES, values=Values.COMPUTED),
            quantized=Quantized(integers("i8 i16", "plain", **OF_COMPARISONS)),
        ),
    ),
    Row(
        "LESS",
        litert=Runtime(
            versions("1.14.0 1.14.0 2.13.0", *I16_I8),
            takes(operand="f32 f16 bf16 i16 i32 i64", result=None, broadcasts=MOST_AXES, values=Values.COMPUTED),
            quantized=Quantized(integers("i8 i16", "plain", **OF_COMPARISONS)),
        ),
    ),
    Row(
        "LESS_EQUAL",
        litert=Runtime(
            versions("1.14.0 1.14.0", I8),
            takes(operand="f32 f16 i16 i32 i64", result=None, broadcasts=MOST_AXES, values=Values.COMPUTED),
            quantized=Quantized(integers("i8 i16", "plain", **OF_COMPARISONS)),
        ),
    ),
    Row(
        "LOG",
        litert=Runtime(
            versions("1.14.0 2.15.0", (2, first("i8 i16"))),
            takes(operand=None, result="f32", broadcasts=None, values=Values.COMPUTED),
            quantized=Quantized(integers("i8 i16", "free")),
        ),
    ),
    Row(
        "LOGICAL_AND",
        litert=Runtime(
            versions("1.11.0"), takes(operand=None, result=None, broadcasts=MOST_AXES, values=Values.COMPUTED)
        ),
    ),
    Row(
        "LOGICAL_NOT",
        litert=Runtime(versions("1.11.0"), takes(operand=None, result=None, broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "LOGICAL_OR",
        litert=Runtime(
            versions("1.11.0"), takes(operand=None, result=None, broadcasts=MOST_AXES, values=Values.COMPUTED)
        ),
    ),
    Row(
        "MAXIMUM",
        litert=Runtime(
            versions("1.14.0 1.14.0 2.3.0 2.3.0", (4, first("i16")), (3, broadcasts_above_rank_4), I8),
            takes(operand=None, result="f32 f16 bf16 i8 i16 i32 i64 u8", broadcasts=MOST_AXES, values=Values.CHOSEN),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "MINIMUM",
        litert=Runtime(
            versions("1.14.0 1.14.0 2.3.0 2.3.0", (4, first("i16")), (3, broadcasts_above_rank_4), I8),
            takes(operand=None, result="f32 f16 bf16 i8 i16 i32 i64 u8", broadcasts=MOST_AXES, values=Values.CHOSEN),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "MUL",
        litert=Runtime(
            versions(
                "1.5.0 1.14.0 1.15.0 2.3.0 2.6.0 2.11.0 2.13.0 2.23.0",
                (8, first("f16")),
                (7, either(both(first("i16"), never(quantized(0))), first("u32"))),
                (6, first("c64")),
                (5, first("i64")),
                (4, first("i16")),
                (3, scales_up),
                I8,
            ),
            takes(operand=None, result="f32 f16 i16 i32 i64 u32 c64", broadcasts=MOST_AXES, values=Values.WRAPPED),
            quantized=Quantized(integers("i8 i16", "free")),
            in_place=EITHER_OVERWRITTEN,
        ),
    ),
    Row(
        "NEG",
        litert=Runtime(
            versions("1.9.0"),
            takes(operand=None, result="f32 f16 bf16 i8 i16 i32 i64", broadcasts=None, values=Values.WRAPPED),
        ),
    ),
    Row(
        "NOT_EQUAL",
        litert=Runtime(
            versions("1.14.0 1.14.0 2.3.0 2.21.0", (4, first("i16")), (3, first("string")), I8),
            takes(operand="f32 f16 i32 i64 bool string", result=None, broadcasts=MOST_AXES, values=Values.BITWISE),
            quantized=Quantized(integers("i8 i16", "plain", **OF_COMPARISONS)),
        ),
    ),
    Row(
        "POW",
        litert=Runtime(
            versions("1.10.0"), takes(operand=None, result="f32 i32", broadcasts=MOST_AXES, values=Values.TYPED)
        ),
    ),
    Row(
        "ROUND",
        litert=Runtime(
            versions("1.14.0"), takes(operand=None, result="f32 f16 bf16", broadcasts=None, values=Values.COMPUTED)
        ),
    ),
    Row(
        "RSQRT",
        litert=Runtime(
            versions("1.10.0 2.5.0 2.15.0", *I16_I8),
            takes(operand=None, result="f32", broadcasts=None, values=Values.COMPUTED),
            # Not in i16, where the kernel interpolates between 513 numbers: 20 % off near 0, an SNR of 6 dB.
            quantized=Quantized(integers("i8", "free", not_negative=True)),
        ),
    ),
    Row(
        "SELECT",
        litert=Runtime(
            versions(
                "1.14.0 1.14.0 2.12.0 2.12.0",
                (4, first("u32")),
                (3, either(*(rank_above(4, index) for index in range(3)))),
                I8,
            ),
            takes(operand=None, result=ALL_BUT_STRINGS, broadcasts=MOST_AXES, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "SELECT_V2",
        litert=Runtime(
            versions("2.2.0 2.12.0", (2, first("u32"))),
            takes(operand=None, result=ALL_BUT_STRINGS, broadcasts=MOST_AXES, values=Values.MOVED),
            quantized=Quantized(integers("i8 i16", "same")),
        ),
    ),
    Row(
        "SIGN",
        litert=Runtime(
            versions("2.11.0 2.12.0", (2, first("i32"))),
            takes(operand=None, result="f32 f64 i32", broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "SIN",
        litert=Runtime(
            versions("1.9.0 2.23.0", (2, first("f16"))),
            takes(operand=None, result="f32 f16", broadcasts=None, values=Values.COMPUTED),
        ),
    ),
    Row(
        "SQRT",
        litert=Runtime(
            versions("1.10.0 2.21.0", (2, first("i8 i16"))),
            takes(operand=None, result="f32", broadcasts=None, values=Values.COMPUTED),
            quantized=Quantized(integers("i8", "free", not_negative=True)),
        ),
    ),
    Row(
        "SQUARE",
        litert=Runtime(versions("1.12.0"), takes(operand=None, result="f32", broadcasts=None, values=Values.COMPUTED)),
    ),
    Row(
        "SQUARED_DIFFERENCE",
        litert=Runtime(
            versions("1.13.1 2.5.0", I8),
            takes(operand=None, result="f32 i32", broadcasts=MOST_AXES, values=Values.WRAPPED),
            quantized=Quantized(integers("i8", "free", least_scale=_of_squares)),
        ),
    ),
    Row(
        "SUB",
        litert=Runtime(
            versions(
                "1.6.0 1.14.0 2.3.0 2.4.0 2.4.0",
                (5, both(first("i16"), cleared("pot_scale_int16"))),
                (4, first("i64")),
                (3, broadcasts_above_rank_4),
                I8,
            ),
            takes(operand=None, result="f32 i32 i64", broadcasts=MOST_AXES, values=Values.WRAPPED),
            quantized=Quantized(integers("i8 i16", "free", **OF_SUMS)),
            in_place=EITHER_OVERWRITTEN,
        ),
    ),
    Row(
        "ZEROS_LIKE",
        litert=Runtime(
            versions("1.12.0"), takes(operand=None, result="f32 i32 i64", broadcasts=None, values=Values.MOVED)
        ),
    ),
)
