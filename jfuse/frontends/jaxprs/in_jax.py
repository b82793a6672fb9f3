"""Operators of other libraries that a function of jax computes: its jaxpr is read in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import jax
import numpy as np

from jfuse.frontends.jaxprs.node_names import NodeNames
from jfuse.frontends.jaxprs.walker import JaxWalker
from jfuse.ir.graph import Var
from jfuse.ir.trace import active_trace
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rule_tools.query import type_of

Function = Callable[..., Any]
_NARROW = {DType.i64: DType.i32, DType.f64: DType.f32}
"""Types that jax uses instead of 64-bit ones."""


def computed_in_jax(
    function: Function, args: Sequence[Any], named: Mapping[str, Any], types: Sequence[DType | None] = ()
) -> list[Any]:
    """The results of a function for values, each in the stated type, None where there is none.

    Arguments that are no tensors, nor lists of such, are fixed.
    """
    leaves, structure = jax.tree_util.tree_flatten((tuple(args), dict(named)), is_leaf=lambda v: not _is_nested(v))
    indices = [i for i, v in enumerate(leaves) if isinstance(v, Var | np.ndarray)]
    values = [_narrow(leaves[i]) for i in indices]

    def call(*given: Any) -> Any:
        whole = list(leaves)
        for index, value in zip(indices, given, strict=True):
            whole[index] = value
        positional, keywords = jax.tree_util.tree_unflatten(structure, whole)
        found = function(*positional, **keywords)
        return list(found) if isinstance(found, tuple | list) else [found]

    specs = [jax.ShapeDtypeStruct(t.shape, t.dtype.numpy) for t in map(type_of, values)]
    traced = jax.jit(call, keep_unused=True).trace(*specs)
    names = NodeNames(f"{active_trace().source.node}/")
    results = iter(JaxWalker(default_rules().lowers_jax, names=names).results(traced.jaxpr, values))
    stated = [next(results) if there else None for there in (o is not None for o in traced.out_info)]
    return [_as(v, wanted) for v, wanted in zip_longest(stated, types[: len(stated)])]


def _is_nested(value: Any) -> bool:
    return isinstance(value, tuple | list | dict)


def _narrow(value: Any) -> Any:
    return _as(value, _NARROW.get(type_of(value).dtype))


def _as(value: Any, wanted: DType | None) -> Any:
    if value is None or wanted is None or type_of(value).dtype is wanted:
        return value
    return ops.cast(value, out_data_type=wanted) if isinstance(value, Var) else np.asarray(value).astype(wanted.numpy)
