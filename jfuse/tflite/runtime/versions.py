"""The least version of each operator that has what an equation needs, and the oldest runtime with that version.

The tables follow the converter's own (tflite/converter/tools/versioning/op_version.cc and runtime_version.cc). A file
with too low a version may run on a runtime that computes something else; too high a one is refused by runtimes that
could run it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jfuse.errors import JfuseError
from jfuse.ir.dims import same
from jfuse.ir.graph import Eqn
from jfuse.ir.sparse import SparseConst
from jfuse.ir.types import DType, TensorType

Need = Callable[[Eqn], bool]
"""Whether an equation needs a version: one condition of a table's row."""


@dataclass(frozen=True)
class Versions:
    """One op: the oldest runtime of each version from 1 on ("-" for none), and what calls for which.

    The first rule that holds gives the version.
    """

    runtimes: tuple[str, ...]
    rules: tuple[tuple[int, Need], ...] = ()
    default: int = field(default=1)


def version_of(eqn: Eqn) -> int:
    """The version to write for an equation of a builtin op."""
    row = _row(_builtin(eqn))
    return next((version for version, needs in row.rules if needs(eqn)), row.default)


def own_version(eqn: Eqn) -> int | None:
    """As `version_of`; None for what the tables do not know, as only files that were read have it."""
    try:
        return version_of(eqn)
    except (JfuseError, IndexError, ValueError, ZeroDivisionError):
        return None


def has_runtime(builtin: str, version: int) -> bool:
    """Whether a runtime is known that has a version of a builtin."""
    runtimes = _TABLE[builtin].runtimes if builtin in _TABLE else ()
    return 1 <= version <= len(runtimes) and runtimes[version - 1] != "-"


def min_runtime(builtin: str, version: int) -> str:
    """The oldest runtime that has a version of a builtin."""
    runtimes = _row(builtin).runtimes
    if not has_runtime(builtin, version):
        raise JfuseError(f"{builtin} has no version {version}", expected=f"1 to {len(runtimes)}")
    return runtimes[version - 1]


def _builtin(eqn: Eqn) -> str:
    return str(getattr(eqn.op, "builtin", None))


def _row(builtin: str) -> Versions:
    row = _TABLE.get(builtin)
    if row is None:
        raise JfuseError(
            f"no runtime has a kernel for {builtin}",
            remedy="add its row to jfuse/tflite/runtime/versions.py if one has",
        )
    return row


# What the conditions are made of.


def _type(eqn: Eqn, index: int) -> TensorType | None:
    atom = eqn.inputs[index] if index < len(eqn.inputs) else None
    return None if atom is None else atom.type


def _dtype(eqn: Eqn, index: int) -> DType | None:
    found = _type(eqn, index)
    return None if found is None else found.dtype


def _types(names: str) -> frozenset[DType]:
    return frozenset(t for name in names.split() for t in _FLOAT8 if name == "f8") | {
        DType(name) for name in names.split() if name != "f8"
    }


_FLOAT8 = (DType.f8e4m3fn, DType.f8e5m2)


def at(index: int, names: str) -> Need:
    """The operand at `index` has one of the dtypes ("f8": either 8-bit float)."""
    wanted = _types(names)
    return lambda eqn: _dtype(eqn, index) in wanted


def first(names: str) -> Need:
    """The first operand has one of the dtypes."""
    return at(0, names)


def anywhere(names: str) -> Need:
    """An operand or a result has one of the dtypes."""
    wanted = _types(names)
    return lambda eqn: any(a is not None and a.type.dtype in wanted for a in (*eqn.inputs, *eqn.outputs))


def result(names: str) -> Need:
    """The first result has one of the dtypes."""
    wanted = _types(names)
    return lambda eqn: eqn.outputs[0].type.dtype in wanted


def option(name: str) -> Need:
    """An option is set (true, or not 0)."""
    return lambda eqn: bool(eqn.params.get(name))


def cleared(name: str) -> Need:
    """An option that is on by default is off."""
    return lambda eqn: eqn.params.get(name, True) is False


def option_not(name: str, value: Any) -> Need:
    """An option is there and has another value."""
    return lambda eqn: eqn.params.get(name, value) != value


def rank_above(rank: int, index: int = 0) -> Need:
    """An operand has more dimensions than `rank`."""
    return lambda eqn: (t := _type(eqn, index)) is not None and t.rank > rank


