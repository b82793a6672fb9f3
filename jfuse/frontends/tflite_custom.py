"""Custom operators of a .tflite file: kept as they are, options and all, with the types that the file states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.errors import BadFlatbuffer, LowerError
from jfuse.frontends.tf_opaque import CustomOp
from jfuse.ir.graph import Atom, Var
from jfuse.ir.trace import active_trace
from jfuse.ir.types import TensorType

_IN_FILE = 1  # an offset above this tells that the options lie behind the flatbuffer


def record_custom(
    name: str, version: int, operator: Any, operands: Sequence[Atom | None], types: Sequence[TensorType], data: Any
) -> Sequence[Var]:
    """The results of a custom operator, recorded in the active trace.

    types: what the file states for the results. data: the bytes of the file.
    """
    kept = (operator.mutatingVariableInputs, operator.intermediates)
    if any(vector is not None and np.any(vector) for vector in kept):
        raise LowerError("a custom operator with state of its own is not read", expected="operands and results alone")
    params = {"options": _options(operator, data), "version": version}
    return active_trace().append(CustomOp(name, tuple(types)), operands, types, params)


def _options(operator: Any, data: Any) -> bytes:
    start, size = int(operator.largeCustomOptionsOffset), int(operator.largeCustomOptionsSize)
    if start > _IN_FILE:
        if start + size > len(data):
            raise BadFlatbuffer("the options of a custom operator lie beyond the end of the file")
        return bytes(memoryview(data)[start : start + size])
    return b"" if operator.customOptions is None else bytes(np.asarray(operator.customOptions, np.uint8))
