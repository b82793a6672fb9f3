"""The contents of large constants: which are equal, without reading most of them, and in order of their elements.

Weights may be views of a mapped file. Whoever has read all of one gives its memory back: the system would keep it.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
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
_GIVEN_BACK = 1 << 20  # bytes; it is no use to read less again
_COPIED = 1 << 25  # bytes of an array that are copied at a time, where it is written in another order


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
        give_back(array)  # the system reads large parts around each element
        first = self._alike.setdefault(sample, array)
        return sample if first is array or same_bytes(first, array) else const.digest

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def large_constants(graph: Graph, contents: Contents) -> list[list[np.ndarray]]:
    """The arrays that print by digest, at the number that their contents have; not those of sparse constants.

    As `hoisted` of `format_graph` they let two graphs be compared without digests.
    contents: of these arrays only; graphs that share it have the same number for equal contents.
    """
    arrays: dict[int, dict[int, np.ndarray]] = {}
    for inner in all_graphs(graph):
        for atom in (*(atom for eqn in inner.eqns for atom in eqn.inputs), *inner.outputs):
            if type(atom) is Const and atom.array.size > PRINTED_IN_FULL:
                arrays.setdefault(contents.number(atom), {})[id(atom.array)] = atom.array
    return [list(arrays.get(number, {}).values()) for number in range(max(arrays, default=-1) + 1)]


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one dtype and shape are equal bit by bit, NaNs and signed zeros included."""
    if a.dtype == object:
        return bool((a == b).all())
    bits = np.dtype(f"u{a.itemsize}") if a.itemsize in (1, 2, 4, 8) else np.dtype(np.uint8)
    flat = [contiguous(array).reshape(-1).view(bits) for array in (a, b)]
    return all(np.array_equal(*blocks) for blocks in zip(*map(blocks, flat), strict=True))


def count_nans(array: np.ndarray) -> int:
    """How many elements of floats or complex numbers are NaN."""
    return sum(int(np.isnan(block).sum()) for block in blocks(array.reshape(-1)))


def blocks(flat: np.ndarray) -> Iterator[np.ndarray]:
    """Parts of a vector that follow each other, each to be read at once: a mapped file's memory is given back then."""
    for i in range(0, flat.size, _BLOCK):
        block = flat[i : i + _BLOCK]
        try:
            yield block
        finally:
            give_back(block)


def give_back(array: np.ndarray) -> None:
    """Give back the memory in which a mapped file was read that an array is a view of, until it is read again.

    Nothing happens to what is no such view.
    """
    mapped = _mapped_file(array)
    if mapped is None or not hasattr(mmap, "MADV_DONTNEED") or min(array.strides, default=-1) < 0:
        return
    size = sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)) + array.itemsize
    if size < _GIVEN_BACK:  # what lies between the elements has been read with them
        return
    start = np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
    first = array.__array_interface__["data"][0] - start
    page = first // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.madvise(mmap.MADV_DONTNEED, page, first + size - page)


def _mapped_file(array: np.ndarray) -> mmap.mmap | None:
    """The mapping of a file that is only read; None for memory of one's own, which would be lost."""
    base: Any = array
    while base is not None and not isinstance(base, mmap.mmap):
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return base if base is not None and memoryview(base).readonly else None


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
        give_back(rows[i : i + _ROWS])
    return result


def in_order(array: np.ndarray) -> Iterator[np.ndarray]:
    """Arrays that follow each other along the first axis, their elements in order: itself, or copies of few rows each.

    The memory of a mapped file is given back once its elements were taken.
    """
    if array.flags.c_contiguous:
        yield array
        give_back(array)
        return
    rows = max(1, _COPIED // max(1, array[:1].nbytes))
    for i in range(0, len(array), rows):
        yield contiguous(array[i : i + rows])


def _first_in_memory(array: np.ndarray) -> int | None:
    """The axis with which the memory begins, where the axes lie there in order from that one on, the rest last.

    Of the rest there may be a part only, as in some rows of a transposed matrix.
    """
    for first in range(1, array.ndim):
        is_dense = array.strides[first - 1] == array.itemsize
        if is_dense and _is_one_axis(array, 0, first) and _is_one_axis(array, first, array.ndim):
            return first
    return None


def _is_one_axis(array: np.ndarray, start: int, end: int) -> bool:
    """Whether axes lie in memory as a single one of as many elements would."""
    return all(array.strides[i] == array.strides[i + 1] * array.shape[i + 1] for i in range(start, end - 1))
