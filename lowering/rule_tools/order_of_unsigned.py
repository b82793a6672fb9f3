"""Compares u64 in i64: kernels order signed integers alone."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array

_HIGHEST_BIT = np.int64(np.iinfo(np.int64).min)


def in_order(x: Array) -> Array:
    """Integers of 64 bits in the order of unsigned ones.   x: u64[...] -> i64[...]"""
    return ops.add(ops.bitcast(x, out_data_type=DType.i64), _HIGHEST_BIT)


def unsigned(x: Array) -> Array:
    """The inverse of `in_order`.   x: i64[...] -> u64[...]"""
    return ops.bitcast(ops.add(x, _HIGHEST_BIT), out_data_type=DType.u64)
