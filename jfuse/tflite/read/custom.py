"""Custom operators of a .tflite file: kept as they are, options and all, with the types that the file states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Var
from jfuse.ir.trace import active_trace
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.tflite.read.buffers import ReadBuffers
from jfuse.tflite.read.operators import Results, state_types


def record_custom(
    name: str,
    version: int,
    operator: Any,
    operands: Sequence[Atom | None],
    results: Results,
    buffers: ReadBuffers,
) -> Sequence[Var]:
    """The results of a custom operator, its new states among them, recorded in the active trace."""
    types = (*results.types(), *state_types(operands, results.updated))
    params = {"options": _options(operator, buffers), "version": version, "updates": results.updated}
    return active_trace().append(CustomOp(name, types), operands, types, params)


def _options(operator: Any, buffers: ReadBuffers) -> bytes:
    start, size = int(operator.largeCustomOptionsOffset), int(operator.largeCustomOptionsSize)
    behind = buffers.behind(start, size, "the options of a custom operator lie")
    data = operator.customOptions if behind is None else behind
    return b"" if data is None else bytes(np.asarray(data, np.uint8))
