"""Tensors of a shape that is open until run time, made so that the runtime knows the shape when it allocates.

FILL of a computed shape leaves its result's shape open, and one such tensor keeps XNNPACK off the whole graph and the
bodies of its loops. Here the shape comes from a tensor that has it, through operators whose kernels need no data to
tell their result's shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, is_known, product, same, symbols_of
from jfuse.ir.graph import Atom, Const, Var
from jfuse.ir.trace import active_trace, as_atom
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.lowering.rule_tools.shape_tensors import zeros

_IN_FILE = 64 << 10  # bytes of zeros that are rather a constant than an operator


class Homes:
    """For open dimensions the first Var of the graph that has them: where their size is read at run time."""

    def __init__(self, inputs: Sequence[Var]) -> None:
        self._found: dict[str, Var] = {}
        self._together: dict[tuple[str, ...], Var] = {}
        self.add(inputs)

    def add(self, variables: Sequence[Var]) -> None:
        """Take note of Vars that are there from now on."""
        for var in variables:
            names = tuple(str(dim) for dim in var.type.shape if not is_known(dim))
            for name in names:
                self._found.setdefault(name, var)
            if any(same(dim, 0) for dim in var.type.shape):
                continue  # no element of it can be read
            for count in range(1, len(names) + 1):
                for part in combinations(names, count):
                    self._together.setdefault(part, var)

    def of(self, *shapes: Sequence[Dim]) -> list[Var]:
        """Where to find the sizes of these shapes."""
        open_ = [d for shape in shapes for d in shape if not is_known(d)]
        names = {str(d): None for d in open_} | {n: None for d in open_ for n in sorted(symbols_of(d))}
        return list({self._found[n]: None for n in names if n in self._found})

    def together(self, dims: Sequence[Dim]) -> Var | None:
        """A Var that has these open dimensions in this order."""
        return self._together.get(tuple(map(str, dims)))


def empty(shape: tuple[Dim, ...], dtype: DType, homes: Homes, *, more: int = 0) -> Atom:
    """A tensor of a shape and so many rows more, whatever it holds; its elements are zeros."""
    if all(map(is_known, shape)):
        return _known_zeros((shape[0] + more, *shape[1:]) if more else shape, dtype)
    zero = np.zeros((), dtype.numpy)
    spread_zeros = spread(zero, shape, homes)
    if spread_zeros is None:
        whole = (shape[0] + more, *shape[1:]) if more else shape
        return as_atom(zeros(whole, dtype, homes.of(whole)))
    rows = empty((more, *shape[1:]), dtype, homes) if more else None
    return as_atom(spread_zeros if rows is None else ops.concatenation(spread_zeros, rows, axis=0))


def spread(value: np.ndarray, shape: tuple[Dim, ...], homes: Homes) -> Any | None:
    """A constant broadcast to a shape with open dimensions; None where no tensor has these together."""
    dtype = DType.of(value.dtype)
    work = dtype if dtype in COMPUTED else DType.i32
    home = homes.together([d for d in shape if not is_known(d)])
    if home is None or home.type.dtype not in _READ or (value.any() and work is not dtype):
        return None
    core = _core(home, [d for d in shape if not is_known(d)])
    spread_zeros = ops.zeros_like(core if home.type.dtype is work else ops.cast(core, out_data_type=work))
    for axis, dim in enumerate(shape):
        if is_known(dim):
            spread_zeros = ops.expand_dims(spread_zeros, np.int32(axis))
    filled = ops.add(spread_zeros, value) if value.any() else spread_zeros
    multiples = [d if is_known(d) and not same(d, e) else 1 for d, e in zip(shape, filled.shape, strict=True)]
    if any(m != 1 for m in multiples):
        filled = ops.tile(filled, np.array(multiples, np.int32))
    return filled if work is dtype else ops.cast(filled, out_data_type=dtype)


COMPUTED = frozenset({DType.f32, DType.i32})  # what ZEROS_LIKE, ADD and TILE all take
_READ = COMPUTED | {DType.bool, DType.i8, DType.u8, DType.i64}


def _core(home: Var, dims: Sequence[Dim]) -> Any:
    """Of a tensor the dimensions wanted only, in its order: the first element of known ones, the sum of other ones.

    A sum, because a first element is missing where an open dimension is 0.
    """
    names = list(map(str, dims))
    known = sum(1 << axis for axis, dim in enumerate(home.type.shape) if is_known(dim))
    rank = home.type.rank
    begin, strides = np.zeros(rank, np.int32), np.ones(rank, np.int32)
    open_ = (1 << rank) - 1 ^ known
    core = (
        ops.strided_slice(home, begin, strides, strides, begin_mask=open_, end_mask=open_, shrink_axis_mask=known)
        if known
        else home
    )
    other = [axis for axis, dim in enumerate(core.shape) if str(dim) not in names]
    return ops.sum_(core, np.array(other, np.int32), keep_dims=False) if other else core


def _known_zeros(shape: tuple[Dim, ...], dtype: DType) -> Atom:
    """Zeros of a known shape: a constant where it is small, else made at run time instead of stored in the file."""
    size = dtype.numpy.itemsize * int(product(shape))
    if size <= _IN_FILE:
        return Const(np.zeros(shape, dtype.numpy))
    dims, zero = Const(np.array(shape, np.int32)), Const(np.zeros((), dtype.numpy))
    (made,) = active_trace().append(ops.fill, [dims, zero], [TensorType(shape, dtype)], {})
    return made
