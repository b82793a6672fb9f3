"""A smaller input that still fails: fewer calls, smaller sizes, simpler values, in a bounded number of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jfuse.ir.dims import is_known, substitute_dim, symbols_of
from jfuse.ir.graph import Signature
from jfuse.ir.types import TensorType
from jfuse.proof.inputs import CallInputs, input_types, open_sizes

Row = tuple[CallInputs, ...]


@dataclass
class _Budget:
    """Asks whether a row fails, as often as it may; after that nothing does."""

    fails: Callable[[Row], bool]
    left: int

    def __call__(self, row: Row) -> bool:
        self.left -= 1
        return self.left >= 0 and self.fails(row)


def shrunk(row: Row, fails: Callable[[Row], bool], signatures: Mapping[str, Signature], runs: int) -> Row:
    """A row of calls that fails as the given one does, found with at most `runs` runs.

    fails: whether a row, from the initial states, still shows the difference. Where the given one does not show it
    again, it is given back as it is.
    """
    ask = _Budget(fails, runs)
    if runs < 1 or not ask(row):
        return row
    row = _fewer_calls(row, ask)
    row = _smaller(row, ask, signatures)
    return _simpler(row, ask)


def _fewer_calls(row: Row, ask: _Budget) -> Row:
    """Without the calls before the last that need not be."""
    for start in (len(row) - 1, len(row) // 2):
        if 0 < start < len(row) and ask(row[start:]):
            row = row[start:]
            break
    for i in reversed(range(len(row) - 1)):
        if ask.left > 0 and ask((*row[:i], *row[i + 1 :])):
            row = (*row[:i], *row[i + 1 :])
    return row


def _smaller(row: Row, ask: _Budget, signatures: Mapping[str, Signature]) -> Row:
    """With less of each open size: one, a half, all but one of the first or the last."""
    for key in dict.fromkeys(step.key for step in row):
        for name in open_sizes(input_types(signatures[key].graph)):
            row = _less_of(row, key, name, ask, signatures[key])
    return row


def _less_of(row: Row, key: str, name: str, ask: _Budget, signature: Signature) -> Row:
    while ask.left > 0:
        size = max(_size(step, name, signature) for step in row if step.key == key)
        tries = ((n, end) for n in dict.fromkeys((1, size // 2, size - 1)) if 0 < n < size for end in (False, True))
        for n, end in tries:
            less = tuple(_cut(step, {name: n}, end, signature) if step.key == key else step for step in row)
            if ask(less):
                row = less
                break
        else:
            break
    return row


def _types(signature: Signature) -> dict[str, TensorType]:
    return {n: v.type for n, v in zip(signature.input_names, signature.graph.inputs, strict=False)}


def _size(step: CallInputs, name: str, signature: Signature) -> int:
    """The size of a symbol that is an axis of an input; 0 where none is."""
    types = _types(signature)
    sizes = ((d, n) for i, a in step.inputs.items() for d, n in zip(types[i].shape, a.shape, strict=True))
    return next((n for d, n in sizes if str(d) == name), 0)


def _cut(step: CallInputs, sizes: Mapping[str, int], end: bool, signature: Signature) -> CallInputs:
    types = _types(signature)
    new_sizes = {n: _size(step, n, signature) for t in types.values() for d in t.shape for n in symbols_of(d)} | dict(
        sizes
    )
    cut = {}
    for name, array in step.inputs.items():
        dims = [substitute_dim(d, new_sizes) for d in types[name].shape]
        new_shape = [int(d) if is_known(d) else n for d, n in zip(dims, array.shape, strict=True)]
        slices = (slice(n - k, n) if end else slice(0, k) for k, n in zip(new_shape, array.shape, strict=True))
        cut[name] = np.ascontiguousarray(array[tuple(slices)])
    return replace(step, inputs=cut)


def _simpler(row: Row, ask: _Budget) -> Row:
    """With simpler values: zeros for whole inputs, for parts of them, and rounded numbers."""
    for i, name in _inputs(row):
        array = row[i].inputs[name]
        for simple in (np.zeros_like(array) if array.dtype != object else np.full_like(array, b""), *_rounded(array)):
            if np.array_equal(simple, array) or ask.left <= 0:
                continue
            simpler = _with(row, i, name, simple)
            if ask(simpler):
                row = simpler
                break
    parts = 2
    while ask.left > 0 and parts <= 256:
        for i, name in _inputs(row):
            row = _with_zeros(row, i, name, parts, ask)
        parts *= 2
    return row


def _inputs(row: Row) -> list[tuple[int, str]]:
    return [(i, name) for i, step in enumerate(row) for name in step.inputs]


def _rounded(array: np.ndarray) -> Iterator[np.ndarray]:
    if array.dtype.kind in "fV" and np.isfinite(array.astype(np.float64)).all():
        for digits in (0, 1, 3):
            yield np.round(array.astype(np.float64), digits).astype(array.dtype)


def _with_zeros(row: Row, i: int, name: str, parts: int, ask: _Budget) -> Row:
    """Zero each of `parts` equal parts of one input, if the row still fails."""
    count = row[i].inputs[name].size
    if count < parts or row[i].inputs[name].dtype == object:
        return row
    for part in np.array_split(np.arange(count), parts):
        array = row[i].inputs[name].copy()
        flat = array.reshape(-1)
        if ask.left <= 0 or not flat[part].astype(bool).any():
            continue
        flat[part] = 0
        simpler = _with(row, i, name, array)
        if ask(simpler):
            row = simpler
    return row


def _with(row: Sequence[CallInputs], i: int, name: str, array: np.ndarray) -> Row:
    step = replace(row[i], inputs={**row[i].inputs, name: array})
    return (*row[:i], step, *row[i + 1 :])
