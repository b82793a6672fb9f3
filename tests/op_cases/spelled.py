"""The builtins that each TensorFlow op becomes, in rows of known sizes; of open sizes where those hold none (Shape).

`python -m tests.generated` writes them to `jfuse/reports/spelled.txt`, where `jfuse ops` reads them.
"""

from __future__ import annotations

import numpy as np

from jfuse.ir.walk import all_eqns
from jfuse.lowering.defaults import default_rules
from tests.op_cases import FAMILIES
from tests.op_cases.case import Case, case, const, f32, i32
from tests.op_cases.runners import graph_of

_LIST = f32(4, 3)
_ROW, _SHAPE, _PLACES = f32(3), const([3]), const([2, 0, 1, 3])

ONLY_TRACED: tuple[Case, ...] = (
    case("Multinomial", args=[f32(2, 3), const(4)]),
    case("RandomShuffle", args=[f32(4, 3)]),
    case("RandomStandardNormal", args=[const([2, 3])]),
    case("RandomUniform", args=[const([2, 3])]),
    case("RandomUniformInt", args=[const([2, 3]), const(-3), const(5)]),
    case("ResourceGather", args=[f32(4, 3), i32(2)]),
    case("ResourceGatherNd", args=[f32(4, 3), i32(2, 1)]),
    case("TensorListConcat", args=[f32(4, 3, 2)]),
    case("TensorListConcatV2", args=[f32(4, 3, 2), const([3, 2]), const(np.zeros(0, np.int64))]),
    case("TensorListElementShape", args=[_LIST]),
    case("TensorListFromTensor", args=[_LIST, _SHAPE]),
    case("TensorListGather", args=[_LIST, i32(2), _SHAPE]),
    case("TensorListGetItem", args=[_LIST, i32(), _SHAPE]),
    case("TensorListLength", args=[_LIST]),
    case("TensorListPopBack", args=[_LIST, _SHAPE]),
    case("TensorListPushBack", args=[_LIST, _ROW]),
    case("TensorListResize", args=[_LIST, const(6)]),
    case("TensorListScatter", args=[_LIST, _PLACES, _SHAPE]),
    case("TensorListScatterIntoExistingList", args=[f32(5, 3), _LIST, _PLACES]),
    case("TensorListScatterV2", args=[_LIST, _PLACES, _SHAPE, const(6)]),
    case("TensorListSetItem", args=[_LIST, i32(), _ROW]),
    case("TensorListSplit", args=[f32(6, 2), const([3, 2]), const([2, 2, 2])]),
    case("TensorListStack", args=[_LIST, _SHAPE]),
    case("TopK", args=[f32(2, 5)], k=2),
    case("TruncatedNormal", args=[const([2, 3])]),
)
"""Rows for ops without one (`RULE_GAPS`), whose results nobody compares here: a list is the tensor of its rows."""


def spelled() -> dict[str, list[str]]:
    """For each op with a rule, the builtins in the graphs of its rows, in alphabetical order.

    Where the rule of an op without rows is that of another op as well, those of the other.
    """
    rows = [*(row for rows in FAMILIES.values() for row in rows), *ONLY_TRACED]
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(row.op, set()).update(_builtins(row))
    empty = [op for op, used in found.items() if not used]
    for row in rows:
        if row.dynamic and row.op in empty:
            found[row.op] |= _builtins(row, dynamic=True)
    rules = default_rules().lowers
    shared = {rules[op].function: used for op, used in found.items()}
    return {op: sorted(found.get(op, shared.get(rule.function, ()))) for op, rule in sorted(rules.items())}


def _builtins(row: Case, *, dynamic: bool = False) -> set[str]:
    return {eqn.op.builtin for eqn in all_eqns(graph_of(row, dynamic=dynamic)) if eqn.op.builtin}


def text() -> str:
    """One line for each op: `Relu: RELU`."""
    return "".join(f"{' '.join([f'{op}:', *builtins])}\n" for op, builtins in spelled().items())
