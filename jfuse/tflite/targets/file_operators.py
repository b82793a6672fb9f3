"""The operators of a file as they are in it, including those without an equation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from jfuse.tflite.schema import BUILTIN_NAMES, custom_code


def operators_of(data: bytes) -> Mapping[str, int]:
    """How many operators of each builtin a file has, by name; custom ones as `custom_code` names them."""
    return dict(sorted(Counter(builtin for builtin, _ in first_results(data)).items()))


def first_results(data: bytes) -> Iterator[tuple[str, str]]:
    """The builtin of each operator of a file, named as by `operators_of`, and the first tensor that it makes."""
    model = schema.Model.GetRootAs(data, 0)
    codes = [model.OperatorCodes(i) for i in range(model.OperatorCodesLength())]
    names = [_name(code.BuiltinCode(), code.DeprecatedBuiltinCode(), code.CustomCode()) for code in codes]
    for graph in (model.Subgraphs(i) for i in range(model.SubgraphsLength())):
        for operator in (graph.Operators(i) for i in range(graph.OperatorsLength())):
            made = graph.Tensors(operator.Outputs(0)).Name() if operator.OutputsLength() else None
            yield names[operator.OpcodeIndex()], (made or b"").decode(errors="replace")


def name_of(code: Any) -> str:
    """The name of an operator code of the object API (`schema.OperatorCodeT`)."""
    return _name(code.builtinCode, code.deprecatedBuiltinCode, code.customCode)


def _name(builtin: int, deprecated: int, custom: bytes | None) -> str:
    return BUILTIN_NAMES[max(builtin, deprecated)] if custom is None else custom_code(custom.decode())
