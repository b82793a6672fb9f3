"""Values in other shapes, where open sizes are no obstacle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfuse.ir.dims import Dim, Shape, is_known, same
from jfuse.ir.graph import Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor


def reshaped(x: Array, shape: Shape) -> Array:
    """The value in another shape, by a static operator where one is enough."""
    old = type_of(x).shape
    if _alike(old, shape):
        return x
    ones = [i for i, d in enumerate(old) if same(d, 1) is True]
    if len(ones) >= len(old) - len(shape) > 0:
        dims = tuple(ones[: len(old) - len(shape)])
        if _alike([d for i, d in enumerate(old) if i not in dims], shape):
            return ops.squeeze(x, squeeze_dims=dims)
    if len(shape) == len(old) + 1:
        for axis, d in enumerate(shape):
            if same(d, 1) is True and _alike([*shape[:axis], *shape[axis + 1 :]], old):
                return ops.expand_dims(x, np.int32(axis))
    if sum(not is_known(d) for d in shape) == 1:
        return ops.reshape(x, np.array([int(d) if is_known(d) else -1 for d in shape], np.int32))
    return ops.reshape(x, shape_tensor(shape, [x] if isinstance(x, Var) else []))


def _alike(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    return len(a) == len(b) and all(same(d, e) is True for d, e in zip(a, b, strict=True))
