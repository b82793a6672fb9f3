"""The table of builtins: one row each, which says what the runtime does with every builtin that has a kernel here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from jfuse.base.errors import LowerError, RuleError
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import control, ops
from jfuse.kernels.core.op import builtin_ops
from jfuse.passes.gates.builtins_only import check_operators
from jfuse.tflite.runtime import table
from jfuse.tflite.runtime.row import Row, Runtime, versions
from jfuse.tflite.runtime.table import ROWS, by_builtin
from jfuse.tflite.schema import BUILTIN_CODES

OURS = builtin_ops().keys() | {op.builtin for op in vars(control).values() if isinstance(op, control.BodyOp)}
BROADCASTING = {
    name
    for name, op in builtin_ops().items()
    if op.elementwise and (len(op.operands) > 1 or any(o.variadic for o in op.operands))
}


def missing(rows: Mapping[str, Row]) -> Iterator[str]:
    """What the rows do not say, and what they say against the kernels that are there."""
    for builtin in sorted(BUILTIN_CODES.keys() | rows.keys()):
        row = rows.get(builtin)
        if builtin not in BUILTIN_CODES:
            yield f"{builtin} has a row, and is no builtin of the schema"
        elif row is None:
            yield f"{builtin} has no row in jfuse/tflite/runtime/rows"
        elif builtin not in OURS and not row.gap:
            yield f"the row of {builtin} gives no gap: there is no kernel, and nobody says why"
        elif builtin in OURS and row.gap is not None:
            yield f"the row of {builtin} gives a gap, although kernels/ has a kernel for it"
        elif builtin in OURS and (row.litert is None or row.litert.limits is None):
            yield f"the row of {builtin} does not say what LiteRT's kernel takes"
        elif builtin in BROADCASTING and row.litert and row.litert.limits and row.litert.limits.broadcasts is None:
            yield f"the row of {builtin} does not say how LiteRT's kernel broadcasts"


def test_every_builtin_has_a_row_and_every_kernel_s_row_says_all() -> None:
    assert list(missing(ROWS)) == []


@pytest.mark.parametrize(
    ("builtin", "row", "message"),
    [
        ("RELU6", None, "RELU6 has no row in jfuse/tflite/runtime/rows"),
        ("CALL", None, "CALL has no row in jfuse/tflite/runtime/rows"),
        ("RELU6", Row("RELU6", None), "the row of RELU6 does not say what LiteRT's kernel takes"),
        ("RELU6", Row("RELU6", None, "odd"), "the row of RELU6 gives a gap, although kernels/ has a kernel for it"),
        ("CALL", Row("CALL", None), "the row of CALL gives no gap: there is no kernel, and nobody says why"),
        ("ODD", Row("ODD", None), "ODD has a row, and is no builtin of the schema"),
        ("MAXIMUM", ROWS["RELU6"], "the row of MAXIMUM does not say how LiteRT's kernel broadcasts"),
    ],
)
def test_what_is_missing_is_named(builtin: str, row: Row | None, message: str) -> None:
    rows = {name: known for name, known in {**ROWS, builtin: row}.items() if known is not None}
    assert set(missing(rows)) - set(missing(ROWS)) == {message}


def test_a_builtin_has_one_row() -> None:
    with pytest.raises(RuleError, match="CALL has two rows in jfuse/tflite/runtime/rows"):
        by_builtin([(Row("CALL", None, "odd"),), (Row("CALL", None, "odd"),)])


@pytest.mark.parametrize("row", [None, Row("RELU6", None), Row("RELU6", Runtime(versions("1.5.0"), limits=None))])
def test_an_op_of_which_nothing_is_known_is_not_written(monkeypatch: pytest.MonkeyPatch, row: Row | None) -> None:
    graph = trace_graph(ops.relu6, [TensorType((2,), DType.f32)])
    check_operators([graph])
    rows = {name: known for name, known in {**ROWS, "RELU6": row}.items() if known is not None}
    monkeypatch.setattr(table, "ROWS", rows)
    with pytest.raises(LowerError, match=r"relu6 \(1x, (.|\n)*no row of jfuse/tflite/runtime/rows says what"):
        check_operators([graph])
