"""The table of all builtins: one row each, none by default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jfuse.base.errors import RuleError
from jfuse.ir.graph import Op
from jfuse.tflite.runtime.quantized import FLOAT_ONLY, Quantized
from jfuse.tflite.runtime.row import KernelLimits, Row, Runtime
from jfuse.tflite.runtime.rows import (
    arithmetic,
    array,
    fused,
    nn,
    states_and_others,
)

_FAMILIES = (arithmetic, array, fused, nn, states_and_others)


def by_builtin(families: Iterable[tuple[Row, ...]]) -> Mapping[str, Row]:
    """Rows by their builtin; raises RuleError for a builtin with two rows."""
    table: dict[str, Row] = {}
    for row in (row for rows in families for row in rows):
        if row.builtin in table:
            raise RuleError(f"{row.builtin} has two rows in jfuse/tflite/runtime/rows", remedy="keep one of them")
        table[row.builtin] = row
    return table


ROWS = by_builtin(family.ROWS for family in _FAMILIES)


def litert_of(builtin: str | None) -> Runtime | None:
    """Look up LiteRT's kernel of a builtin; None where it has none, or the row is missing."""
    row = ROWS.get(builtin or "")
    return None if row is None else row.litert


def limits_of(builtin: str | None) -> KernelLimits | None:
    """Look up the types that LiteRT's kernel of a builtin takes; None where that was never measured."""
    runtime = litert_of(builtin)
    return None if runtime is None else runtime.limits


def quantized_of(op: Op) -> Quantized:
    """Look up how LiteRT's kernel of an op takes quantized tensors; further forms of a builtin stay float."""
    runtime = None if op.form else litert_of(op.builtin)
    return FLOAT_ONLY if runtime is None else runtime.quantized


def reason_for(builtin: str) -> str:
    """Why a builtin has no kernel in jfuse; "" where it has one, or nobody has said."""
    row = ROWS.get(builtin)
    return (row.gap or "") if row is not None else ""
