"""An equation's parameters as the option table of its operator, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.base.errors import BadFlatbuffer, JfuseError, LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.ir.types import DTYPES, TENSOR_TYPES, DType
from jfuse.tflite.schema import (
    DTYPE_FIELDS,
    ENUM_FIELDS,
    encode_option,
    new_options,
    option_fields,
)

# Fields that repeat what operands and results say. They are written unless the op has an option of that name, and not
# read back. (subgraph indices: see `to_table`)
_REPEATED: Mapping[tuple[str, str], Callable[[Eqn], Any]] = {
    ("PACK", "valuesCount"): lambda eqn: len(eqn.inputs),
    ("UNPACK", "num"): lambda eqn: len(eqn.outputs),
    ("SPLIT", "numSplits"): lambda eqn: len(eqn.outputs),
    ("SPLIT_V", "numSplits"): lambda eqn: len(eqn.outputs),
    ("CAST", "inDataType"): lambda eqn: _operand_type(eqn),
    ("CAST", "outDataType"): lambda eqn: TENSOR_TYPES[eqn.outputs[0].type.dtype],
}
# Options of an op that the schema leaves to the result's type: not written, and read back from there.
_RESULT_TYPE: Mapping[str, str] = {"BITCAST": "out_data_type", "CAST": "out_data_type", "MULTINOMIAL": "output_type"}
# What LiteRT takes where an operator has no options at all, and it is not the schema's default.
# Source: tflite/core/api/flatbuffer_conversions.cc, which leaves all fields at 0.
_ABSENT: Mapping[tuple[str, str], Any] = {
    ("ADD", "potScaleInt16"): False,
    ("SUB", "potScaleInt16"): False,
    ("BIDIRECTIONAL_SEQUENCE_LSTM", "timeMajor"): False,
    ("BUCKETIZE", "boundaries"): np.zeros(0, np.float32),
}
_BODIES: Mapping[str, tuple[str, ...]] = {
    "WHILE": ("condSubgraphIndex", "bodySubgraphIndex"),
    "IF": ("thenSubgraphIndex", "elseSubgraphIndex"),
    "STABLEHLO_COMPOSITE": ("decompositionSubgraphIndex",),
}


def _operand_type(eqn: Eqn) -> int:
    (x,) = (a for a in eqn.inputs[:1] if a is not None)
    return TENSOR_TYPES[x.type.dtype]


def as_stored(eqn: Eqn) -> Eqn:
    """The equation as the file holds it: a RESHAPE to a scalar names its shape as an option.

    A constant without elements has no bytes, so the kernel would take the shape for one that is computed at run time,
    and every shape behind it for dynamic.
    """
    if eqn.op.name == "reshape" and isinstance(shape := eqn.inputs[1], Const) and shape.array.size == 0:
        return replace(eqn, inputs=(eqn.inputs[0], None), params={**eqn.params, "new_shape": ()})
    return eqn


def as_recorded(builtin: str, operands: list[Atom | None], params: dict[str, Any]) -> None:
    """Undo `as_stored` on an operator's operands and parameters, in place."""
    if builtin == "RESHAPE" and operands[1:] in ([], [None]) and params["new_shape"] in ((), None):
        operands[1:] = [Const(np.zeros(0, np.int32))]
        params["new_shape"] = None


def to_table(eqn: Eqn, builtin: str, bodies: Sequence[int] = ()) -> tuple[int, int, Any]:
    """The option table of an equation: (union 1 or 2, number in the union, table or None).

    bodies: the subgraph indices of the equation's bodies.
    """
    union, code, table = new_options(builtin)
    fields = option_fields(table)
    for (op, repeated), derive in _REPEATED.items():
        if op == builtin:
            setattr(table, repeated, derive(eqn))
    for body_field, index in zip(_BODIES.get(builtin, ()), bodies, strict=True):
        setattr(table, body_field, index)
    for name, value in eqn.params.items():
        if value is None or _RESULT_TYPE.get(builtin) == name:
            continue  # not given, or said by the schema's default or the result
        field = fields.get(name.replace("_", ""))
        if field is None:
            raise LowerError(
                f"{builtin} has no option {name} in TFLite's schema", where=str(eqn.source) or None, found=value
            )
        setattr(table, field, _encoded(name, field, value))
    return union, code, table


def _encoded(name: str, field: str, value: Any) -> Any:
    if isinstance(value, tuple):
        if not all(is_known(v) for v in value):
            raise LowerError(f"the option {name} depends on sizes that are known only at run time", found=value)
        return np.asarray(value, np.float32 if any(isinstance(v, float) for v in value) else np.int32)
    if isinstance(value, bytes):
        return np.frombuffer(value, np.uint8)
    return encode_option(field, value)


def body_indices(builtin: str, table: Any) -> tuple[int, ...]:
    """The subgraph indices in an operator's options."""
    return tuple(int(getattr(table, field)) for field in _BODIES.get(builtin, ()))


def from_table(builtin: str, table: Any, names: Sequence[str], result: DType | None = None) -> dict[str, Any]:
    """The parameters that an op of these option names reads from an operator's table (for None as LiteRT reads it).

    result: the dtype that the file states for the first result, if there is one.
    Raises LowerError where the table sets something that the op does not know of, BadFlatbuffer for numbers that are
    none of the schema's.
    """
    if table is None:
        table = new_options(builtin)[2]
        for (op, absent), value in _ABSENT.items():
            if op == builtin:
                setattr(table, absent, value)
    fields = option_fields(table)
    derived = _RESULT_TYPE.get(builtin)
    params: dict[str, Any] = {} if derived is None else {derived: result}
    names = [n for n in names if n != derived]
    for name in names:
        field = fields.get(name.replace("_", ""))
        if field is None:
            raise JfuseError(f"{builtin} has no option {name} in TFLite's schema")
        params[name] = _decoded(builtin, field, getattr(table, field))
    _refuse_unknown(builtin, table, {fields[name.replace("_", "")] for name in names})
    return params


def _refuse_unknown(builtin: str, table: Any, known: set[str]) -> None:
    default = new_options(builtin)[2]
    repeated = {field for op, field in _REPEATED if op == builtin} | set(_BODIES.get(builtin, ()))
    for field in option_fields(table).values():
        value = getattr(table, field)
        if field not in known | repeated and not _is_same(value, getattr(default, field, None)):
            raise LowerError(f"jfuse does not know the option {field} of {builtin}", found=value)


def _is_same(value: Any, default: Any) -> bool:
    return value is default or bool(np.array_equal(value, default))


def _decoded(builtin: str, field: str, value: Any) -> Any:
    if field in DTYPE_FIELDS:
        return _named(DTYPES, value, builtin, field)
    if field in ENUM_FIELDS:
        return _named({number: name for name, number in ENUM_FIELDS[field].items()}, value, builtin, field)
    if isinstance(value, np.ndarray):
        return value.tobytes() if value.dtype == np.uint8 else tuple(value.tolist())
    if isinstance(value, bytes):
        return value.decode()
    return value


def _named(names: Mapping[int, DType] | Mapping[int, str], value: int, builtin: str, field: str) -> Any:
    if value not in names:
        raise BadFlatbuffer(f"{builtin} has an unknown {field}", found=value)
    return names[value]
