"""Errors as node data for Google's Model Explorer, which then colours the graph of a .tflite file by them.

Format, as Model Explorer's `node_data_builder.py` and `common/types.ts` have it (0.1.34): by graph id, a `name`,
`results` (by node id, a `value` and its colours) and `thresholds`. Its reader of .tflite files takes a subgraph's name
for the graph's id (the signature's key where it has none), and an operator's number in its subgraph for the node's id.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import JfuseError
from jfuse.base.files import write_atomic
from jfuse.model import Model
from jfuse.records.verification import Verification
from jfuse.tflite.options import body_indices
from jfuse.tflite.read.states import ON_VARIABLES
from jfuse.tflite.read.tables import ON_TABLES
from jfuse.tflite.schema import BUILTIN_NAMES

_COLOURS = (
    (0.0, "#e8f1ec"),
    (1e-6, "#cfe3d6"),
    (1e-5, "#f3e6b3"),
    (1e-4, "#f0c27b"),
    (1e-2, "#e58e5a"),
    (1.0, "#cf5444"),
)
"""A relative error up to this bound, and the colour of its operator."""
_BEYOND = {"bgColor": "#8c1d18", "textColor": "#ffffff"}


def write_model_explorer(
    verification: Verification, model: Model, path: str | os.PathLike[str], *, pair: str | None = None
) -> Path:
    """Write the relative error of each operator of `model` for Model Explorer: whole or not at all.

    model: the verified one, whose file Model Explorer shows. pair: the comparison to take (`xla/litert`); by default
    the largest error of all. Errors without bound are the text "inf", as JSON has no number for them.
    Raises JfuseError where the verification has no equations of that pair, or the file cannot be written.
    """
    write_atomic(path, (json.dumps(node_data(verification, model, pair), indent=1) + "\n").encode("ascii"))
    return Path(path)


def node_data(verification: Verification, model: Model, pair: str | None = None) -> dict[str, Any]:
    """The content of `write_model_explorer`: node data by graph id."""
    taken = [error for error in verification.equations if pair in (None, error.pair)]
    if not taken:
        pairs = sorted({error.pair for error in verification.equations})
        raise JfuseError(
            f"no equation was compared{f' as {pair!r}' if pair else ''}",
            expected=f"one of {pairs}" if pairs else "a verification that went along the graph",
        )
    file = FileNodes(model.to_bytes())
    worst: dict[tuple[str, str], float] = {}
    for error in taken:
        if error.measure is None:  # not known: the node stays without a number
            continue
        node = file.node(error.signature, error.path)
        size = error.measure.relative
        worst[node] = max(worst.get(node, 0.0), math.inf if math.isnan(size) else size)
    name = f"jfuse: relative error{f' ({pair})' if pair else ''}"
    thresholds = [{"value": value, "bgColor": colour} for value, colour in _COLOURS]
    data_by_graph: dict[str, Any] = {}
    for (graph_id, node_id), size in worst.items():
        data = data_by_graph.setdefault(graph_id, {"name": name, "results": {}, "thresholds": thresholds})
        data["results"][node_id] = _result(size)
    return data_by_graph


def _result(size: float) -> dict[str, Any]:
    if size > _COLOURS[-1][0]:  # beyond the last threshold it would stay white
        return {"value": "inf" if math.isinf(size) else size, **_BEYOND}
    return {"value": size}


class FileNodes:
    """The places of equations in a .tflite file."""

    def __init__(self, data: bytes) -> None:
        self._model = schema.Model.GetRootAs(data, 0)
        codes = (self._model.OperatorCodes(i) for i in range(self._model.OperatorCodesLength()))
        self._builtins = [BUILTIN_NAMES[max(c.BuiltinCode(), c.DeprecatedBuiltinCode())] for c in codes]
        tables = (self._model.SignatureDefs(i) for i in range(self._model.SignatureDefsLength()))
        self._entry = {_text(t.SignatureKey()): int(t.SubgraphIndex()) for t in tables}
        self._computing: dict[int, list[int]] = {}

    def node(self, signature: str, path: Sequence[int]) -> tuple[str, str]:
        """The ids of the graph and of the node that show an equation.   path: as of `EquationError`"""
        subgraph = self._entry.get(signature, 0)
        for equation, body in zip(path[:-1:2], path[1::2], strict=True):
            operator = self._model.Subgraphs(subgraph).Operators(self._operators(subgraph)[equation])
            options = schema.BuiltinOptionsCreator(operator.BuiltinOptionsType(), operator.BuiltinOptions())
            subgraph = body_indices(self._builtin(operator), options)[body]
        number = self._operators(subgraph)[path[-1]]
        return _text(self._model.Subgraphs(subgraph).Name()) or signature, str(number)

    def _operators(self, subgraph: int) -> list[int]:
        """The numbers of the equations' operators, in order."""
        if subgraph not in self._computing:
            table = self._model.Subgraphs(subgraph)
            builtins = [self._builtin(table.Operators(i)) for i in range(table.OperatorsLength())]
            self._computing[subgraph] = [i for i, b in enumerate(builtins) if b not in ON_VARIABLES | ON_TABLES]
        return self._computing[subgraph]

    def _builtin(self, operator: Any) -> str:
        index: int = operator.OpcodeIndex()
        return self._builtins[index]


def _text(name: bytes | None) -> str:
    return (name or b"").decode("utf-8", "replace")
