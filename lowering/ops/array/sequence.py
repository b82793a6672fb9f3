"""Sequences: ranges, orders turned round or shifted, permutations, running products."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Var
from jfuse.ir.trace import producer
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.array.gather import range_length
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.operands import as_i32, element
from jfuse.lowering.rule_tools.query import (
    axes_of,
    dtype,
    is_computed,
    is_constant,
    one_like,
    rank,
    scalar,
    static,
    type_of,
)
from jfuse.lowering.rule_tools.shape_tensors import counted, size_tensor
from jfuse.lowering.rules import lowers


@lowers("Range")
def lower_range(start: Array, limit: Array, delta: Array) -> Array:
    """RANGE; a constant where all three operands are. Of floats a RANGE of integers, multiplied as TensorFlow does.

    The kernel sums floats up, which loses more digits.
    """
    if all(is_constant(o) for o in (start, limit, delta)):
        count = range_length(start.item(), limit.item(), delta.item(), dtype(start))
        return start + np.arange(count).astype(start.dtype) * delta
    if dtype(start).is_integer:
        return ops.range_(start, limit, delta)
    whole = [_whole(o) for o in (start, limit, delta)]
    if all(w is not None for w in whole):
        return ops.cast(ops.range_(*whole), out_data_type=dtype(start))
    count = as_i32(ops.ceil(ops.div(ops.sub(limit, start), delta)))
    steps = ops.cast(ops.range_(np.int32(0), count, np.int32(1)), out_data_type=dtype(start))
    return ops.add(start, ops.mul(steps, delta))


def _whole(x: Array) -> Array | None:
    """The integer that a float operand was made of, as i32."""
    if is_constant(x):
        return np.int32(x.item()) if x.item() == int(x.item()) else None
    made_by = producer(x)
    if made_by is None or made_by.op is not ops.cast:
        return None
    (operand,) = made_by.inputs
    return as_i32(operand) if isinstance(operand, Var) and operand.type.dtype.is_integer else None


@lowers("LinSpace")
def lower_lin_space(start: Array, stop: Array, num: Array) -> Array:
    """A constant where all operands are; else both ends weighted, so that each end is met exactly."""
    count = static(num, "num")
    if is_constant(start) and is_constant(stop):
        step = (stop - start) / start.dtype.type(max(count - 1, 1))
        line = start + np.arange(count).astype(start.dtype) * step
        line[count - 1 :] = stop if count > 1 else start
        return line
    share = (np.arange(count) / max(count - 1, 1)).astype(dtype(start).numpy)
    return ops.add(ops.mul(start, 1 - share), ops.mul(stop, share))


@lowers("ReverseV2")
def lower_reverse_v2(x: Array, axis: Array) -> Array:
    """REVERSE_V2, once for each run of adjacent axes, which is what the runtime takes."""
    if 0 in x.shape:  # the kernel divides by the sizes (LiteRT 2.3.0)
        return x
    if is_computed(axis):
        return _reversed_by_data(x, axis)
    for run in _adjacent(sorted(axes_of(axis, rank(x)))):
        x = ops.reverse_v2(x, np.asarray(run, np.int32))
    return x


def _reversed_by_data(x: Array, axis: Array) -> Array:
    """REVERSE_V2 for each axis, where data decides which axes are reversed."""
    axes = type_of(axis)
    if not axes.is_static:
        raise LowerError("a number of axes that is open is reversed", found=str(axes))
    for i in range(int(axes.shape[0])):
        x = ops.reverse_v2(x, ops.reshape(element(axis, i), np.ones(1, np.int32)))
    return x


@lowers("Reverse")
def lower_reverse(x: Array, dims: Array) -> Array:
    """As ReverseV2, of the dimensions that are marked."""
    marks = static(dims, "dims")
    return lower_reverse_v2(x, np.asarray([i for i, mark in enumerate(marks) if mark], np.int32))


def _adjacent(axes: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


@lowers("ReverseSequence")
def lower_reverse_sequence(x: Array, seq_lengths: Array, *, seq_dim: int, batch_dim: int = 0) -> Array:
    """REVERSE_SEQUENCE."""
    return ops.reverse_sequence(x, seq_lengths, seq_dim=seq_dim, batch_dim=batch_dim)


@lowers("Roll")
def lower_roll(x: Array, shift: Array, axis: Array) -> Array:
    """GATHER along each axis, by places that are a constant where the shift and the size are."""
    if is_computed(axis):
        return _rolled_by_data(x, shift, axis)
    for i, place in enumerate(axes_of(axis, rank(x))):
        by = as_i32(shift) if rank(shift) == 0 else element(shift, i)
        size = x.shape[place]
        if is_known(size) and is_constant(by) and (size == 0 or by % size == 0):
            continue
        places = ops.floor_mod(ops.sub(counted(size, x), by), size_tensor(size, [x]))
        x = ops.gather(x, places, axis=place)
    return x


def _rolled_by_data(x: Array, shift: Array, axis: Array) -> Array:
    """As `lower_roll` along each dimension, by the shifts of all axes that data says are that one."""
    count = rank(x)
    axes = ops.reshape(ops.floor_mod(as_i32(axis), np.int32(count)), np.array([-1, 1], np.int32))
    shifts = ops.reshape(as_i32(shift), np.array([-1, 1], np.int32))
    own = ops.equal(axes, np.arange(count, dtype=np.int32)[None])
    by = ops.sum_(ops.mul(shifts, ops.cast(own, out_data_type=DType.i32)), np.array([0], np.int32))
    return lower_roll(x, by, np.arange(count, dtype=np.int32))


@lowers("InvertPermutation")
def lower_invert_permutation(x: Array) -> Array:
    """A constant where the permutation is one, else SCATTER_ND of the places."""
    if is_constant(x):
        return np.argsort(x).astype(x.dtype)
    places = counted(x.shape[0], x)
    inverse = ops.scatter_nd(ops.expand_dims(as_i32(x), np.int32(1)), places, ops.shape(x))
    return inverse if dtype(x) is DType.i32 else ops.cast(inverse, out_data_type=dtype(x))


@lowers("UnravelIndex")
def lower_unravel_index(indices: Array, dims: Array) -> Array:
    """FLOOR_DIV by the number of elements under each dimension, and FLOOR_MOD by its size.

    indices: i[] or i[n] -> i[dims] or i[dims,n]
    """
    sizes = np.asarray(static(dims, "dims"), dtype(indices).numpy)
    steps = np.asarray([np.prod(sizes[i + 1 :]) for i in range(sizes.size)], sizes.dtype)
    column = (-1, *(1,) * rank(indices))
    quotients = ops.floor_div(indices, steps.reshape(column))
    return ops.floor_mod(quotients, sizes.reshape(column))


@lowers("Cumprod")
def lower_cumprod(x: Array, axis: Array, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """REDUCE_PROD over a copy of the axis for each element, with ones for what that element leaves out."""
    (along,) = axes_of(axis, rank(x))
    spread, is_prefix = _prefixes(x, along, exclusive, reverse)
    return ops.reduce_prod(ops.select_v2(is_prefix, spread, one_like(x)), np.array([along + 1], np.int32))


@lowers("CumulativeLogsumexp")
def lower_cumulative_logsumexp(x: Array, axis: Array, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """The log of sums over a copy of the axis for each element, with exp(-inf) for what that element leaves out."""
    (along,) = axes_of(axis, rank(x))
    spread, is_prefix = _prefixes(x, along, exclusive, reverse)
    terms = ops.select_v2(is_prefix, spread, scalar(-np.inf, x))
    axes = np.array([along + 1], np.int32)
    lowest = scalar(np.finfo(dtype(x).numpy).min, x)
    greatest = ops.maximum(ops.reduce_max(terms, axes, keep_dims=True), lowest)  # infinity less infinity is no number
    sums = ops.sum_(ops.exp(ops.sub(terms, greatest)), axes, keep_dims=True)
    return ops.squeeze(ops.add(ops.log(sums), greatest), squeeze_dims=(along + 1,))


def _prefixes(x: Array, along: int, exclusive: bool, reverse: bool) -> tuple[Array, Array]:
    """x with a new axis before `along`, and for each place of that axis which elements its running total has.

    x: n[..., size, ...] -> n[..., 1, size, ...], bool[size, size, ...]
    """
    spread = ops.expand_dims(x, np.int32(along))
    size, after = x.shape[along], (1,) * (rank(x) - along - 1)
    line = counted(size, x)
    row, column = (ops.reshape(line, np.array((*shape, *after), np.int32)) for shape in ((-1, 1), (1, -1)))
    compare = ops.less if exclusive else ops.less_equal
    return spread, compare(row, column) if reverse else compare(column, row)
