"""Constants with equal contents, found without reading the large ones where their types or a few elements differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.contiguous import contiguous
from jfuse.ir.graph import Const
from jfuse.ir.sparse import SparseConst

_COMPARED_WHOLE = 4096  # bytes
_SAMPLE = 64  # elements
_BLOCK = 1 << 20  # elements compared at a time, so that no large mask is made


class Contents:
    """Numbers that are equal for constants of equal dtype, shape and contents, from 0, however they are quantized."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._views: dict[Any, int] = {}
        self._alike: dict[Any, np.ndarray] = {}  # by sample: the first array that had it

    def number(self, const: Const) -> int:
        """The number of a constant's contents."""
        if isinstance(const, SparseConst) or const.array.dtype == object:
            return self._number(const.digest)
        view = (const.memory, const.array.strides, const.array.dtype, const.shape)  # each use may be a view of its own
        found = self._views.get(view)
        if found is None:
            found = self._views[view] = self._number(self._key(const))
        return found

    def _key(self, const: Const) -> Any:
        array, kind = const.array, (const.array.dtype, const.shape)
        if array.nbytes <= _COMPARED_WHOLE:
            return *kind, array.tobytes()
        places = np.unravel_index(np.linspace(0, array.size - 1, _SAMPLE, dtype=np.int64), array.shape)
        sample = (*kind, "sample", array[places].tobytes())
        first = self._alike.setdefault(sample, array)
        return sample if first is array or same_bytes(first, array) else const.digest

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def same_bytes(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays of one dtype and shape are equal bit by bit, NaNs and signed zeros included."""
    if a.dtype == object:
        return bool((a == b).all())
    bits = np.dtype(f"u{a.itemsize}") if a.itemsize in (1, 2, 4, 8) else np.dtype(np.uint8)
    flat = [contiguous(array).reshape(-1).view(bits) for array in (a, b)]
    starts = range(0, len(flat[0]), _BLOCK)
    return all(np.array_equal(flat[0][i : i + _BLOCK], flat[1][i : i + _BLOCK]) for i in starts)
