"""Custom operators of a .tflite file: kept as they are, options and all, with the types that the file states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.errors import LowerError
from jfuse.frontends.tf_opaque import CustomOp
from jfuse.frontends.tflite_buffers import Buffers
from jfuse.ir.graph import Atom, Var
from jfuse.ir.trace import active_trace
from jfuse.ir.types import TensorType


def record_custom(
    name: str,
    version: int,
    operator: Any,
    operands: Sequence[Atom | None],
    types: Sequence[TensorType],
    buffers: Buffers,
) -> Sequence[Var]:
    """The results of a custom operator, recorded in the active trace.

    types: what the file states for the results.
    """
    kept = (operator.mutatingVariableInputs, operator.intermediates)
    if any(vector is not None and np.any(vector) for vector in kept):
        raise LowerError("a custom operator with state of its own is not read", expected="operands and results alone")
    params = {"options": _options(operator, buffers), "version": version}
    return active_trace().append(CustomOp(name, tuple(types)), operands, types, params)


def _options(operator: Any, buffers: Buffers) -> bytes:
    start, size = int(operator.largeCustomOptionsOffset), int(operator.largeCustomOptionsSize)
    behind = buffers.behind(start, size, "the options of a custom operator lie")
    found = operator.customOptions if behind is None else behind
    return b"" if found is None else bytes(np.asarray(found, np.uint8))