def quantized(index: int) -> Need:
    """The operand at `index` has a scale."""
    return lambda eqn: (t := _type(eqn, index)) is not None and t.quantization is not None


def per_channel(index: int) -> Need:
    """The operand at `index` has a scale for each channel."""
    return lambda eqn: (
        (t := _type(eqn, index)) is not None and t.quantization is not None and len(t.quantization.scale) > 1
    )


def sparse(index: int) -> Need:
    """The operand at `index` is a sparse constant."""
    return lambda eqn: index < len(eqn.inputs) and isinstance(eqn.inputs[index], SparseConst)


def both(*needs: Need) -> Need:
    """All of the conditions."""
    return lambda eqn: all(need(eqn) for need in needs)


def either(*needs: Need) -> Need:
    """One of the conditions."""
    return lambda eqn: any(need(eqn) for need in needs)


def never(need: Need) -> Need:
    """Not the condition."""
    return lambda eqn: not need(eqn)


def hybrid(weights: int) -> Need:
    """Float activations with int8 weights."""
    return both(first("f32"), at(weights, "i8"), result("f32"))


def product_of(x: str, weights: str) -> Need:
    """Input 0 and weights 1 have these dtypes."""
    return both(first(x), at(1, weights))


def asymmetric(weights: int) -> Need:
    """Float activations, quantized with a zero point while running, with int8 weights."""
    return both(hybrid(weights), option("asymmetric_quantize_inputs"))


def _broadcasts_above_rank_4(eqn: Eqn) -> bool:
    x, y = (a.type for a in eqn.inputs[:2] if a is not None)
    equal = x.rank == y.rank and all(same(d, e) for d, e in zip(x.shape, y.shape, strict=True))
    return max(x.rank, y.rank) > 4 and not equal


def _is_grouped(eqn: Eqn) -> bool:
    x, filters = (a.type for a in eqn.inputs[:2] if a is not None)
    return same(x.shape[-1], filters.shape[-1]) is False


def _scales_up(eqn: Eqn) -> bool:
    scales = [a.type.quantization for a in (*eqn.inputs[:2], eqn.outputs[0]) if a is not None]
    if any(q is None for q in scales):
        return False
    x, y, out = (q.scale[0] for q in scales if q is not None)
    return x * y / out >= 1


def versions(runtimes: str, *rules: tuple[int, Need], default: int = 1) -> Versions:
    """A row of the table."""
    return Versions(tuple(runtimes.split()), rules, default)


_bias_typed = option_not("quantized_bias_type", DType.f32)
_i8 = (2, first("i8"))
_i16_i8 = ((3, first("i16")), _i8)
_quantizes_weights = ((3, asymmetric(1)), (2, hybrid(1)))
_quantizes_gates = ((3, asymmetric(2)), (2, hybrid(2)))  # operand 1 is absent where the gates are coupled

