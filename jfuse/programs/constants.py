"""Programs with other constants in place of some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from jfuse.base.errors import JfuseError, shown
from jfuse.ir.graph import Const, Program, Signature
from jfuse.ir.sparse import SparseConst
from jfuse.ir.walk import retype
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.kernels.core.operand import namespace
from jfuse.running.jax_function import named_constants


def with_constants(program: Program, signature: Signature, values: Mapping[str, Any]) -> Program:
    """The program with other numbers for some constants, by the names that they have in a signature.

    Real numbers are rounded to the steps that a quantized constant has, and cut off at their ends. Whatever else reads
    a constant reads the new one. Raises JfuseError for other names and shapes.
    """
    known = named_constants(signature.graph)
    fresh: dict[int, Const] = {}
    for name, value in values.items():
        if name not in known:
            raise JfuseError("the model has no such constant", expected=list(known), found=shown(name))
        old, array = known[name], np.asarray(value)
        if array.shape != old.array.shape or array.dtype.kind not in "fiuV" or not np.isfinite(array).all():
            wanted = f"finite numbers of shape {list(old.array.shape)}"
            raise JfuseError(f"the constant {name!r} takes other numbers", expected=wanted, found=shown(value))
        if isinstance(old, SparseConst):
            raise JfuseError(f"the constant {name!r} is stored as a sparse one", remedy="jfuse.lower makes it dense")
        made = steps_of(array, old) if is_quantized(old.type) else array.astype(old.array.dtype)
        fresh[id(old.array)] = Const(made, old.name, old.quantization)
    return program.with_graphs(
        lambda graph: retype(graph, lambda t: t, on_const=lambda const: fresh.get(id(const.array), const))
    )


def steps_of(array: Any, stored: Const) -> Any:
    """Real numbers as a quantized constant stores them, with its scales.   array: of its shape, of NumPy or jax"""
    quantization, dtype = stored.quantization, stored.array.dtype
    assert quantization is not None, "is_quantized"
    if quantization.block_size:
        raise JfuseError("constants with a scale for each block keep their numbers", found=str(stored.type))
    xp, info = namespace(array), ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    shape = [-1 if i == quantization.axis else 1 for i in range(array.ndim)] if len(quantization.scale) > 1 else []
    scale, zero = (np.array(v, np.float64) for v in (quantization.scale, quantization.zero_point))
    zero = zero.reshape(shape) if zero.size == scale.size else zero[0]
    steps = xp.rint(array.astype(np.float64) / scale.reshape(shape)) + zero
    low = -int(info.max) if info.min < 0 and not np.any(zero) else int(info.min)  # kernels take -127 to 127
    return xp.clip(steps, low, int(info.max)).astype(dtype)
