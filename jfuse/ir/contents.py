"""The contents of large constants: which are equal, without reading most of them, and in order of their elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jfuse.ir.graph import Const, Graph
from jfuse.ir.quantization import PRINTED_IN_FULL
from jfuse.ir.sparse import SparseConst
from jfuse.ir.walk import all_graphs

_COMPARED_WHOLE = 4096  # bytes
_SAMPLE = 64  # elements
_BLOCK = 1 << 20  # elements compared at a time, so that no large mask is made
_LARGE = 1 << 18  # bytes; smaller arrays stay in the cache
# A step of NumPy's own copy reads one element of each line of the cache. Where a row's bytes are a power of two, as
# those of weights are, the lines of a column share few places of the cache and are gone before their next element.
_ROWS, _COLUMNS = 1024, 64  # of a block; on x86, 7 to 10 times as fast as NumPy's copy for 512 and 2,048 columns


class Contents:
    """Numbers that are equal for constants of equal dtype, shape and contents, from 0, however they are quantized."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._views: dict[Any, tuple[int, np.ndarray]] = {}  # which keeps the array: its place in memory stays its own
        self._alike: dict[Any, np.ndarray] = {}  # by sample: the first array that had it

    def number(self, const: Const) -> int:
        """The number of a constant's contents."""
        if isinstance(const, SparseConst) or const.array.dtype == object:
            return self._number(const.digest)
        if const.array.nbytes <= _COMPARED_WHOLE:  # scalars of NumPy among them, which have no place in memory
            return self._number((const.array.dtype, const.shape, const.array.tobytes()))
        view = (const.memory, const.array.strides, const.array.dtype, const.shape)  # each use may be a view of its own
        if view not in self._views:
            self._views[view] = self._number(self._key(const)), const.array
        return self._views[view][0]

    def _key(self, const: Const) -> Any:
        array, kind = const.array, (const.array.dtype, const.shape)
        places = np.unravel_index(np.linspace(0, array.size - 1, _SAMPLE, dtype=np.int64), array.shape)
        sample = (*kind, "sample", array[places].tobytes())
        first = self._alike.setdefault(sample, array)
        return sample if first is array or same_bytes(first, array) else const.digest

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def large_constants(graph: Graph, contents: Contents) -> list[list[np.ndarray]]:
    """The arrays that print by digest, at the number that their contents have; not those of sparse constants.

    As `hoisted` of `format_graph` they let two graphs be compared without digests.
    contents: of these arrays only; graphs that share it have the same number for equal contents.
    """
    found: dict[int, dict[int, np.ndarray]] = {}
    for inner in all_graphs(graph):
        for atom in (*(atom for eqn in inner.eqns for atom in eqn.inputs), *inner.outputs):
            if type(atom) is Const and atom.array.size > PRINTED_IN_FULL:
                found.setdefault(contents.number(atom), {})[id(atom.array)] = atom.array
    return [list(found.get(number, {}).values()) for number in range(max(found, default=-1) + 1)]


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one dtype and shape are equal bit by bit, NaNs and signed zeros included."""
    if a.dtype == object:
        return bool((a == b).all())
    bits = np.dtype(f"u{a.itemsize}") if a.itemsize in (1, 2, 4, 8) else np.dtype(np.uint8)
    flat = [contiguous(array).reshape(-1).view(bits) for array in (a, b)]
    starts = range(0, len(flat[0]), _BLOCK)
    return all(np.array_equal(flat[0][i : i + _BLOCK], flat[1][i : i + _BLOCK]) for i in starts)


def contiguous(array: np.ndarray) -> np.ndarray:
    """The array itself where its elements lie in order, else a copy in which they do; the shape stays."""
    if array.flags.c_contiguous or array.nbytes < _LARGE or array.dtype.hasobject:
        return np.ascontiguousarray(array)
    first = _first_in_memory(array)
    if first is None:
        return np.ascontiguousarray(array)
    rows = array.transpose(*range(first, array.ndim), *range(first)).reshape(math.prod(array.shape[first:]), -1)
    result = np.empty(array.shape, array.dtype)
    columns = result.reshape(rows.shape[::-1])
    for i in range(0, rows.shape[0], _ROWS):
        for j in range(0, rows.shape[1], _COLUMNS):
            columns[j : j + _COLUMNS, i : i + _ROWS] = np.ascontiguousarray(rows[i : i + _ROWS, j : j + _COLUMNS]).T
    return result


def _first_in_memory(array: np.ndarray) -> int | None:
    """The axis with which the memory begins, where the axes lie there in order from that one on, the rest last."""
    for first in range(1, array.ndim):
        if array.transpose(*range(first, array.ndim), *range(first)).flags.c_contiguous:
            return first
    return None