_TABLE: dict[str, Versions] = {
    "ABS": versions(
        "1.13.0 2.4.0 2.5.0 2.6.0 2.12.0",
        (5, first("i32")),
        (3, both(first("i16"), quantized(0))),
        (4, first("i16")),
        (2, first("i8 u8")),
    ),
    "ADD": versions(
        "1.5.0 1.14.0 2.4.0 2.6.0 2.13.0 2.23.0",
        (6, first("f16")),
        (5, both(first("i16"), never(quantized(0)))),
        (4, first("i64")),
        (3, both(first("i16"), cleared("pot_scale_int16"))),
        _i8,
    ),
    "ARG_MAX": versions("1.9.0 1.14.0 2.9.0", (3, first("bool")), _i8),
    "ARG_MIN": versions("1.9.0 1.14.0 2.9.0", (3, first("bool")), _i8),
    "AVERAGE_POOL_2D": versions("1.5.0 1.14.0 2.3.0", *_i16_i8),
    "BATCH_MATMUL": versions("2.3.0 2.3.0 2.4.0 2.5.0", *_i16_i8, (4, asymmetric(1))),
    "BATCH_TO_SPACE_ND": versions(
        "1.6.0 1.14.0 2.3.0 2.12.0", (4, first("i16")), (3, either(rank_above(4), never(rank_above(3)))), _i8
    ),
    "BIDIRECTIONAL_SEQUENCE_LSTM": versions("1.14.0 1.14.0 1.14.0", *_quantizes_gates),
    "BIDIRECTIONAL_SEQUENCE_RNN": versions("1.14.0 1.14.0 2.3.0", *_quantizes_weights),
    "BROADCAST_TO": versions("- 2.5.0 2.5.0 2.23.0", (4, first("f8")), (3, first("i8 i16")), default=2),
    "CAST": versions(
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
    "CONCATENATION": versions(
        "1.5.0 1.14.0 2.3.0 2.14.0 2.21.0 2.23.0 2.23.0",
        (7, first("f8")),
        (6, first("f16")),
        (5, first("i4")),
        (4, first("u32")),
        *_i16_i8,
    ),
    "CONV_2D": versions(
        "1.5.0 1.14.0 1.14.0 2.3.0 2.4.0 2.9.0 2.11.0 2.15.0",
        (8, both(product_of("i16", "i8"), _bias_typed)),
        (6, _is_grouped),
        (4, product_of("i16", "i16")),
        (3, product_of("i8", "i8")),
        (7, product_of("i8", "i4")),
        (5, both(hybrid(1), per_channel(1))),
        (2, hybrid(1)),
    ),
    "COS": versions("1.14.0 2.23.0", (2, first("f16"))),
    "DEPTHWISE_CONV_2D": versions(
        "1.5.0 1.12.0 1.14.0 2.2.0 2.3.0 2.3.0 2.11.0",
        (5, product_of("i16", "i16")),
        (6, both(hybrid(1), per_channel(1))),
        (4, hybrid(1)),
        (3, product_of("i8", "i8")),
        (7, product_of("i8", "i4")),
        (2, either(option_not("dilation_w_factor", 1), option_not("dilation_h_factor", 1))),
    ),
    "DEPTH_TO_SPACE": versions("2.1.0 2.5.0", _i8),
    "DEQUANTIZE": versions(
        "1.13.1 1.14.0 1.15.0 2.2.0 2.7.0 2.18.0 2.21.0 2.22.0 2.23.0",
        (9, first("f8")),
        (8, first("u4")),
        (7, first("i2")),
        (6, first("i4")),
        (3, first("i16 f16")),
        (5, both(first("i8"), per_channel(0))),
        _i8,
    ),
    "DIV": versions("1.6.0 2.3.0", (2, _broadcasts_above_rank_4)),
    "DYNAMIC_UPDATE_SLICE": versions(
        "2.9.0 2.17.0 2.19.0 2.20.0 2.21.0 2.22.0",
        (6, first("bf16")),
        (5, first("i4")),
        (4, first("i16")),
        (3, first("f16")),
        (2, at(2, "i64")),
    ),
    "EMBEDDING_LOOKUP": versions(
        "1.13.0 1.14.0 1.14.0 2.18.0 2.21.0", (4, either(at(1, "i4"), per_channel(1))), (5, at(1, "i2"))
    ),
    "EQUAL": versions("1.14.0 1.14.0 2.3.0 2.13.0 2.21.0", (5, first("i16")), (3, first("string")), _i8),
    "EXP": versions("1.7.0 2.12.0", (2, first("i8 i16"))),
    "FAKE_QUANT": versions("1.5.0 1.10.0", (2, option("narrow_range"))),
    "FILL": versions(
        "1.13.0 2.3.0 2.5.0 2.12.0 2.23.0",
        (5, at(1, "f8")),
        (4, at(1, "f16")),
        (3, at(1, "i8 i16")),
        (2, at(1, "bool string")),
    ),
    "FLOOR_DIV": versions("1.14.0 1.14.0 2.13.0", (3, first("i16 i8")), (2, first("f32"))),
    "FLOOR_MOD": versions("1.13.0 2.13.0", (2, first("i16 i8"))),
    "FULLY_CONNECTED": versions(
        "1.5.0 1.10.0 1.14.0 1.14.0 2.0.0 2.1.0 2.3.0 2.3.0 2.3.0 2.11.0 2.15.0 2.17.0 2.18.0 2.21.0",
        (14, at(1, "i2")),
        (13, product_of("i16", "i4")),
        (12, both(hybrid(1), per_channel(1))),
        (11, both(product_of("i16", "i8"), _bias_typed)),
        (8, sparse(1)),
        (7, product_of("i16", "i16")),
        (6, lambda eqn: len(eqn.inputs) < 3),
        (5, option("keep_num_dims")),
        (4, product_of("i8", "i8")),
        (10, product_of("i8", "i4")),
        (9, asymmetric(1)),
        (3, hybrid(1)),
        (2, option_not("weights_format", "DEFAULT")),
    ),
    "GATHER": versions(
        "1.6.0 1.14.0 1.15.0 2.4.0 2.5.0 2.13.0 2.15.0 2.23.0",
        (8, first("f8")),
        (7, first("i4")),
        (6, at(1, "i16")),
        (5, option("batch_dims")),
        (4, first("i16")),
        (3, first("bool")),
        _i8,
    ),
    "GATHER_ND": versions(
        "1.14.0 2.3.0 2.5.0 2.13.0 2.16.0 2.23.0",
        (6, first("f8")),
        (5, first("bool")),
        (4, at(1, "i16")),
        (3, first("i16")),
        (2, first("string")),
    ),
    "GELU": versions("2.9.0 2.9.0 2.23.0", (3, first("f16")), (2, first("i8 u8"))),
    "GREATER": versions("1.14.0 1.14.0", _i8),
    "GREATER_EQUAL": versions("1.14.0 1.14.0 2.13.0", *_i16_i8),
    "L2_NORMALIZATION": versions("1.5.0 1.14.0", _i8),
    "LEAKY_RELU": versions("1.13.1 2.3.0", (2, first("i16"))),
    "LESS": versions("1.14.0 1.14.0 2.13.0", *_i16_i8),
    "LESS_EQUAL": versions("1.14.0 1.14.0", _i8),
    "LOG": versions("1.14.0 2.15.0", (2, first("i8 i16"))),
    "LOGISTIC": versions("1.14.0 1.14.0 2.3.0", *_i16_i8),
    "LOG_SOFTMAX": versions("1.14.0 1.14.0", _i8),
    "LSTM": versions(
        "1.7.0 1.10.0 1.14.0 2.3.0", (2, option_not("kernel_type", "FULL")), (4, asymmetric(2)), (3, hybrid(2))
    ),
    "MAXIMUM": versions("1.14.0 1.14.0 2.3.0 2.3.0", (4, first("i16")), (3, _broadcasts_above_rank_4), _i8),
    "MAX_POOL_2D": versions("1.5.0 1.14.0 2.3.0", *_i16_i8),
    "MEAN": versions("1.6.0 1.14.0 2.4.0", *_i16_i8),
    "MINIMUM": versions("1.14.0 1.14.0 2.3.0 2.3.0", (4, first("i16")), (3, _broadcasts_above_rank_4), _i8),
    "MIRROR_PAD": versions("1.13.1 2.3.0 2.12.0", *_i16_i8),
    "MUL": versions(
        "1.5.0 1.14.0 1.15.0 2.3.0 2.6.0 2.11.0 2.13.0 2.23.0",
        (8, first("f16")),
        (7, either(both(first("i16"), never(quantized(0))), first("u32"))),
        (6, first("c64")),
        (5, first("i64")),
        (4, first("i16")),
        (3, _scales_up),
        _i8,
    ),
    "NOT_EQUAL": versions("1.14.0 1.14.0 2.3.0 2.21.0", (4, first("i16")), (3, first("string")), _i8),
    "PACK": versions("1.11.0 1.14.0 2.3.0 2.13.0 2.23.0", (5, first("f8")), (4, first("u32")), *_i16_i8),
    "PAD": versions(
        "1.5.0 1.14.0 2.4.0 2.6.0 2.20.0 2.23.0", (6, first("f8")), (5, first("bool")), (4, rank_above(4)), *_i16_i8
    ),
    "PADV2": versions(
        "1.9.0 1.14.0 2.4.0 2.6.0 2.20.0 2.23.0", (6, first("f8")), (5, first("bool")), (4, rank_above(4)), *_i16_i8
    ),
    "QUANTIZE": versions(
        "1.14.0 1.15.0 2.7.0 2.21.0 2.21.0 2.21.0",
        (5, result("u4")),
        (4, result("i4")),
        (3, lambda eqn: (q := eqn.outputs[0].type.quantization) is not None and len(q.scale) > 1),
        (2, result("i16")),
    ),
    "RANGE": versions("1.13.0 2.14.0", (2, first("i64"))),
    "REDUCE_MAX": versions("1.11.0 1.14.0 2.5.0", *_i16_i8),
    "REDUCE_MIN": versions("1.11.0 1.14.0 2.5.0", *_i16_i8),
    "REDUCE_PROD": versions("1.11.0 2.6.0", (2, first("i8 i16"))),
    "RELU": versions("1.5.0 2.1.0 2.5.0", (3, first("i16")), (2, first("i8 u8"))),
    "RELU6": versions("1.5.0 1.14.0 2.5.0", *_i16_i8),
    "RESIZE_BILINEAR": versions("1.7.0 1.14.0 2.2.0 2.5.0", (4, first("i16")), (3, option("half_pixel_centers")), _i8),
    "RESIZE_NEAREST_NEIGHBOR": versions(
        "1.13.1 1.14.0 2.3.0 2.4.0",
        (4, first("i16")),
        (3, either(option("half_pixel_centers"), option("align_corners"))),
        _i8,
    ),
    "REVERSE_V2": versions("1.14.0 2.2.0 2.5.0 2.23.0", (4, first("f8")), (3, first("i8")), (2, first("bool"))),
    "RNN": versions("1.5.0 1.14.0 2.3.0", *_quantizes_weights),
    "RSQRT": versions("1.10.0 2.5.0 2.15.0", *_i16_i8),
    "SELECT": versions(
        "1.14.0 1.14.0 2.12.0 2.12.0",
        (4, first("u32")),
        (3, either(*(rank_above(4, index) for index in range(3)))),
        _i8,
    ),
    "SELECT_V2": versions("2.2.0 2.12.0", (2, first("u32"))),
    "SIGN": versions("2.11.0 2.12.0", (2, first("i32"))),
    "SIN": versions("1.9.0 2.23.0", (2, first("f16"))),
    "SLICE": versions(
        "1.14.0 1.14.0 1.14.0 2.4.0 2.5.0 2.14.0 2.21.0 2.23.0",
        (8, first("f16")),
        (7, first("i4")),
        (6, first("u32")),
        (5, rank_above(4)),
        (4, first("i16")),
        (3, first("string")),
        _i8,
    ),
    "SOFTMAX": versions("1.5.0 1.14.0 2.3.0 2.23.0", (4, first("f16")), *_i16_i8),
    "SPACE_TO_BATCH_ND": versions(
        "1.6.0 1.14.0 2.3.0 2.12.0", (4, first("i16")), (3, either(rank_above(4), never(rank_above(3)))), _i8
    ),
    "SPACE_TO_DEPTH": versions("1.5.0 1.14.0", _i8),
    "SPARSE_TO_DENSE": versions("1.9.0 1.14.0 1.15.0", (3, at(2, "i8 u8")), (2, at(2, "i64"))),
    "SPLIT": versions(
        "1.5.0 1.14.0 1.14.0 2.3.0 2.23.0", (5, at(1, "f8")), (4, at(1, "i16")), (3, at(1, "i32")), (2, at(1, "i8"))
    ),
    "SPLIT_V": versions("1.13.1 2.3.0 2.23.0", (3, first("f8")), _i8),
    "SQRT": versions("1.10.0 2.21.0", (2, first("i8 i16"))),
    "SQUARED_DIFFERENCE": versions("1.13.1 2.5.0", _i8),
    "SQUEEZE": versions("1.6.0 2.5.0", (2, first("string"))),
    "STRIDED_SLICE": versions(
        "1.6.0 1.14.0 2.1.0 2.2.0 2.5.0 2.6.0 2.14.0 2.14.0",
        (8, option("offset")),
        (7, first("u32")),
        (6, either(option("ellipsis_mask"), option("new_axis_mask"))),
        (5, first("string")),
        (4, rank_above(4)),
        (3, first("bool")),
        _i8,
    ),
    "SUB": versions(
        "1.6.0 1.14.0 2.3.0 2.4.0 2.4.0",
        (5, both(first("i16"), cleared("pot_scale_int16"))),
        (4, first("i64")),
        (3, _broadcasts_above_rank_4),
        _i8,
    ),
    "SUM": versions("1.10.0 1.15.0", _i8),
    "SVDF": versions("1.5.0 1.14.0 2.2.0 2.3.0", (3, first("i8")), (4, asymmetric(1)), (2, hybrid(1))),
    "TANH": versions("1.14.0 1.14.0 2.3.0", *_i16_i8),
    "TILE": versions("1.10.1 2.2.0 2.8.0", (3, first("i8")), (2, first("string"))),
    "TOPK_V2": versions("1.7.0 1.14.0 2.13.0", (3, anywhere("i16")), _i8),
    "TRANSPOSE": versions(
        "1.6.0 1.14.0 1.15.0 2.3.0 2.4.0 2.12.0 2.14.4 2.22.0 2.23.0",
        (9, first("f16")),
        (8, either(rank_above(6), first("bf16"))),
        (7, first("i4")),
        (6, rank_above(5)),
        (5, first("i16")),
        (4, rank_above(4)),
        (3, first("bool")),
        _i8,
    ),
    # Operand 0 is the shape of the result; the image is operand 2.
    "TRANSPOSE_CONV": versions(
        "1.9.0 2.2.0 2.3.0 2.13.0 2.15.0",
        (5, both(at(2, "i16"), at(1, "i8"), _bias_typed)),
        (4, option_not("fused_activation_function", "NONE")),
        (3, lambda eqn: len(eqn.inputs) > 3 and eqn.inputs[3] is not None),
        (2, at(2, "i8")),
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": versions(
        "1.13.1 1.14.0 2.3.0 2.12.0", (4, option("diagonal_recurrent_tensors")), *_quantizes_gates
    ),
    "UNIDIRECTIONAL_SEQUENCE_RNN": versions("1.14.0 1.14.0 2.3.0", *_quantizes_weights),
    "UNPACK": versions(
        "1.11.0 1.14.0 2.2.0 2.3.0 2.22.0 2.23.0",
        (6, first("f8")),
        (5, first("f16 bf16")),
        (4, first("i16")),
        (3, first("bool")),
        (2, first("i8 u8")),
    ),
    "WHERE": versions("1.14.0 2.8.0", (2, never(first("bool")))),
}

_SINGLE: Mapping[str, str] = {  # ops that exist in version 1 only, by their oldest runtime
    "1.5.0": "EMBEDDING_LOOKUP_SPARSE HASHTABLE_LOOKUP L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LSH_PROJECTION "
    "RELU_N1_TO_1 RESHAPE SKIP_GRAM",
    "1.8.0": "PRELU",
    "1.9.0": "FLOOR NEG",
    "1.10.0": "EXPAND_DIMS POW SHAPE",
    "1.11.0": "LOGICAL_AND LOGICAL_NOT LOGICAL_OR ONE_HOT REDUCE_ANY",
    "1.12.0": "SQUARE ZEROS_LIKE",
    "1.14.0": "ADD_N CEIL ELU MATRIX_DIAG MATRIX_SET_DIAG RANK REVERSE_SEQUENCE ROUND UNIQUE",
    "1.15.0": "HARD_SWISH IF WHILE",
    "2.1.0": "NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND",
    "2.2.0": "DENSIFY SEGMENT_SUM",
    "2.4.0": "CUMSUM",
    "2.5.0": "CALL_ONCE COMPLEX_ABS CONV_3D HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE IMAG REAL RFFT2D",
    "2.6.0": "ASSIGN_VARIABLE BROADCAST_ARGS CONV_3D_TRANSPOSE READ_VARIABLE REDUCE_ALL VAR_HANDLE",
    "2.8.0": "BUCKETIZE MULTINOMIAL RANDOM_STANDARD_NORMAL RANDOM_UNIFORM",
    "2.10.0": "ATAN2 RELU_0_TO_1 UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_SUM",
    "2.11.0": "UNSORTED_SEGMENT_MIN",
    "2.13.0": "BITCAST BITWISE_XOR RIGHT_SHIFT",
    "2.15.0": "DILATE REDUCE_WINDOW STABLEHLO_RNG_BIT_GENERATOR STABLEHLO_SCATTER",
    "2.16.0": "STABLEHLO_ADD STABLEHLO_GATHER STABLEHLO_MAXIMUM STABLEHLO_MINIMUM STABLEHLO_MULTIPLY STABLEHLO_PAD "
    "STABLEHLO_REDUCE_WINDOW",
    "2.17.0": "STABLEHLO_AND STABLEHLO_CASE STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT",
}
_TABLE.update({builtin: versions(runtime) for runtime, builtins in _SINGLE.items() for builtin in builtins.split()})
