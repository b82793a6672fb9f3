"""The element types that the runtime's kernels take for tensors without quantization.

Measured on LiteRT 2.3.0, one operator at a time; what is listed runs with its default delegates and without them, so
f16 is not where XNNPACK alone has it. A kernel does not always refuse what it
does not take: i8 sums of i8 are taken for quantized with a scale of 0 (SUM, MUL answer 0) or end the process (ADD,
EQUAL). Ops that are not listed take every type.
"""

from __future__ import annotations

from collections.abc import Mapping

from jfuse.ir.graph import Atom, Eqn
from jfuse.ir.types import DType
from jfuse.tflite.runtime.broadcasting import lacks_broadcasting

_ANY = "f32 f16 bf16 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool c64"  # all but strings
_CASTS = "f32 f16 bf16 f64 i8 i16 i32 i64 u8 u16 u32 bool c64"

_BY_RESULT = {
    "ADD": "f32 f16 i16 i32 i64",
    "SUB": "f32 i32 i64",
    "MUL": "f32 f16 i16 i32 i64 u32 c64",
    "DIV": "f32 i32",
    "FLOOR_DIV": "f32 i8 i16 i32",
    "FLOOR_MOD": "f32 i8 i16 i32 i64",
    "POW": "f32 i32",
    "ADD_N": "f32 i32",
    "SQUARED_DIFFERENCE": "f32 i32",
    "NEG": "f32 f16 bf16 i8 i16 i32 i64",
    "ABS": "f32 i16 i32",
    "SIGN": "f32 f64 i32",
    "ZEROS_LIKE": "f32 i32 i64",
    "LOG_SOFTMAX": "f32",
    "MEAN": "f32 i32 i64",
    "SUM": "f32 i32 i64",
    "REDUCE_PROD": "f32 i8 i16 i32 i64 u8",
    "CUMSUM": "f32 i32 i64",
    "RANGE": "f32 i32 i64",
    "RESIZE_BILINEAR": "f32",
    "RESIZE_NEAREST_NEIGHBOR": "f32 f16 bf16 i8 i16 i32 u8 u16 u32 bool",
    "CONCATENATION": "f32 f16 bf16 i8 i16 i32 i64 u8 u32 bool",
    "PACK": "f32 i8 i16 i32 i64 u8 u32",
    "UNPACK": "f32 f16 bf16 i8 i16 i32 u8 bool",
    "SPLIT": "f32 i8 i16 i32 i64 u8",
    "SPLIT_V": "f32 i8 i16 i32 i64 u8",
    "REVERSE_SEQUENCE": "f32 i16 i32 i64 u8",
    "GATHER": "f32 f16 bf16 i8 i16 i32 i64 u8 bool string",  # strings of vectors only, see `unsupported`
    "GATHER_ND": "f32 f16 bf16 i8 i16 i32 i64 u8 bool string",
    "TOPK_V2": "f32 i8 i16 i32 i64 u8",
    "CAST": _CASTS,
    "FULLY_CONNECTED": "f32",
    "BATCH_MATMUL": "f32",
    "MAX_POOL_2D": "f32 i8 i16 u8",
    "REDUCE_WINDOW": "f32 f64 i8 i16 i32 i64 u8 bool",
    "DILATE": _ANY,
    **dict.fromkeys("CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV CONV_3D CONV_3D_TRANSPOSE".split(), "f32"),
    **dict.fromkeys("AVERAGE_POOL_2D L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION L2_NORMALIZATION".split(), "f32"),
    **dict.fromkeys("SPACE_TO_DEPTH DEPTH_TO_SPACE".split(), "f32 i8 i32 i64 u8"),
    **dict.fromkeys("SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND".split(), _ANY),
    **dict.fromkeys("MAXIMUM MINIMUM".split(), "f32 f16 bf16 i8 i16 i32 i64 u8"),
    **dict.fromkeys("REDUCE_MAX REDUCE_MIN".split(), "f32 i8 i16 i32 i64 u8"),
    "ATAN2": "f32 f16 bf16 f64",
    "BITWISE_XOR": "i8 i16 i32 u8 u16 u32",
    "RIGHT_SHIFT": "i8 i16 i32 u8 u16 u32",
    "STABLEHLO_AND": "i8 i16 i32 i64 u8 u16 u32 u64 bool",
    **dict.fromkeys("SIN COS SOFTMAX".split(), "f32 f16"),
    **dict.fromkeys("EXP LOG SQRT SQUARE RSQRT CEIL ELU HARD_SWISH LEAKY_RELU PRELU GELU FAKE_QUANT".split(), "f32"),
    **dict.fromkeys("RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1".split(), "f32"),
    **dict.fromkeys("FLOOR ROUND TANH LOGISTIC".split(), "f32 f16 bf16"),
    **dict.fromkeys("PAD PADV2 REVERSE_V2".split(), "f32 f16 bf16 i8 i16 i32 i64 u8 bool"),
    **dict.fromkeys("SCATTER_ND ONE_HOT".split(), "f32 i8 i32 i64 u8 bool"),
    **dict.fromkeys("TRANSPOSE MIRROR_PAD BROADCAST_TO DYNAMIC_UPDATE_SLICE".split(), _ANY),
    "FILL": f"{_ANY} string",
    "UNIQUE": "f32 i8 i16 i32 i64 u8",
    "SPARSE_TO_DENSE": "f32 i8 i32 i64 u8",
    **dict.fromkeys("MATRIX_DIAG MATRIX_SET_DIAG".split(), "f32 i8 i16 i32 i64 u8 u32"),
    "SEGMENT_SUM": "f32 i32",
    **{f"UNSORTED_SEGMENT_{name}": "f32 i32" for name in ("SUM", "PROD", "MIN", "MAX")},
    **dict.fromkeys("EMBEDDING_LOOKUP SELECT SELECT_V2".split(), _ANY),
}
_BY_OPERAND = {
    "EQUAL": "f32 f16 i16 i32 i64 bool string",
    "NOT_EQUAL": "f32 f16 i32 i64 bool string",
    "WHERE": "f32 i8 i32 i64 u8 u32 bool",
    "CAST": _CASTS,
    "BUCKETIZE": "f32 f64 i32 i64",
    **dict.fromkeys("NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 RFFT2D".split(), "f32"),
    **dict.fromkeys("REAL IMAG COMPLEX_ABS".split(), "c64"),
    **dict.fromkeys("LESS GREATER".split(), "f32 f16 bf16 i16 i32 i64"),
    **dict.fromkeys("LESS_EQUAL GREATER_EQUAL".split(), "f32 f16 i16 i32 i64"),
    **dict.fromkeys("ARG_MAX ARG_MIN".split(), "f32 i8 i32 u8 bool"),
}


