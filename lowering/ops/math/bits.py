"""Bits of integers: logic, shifts, and one type's bits read as another's."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.division import floor_div
from jfuse.lowering.ops.math.elementwise import clipped
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, scalar
from jfuse.lowering.rules import lowers

_NO_XOR = frozenset({DType.i64, DType.u64})

lowers("BitwiseAnd")(ops.stablehlo_and)


@lowers("BitwiseOr")
def lower_bitwise_or(x: Array, y: Array) -> Array:
    """The bits that differ, and those that both have; or the sum, which counts the latter twice, less those."""
    both = ops.stablehlo_and(x, y)
    if dtype(x) in _NO_XOR:
        return ops.sub(ops.add(x, y), both)
    return ops.bitwise_xor(ops.bitwise_xor(x, y), both)


@lowers("BitwiseXor")
def lower_bitwise_xor(x: Array, y: Array) -> Array:
    """BITWISE_XOR; of 64 bits, which it lacks, the sum less twice the bits that both have."""
    if dtype(x) not in _NO_XOR:
        return ops.bitwise_xor(x, y)
    both = ops.stablehlo_and(x, y)
    return ops.sub(ops.add(x, y), ops.add(both, both))


@lowers("Invert")
def lower_invert(x: Array) -> Array:
    """BITWISE_XOR with ones; of 64 bits -1 - x, which is the same."""
    ones = np.array(-1).astype(dtype(x).numpy)
    return ops.sub(ones, x) if dtype(x) in _NO_XOR else ops.bitwise_xor(x, ones)


@lowers("LeftShift")
def lower_left_shift(x: Array, y: Array) -> Array:
    """x times a power of 2."""
    return ops.mul(x, _power_of_two(y))


@lowers("RightShift")
def lower_right_shift(x: Array, y: Array) -> Array:
    """RIGHT_SHIFT; of i64, which it lacks, the quotient by a power of 2, which must not be 2**63."""
    if dtype(x) is not DType.i64:
        return ops.right_shift(x, y)
    most = scalar(63, y)
    quotient = floor_div(x, _power_of_two(ops.minimum(y, scalar(62, y))))
    if is_constant(y) and (y < most).all():
        return quotient
    signs = ops.select_v2(ops.less(x, scalar(0, x)), scalar(-1, x), scalar(0, x))
    return ops.select_v2(ops.less(y, most), quotient, signs)


def _power_of_two(y: Array) -> Array:
    """2 to the power of y, which counts as 0 below that, and as the width - 1 beyond.   y: i[...] -> i[...]"""
    width = 8 * dtype(y).numpy.itemsize
    powers = (np.uint64(1) << np.arange(width, dtype=np.uint64)).astype(dtype(y).numpy)
    return ops.gather(powers, as_i32(clipped(y, 0, width - 1)), axis=0)


@lowers("PopulationCount")
def lower_population_count(x: Array) -> Array:
    """How many bits are set: looked up for each byte, and added up.   x: i[...] -> u8[...]"""
    counts = np.array([n.bit_count() for n in range(256)], np.int32)
    octets = lower_bitcast(x, type=DType.u8)
    counts_of_bytes = ops.gather(counts, ops.cast(octets, out_data_type=DType.i32), axis=0)
    if rank(octets) > rank(x):
        counts_of_bytes = ops.sum_(counts_of_bytes, np.array([rank(x)], np.int32), keep_dims=False)
    return ops.cast(counts_of_bytes, out_data_type=DType.u8)


@lowers("Bitcast")
def lower_bitcast(x: Array, *, type: DType) -> Array:  # noqa: A002 - the attribute's name
    """BITCAST; nothing where the dtype stays."""
    return x if dtype(x) is type else ops.bitcast(x, out_data_type=type)
