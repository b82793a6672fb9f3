"""The operators of a file, as it has them: those that no equation stands for, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from jfuse.tflite.schema import BUILTIN_NAMES, custom_code


def operators_of(data: bytes) -> Mapping[str, int]:
    """How many operators of each builtin a file has, by name; custom ones as `custom_code` names them."""
    model = schema.Model.GetRootAs(data, 0)
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    names = [_name(code.BuiltinCode(), code.DeprecatedBuiltinCode(), code.CustomCode()) for code in codes]
    graphs = [model.Subgraphs(i) for i in range(model.SubgraphsLength())]
    counts = Counter(names[g.Operators(i).OpcodeIndex()] for g in graphs for i in range(g.OperatorsLength()))
    return dict(sorted(counts.items()))


def name_of(code: Any) -> str:
    """The name of an operator code of the object API (`schema.OperatorCodeT`)."""
    return _name(code.builtinCode, code.deprecatedBuiltinCode, code.customCode)


def _name(builtin: int, deprecated: int, custom: bytes | None) -> str:
    return BUILTIN_NAMES[max(builtin, deprecated)] if custom is None else custom_code(custom.decode())