def _sets(table: Mapping[str, str]) -> dict[str, frozenset[DType]]:
    return {builtin: frozenset(map(DType, names.split())) for builtin, names in table.items()}


_RESULTS, _OPERANDS = _sets(_BY_RESULT), _sets(_BY_OPERAND)


def taken(builtin: str) -> tuple[frozenset[DType] | None, frozenset[DType] | None]:
    """The types that a builtin's kernel takes of the first result and of the first operand; None for every type."""
    return _RESULTS.get(builtin), _OPERANDS.get(builtin)


def refused(eqn: Eqn) -> Atom | None:
    """The operand or result of a builtin's equation whose type no kernel takes, if there is one."""
    builtin = getattr(eqn.op, "builtin", "")
    atoms = [a for a in (*eqn.inputs, *eqn.outputs) if a is not None]
    if any(a.type.quantization is not None for a in atoms):
        return None  # what the tables are about is plain numbers
    if builtin == "GATHER" and atoms[0].type.dtype is DType.string and atoms[0].type.rank != 1:
        return atoms[0]
    for table, sides in ((_OPERANDS, eqn.inputs[:1]), (_RESULTS, eqn.outputs[:1])):
        for atom in sides:
            if atom is not None and builtin in table and atom.type.dtype not in table[builtin]:
                return atom
    return None


def unsupported(eqn: Eqn) -> str | None:
    """What is wrong with the types of a builtin's equation, where no kernel takes them."""
    atom = refused(eqn)
    if atom is None:
        return lacks_broadcasting(eqn)
    builtin = getattr(eqn.op, "builtin", "")
    if builtin == "GATHER" and atom.type.dtype is DType.string:
        return f"the runtime's kernel takes vectors of strings, not {atom.type}"
    taken = (_OPERANDS if atom is eqn.inputs[0] and builtin in _OPERANDS else _RESULTS)[builtin]
    return f"the runtime's kernel takes {', '.join(d.value for d in DType if d in taken)}, not {atom.type}"
