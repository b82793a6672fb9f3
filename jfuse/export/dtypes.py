"""The element types that the runtime's kernels take for tensors without quantization.

Measured on LiteRT 2.3.0 with its default delegates, one operator at a time. A kernel does not always refuse what it
does not take: i8 sums of i8 are taken for quantized with a scale of 0 (SUM, MUL answer 0) or end the process (ADD,
EQUAL). Ops that are not listed take every type.
"""

from __future__ import annotations

from collections.abc import Mapping

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType

_ANY = "f32 f16 bf16 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool c64"  # all but strings
_CASTS = "f32 f16 bf16 f64 i8 i16 i32 i64 u8 u16 u32 bool c64"

_BY_RESULT = {
    "ADD": "f32 f16 i16 i32 i64",
    "SUB": "f32 f16 i32 i64",
    "MUL": "f32 f16 i16 i32 i64 u32 c64",
    "DIV": "f32 f16 i32",
    "FLOOR_DIV": "f32 i8 i16 i32",
    "FLOOR_MOD": "f32 i8 i16 i32 i64",
    "POW": "f32 i32",
    "ADD_N": "f32 i32",
    "SQUARED_DIFFERENCE": "f32 f16 i32",
    "NEG": "f32 f16 bf16 i8 i16 i32 i64",
    "ABS": "f32 f16 i16 i32",
    "SIGN": "f32 f64 i32",
    "ZEROS_LIKE": "f32 i32 i64",
    "LOG_SOFTMAX": "f32",
    "MEAN": "f32 f16 i32 i64",
    "SUM": "f32 f16 i32 i64",
    "REDUCE_PROD": "f32 i8 i16 i32 i64 u8",
    "CUMSUM": "f32 i32 i64",
    "RANGE": "f32 i32 i64",
    "CONCATENATION": "f32 f16 bf16 i8 i16 i32 i64 u8 u32 bool",
    "PACK": "f32 i8 i16 i32 i64 u8 u32",
    "UNPACK": "f32 f16 bf16 i8 i16 i32 u8 bool",
    "SPLIT": "f32 f16 i8 i16 i32 i64 u8",
    "SPLIT_V": "f32 i8 i16 i32 i64 u8",
    "REVERSE_SEQUENCE": "f32 i16 i32 i64 u8",
    "GATHER_ND": "f32 f16 bf16 i8 i16 i32 i64 u8 bool string",
    "TOPK_V2": "f32 i8 i16 i32 i64 u8",
    "CAST": _CASTS,
    "FULLY_CONNECTED": "f32 f16",
    "BATCH_MATMUL": "f32 f16",
    **dict.fromkeys("MAXIMUM MINIMUM".split(), "f32 f16 bf16 i8 i16 i32 i64 u8"),
    **dict.fromkeys("REDUCE_MAX REDUCE_MIN".split(), "f32 f16 i8 i16 i32 i64 u8"),
    **dict.fromkeys("EXP LOG SQRT SQUARE RSQRT SIN COS CEIL ELU HARD_SWISH LEAKY_RELU GELU SOFTMAX".split(), "f32 f16"),
    **dict.fromkeys("RELU RELU6 RELU_N1_TO_1".split(), "f32 f16"),
    **dict.fromkeys("FLOOR ROUND TANH LOGISTIC".split(), "f32 f16 bf16"),
    **dict.fromkeys("PAD PADV2 REVERSE_V2 GATHER".split(), "f32 f16 bf16 i8 i16 i32 i64 u8 bool"),
    **dict.fromkeys("SCATTER_ND ONE_HOT".split(), "f32 i8 i32 i64 u8 bool"),
    **dict.fromkeys("TRANSPOSE MIRROR_PAD BROADCAST_TO FILL DYNAMIC_UPDATE_SLICE".split(), _ANY),
    **dict.fromkeys("EMBEDDING_LOOKUP SELECT SELECT_V2".split(), _ANY),
}
_BY_OPERAND = {
    "EQUAL": "f32 f16 i16 i32 i64 bool string",
    "NOT_EQUAL": "f32 f16 i32 i64 bool string",
    "WHERE": "f32 i8 i32 i64 u8 u32 bool",
    "CAST": _CASTS,
    **dict.fromkeys("LESS GREATER".split(), "f32 f16 bf16 i16 i32 i64"),
    **dict.fromkeys("LESS_EQUAL GREATER_EQUAL".split(), "f32 f16 i16 i32 i64"),
    **dict.fromkeys("ARG_MAX ARG_MIN".split(), "f32 i8 i32 u8 bool"),
}


def _sets(table: Mapping[str, str]) -> dict[str, frozenset[DType]]:
    return {builtin: frozenset(map(DType, names.split())) for builtin, names in table.items()}


_RESULTS, _OPERANDS = _sets(_BY_RESULT), _sets(_BY_OPERAND)


def unsupported(eqn: Eqn) -> str | None:
    """What is wrong with the types of a builtin's equation, where no kernel takes them."""
    builtin = getattr(eqn.op, "builtin", "")
    atoms = [a for a in (*eqn.inputs, *eqn.outputs) if a is not None]
    if any(a.type.quantization is not None for a in atoms):
        return None  # what the tables are about is plain numbers
    for table, sides in ((_OPERANDS, eqn.inputs[:1]), (_RESULTS, eqn.outputs[:1])):
        for atom in sides:
            if atom is not None and builtin in table and atom.type.dtype not in table[builtin]:
                takes = ", ".join(d.value for d in DType if d in table[builtin])
                return f"the runtime's kernel takes {takes}, not {atom.type}"
    return None
