"""Inputs that keep the user's promise on masks: random rows, padded from a random length on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Signature, Var
from jfuse.proof.samples import Padded, compared_constants
from jfuse.records.conversion import PaddingPromise


def keep_promises(
    signature: Signature, drawn: Mapping[str, np.ndarray], promises: Sequence[PaddingPromise], seed: int = 0
) -> dict[str, np.ndarray]:
    """The drawn inputs, changed so that every mask that the user spoke of is padded as promised.

    Where a mask is computed, inputs are filled with 0 or with a constant that the mask compares them with. Raises
    VerifyFailed where that does not give the promised padding.
    """
    inputs = dict(drawn)
    for promise in promises:
        arrays = {v: inputs[n] for n, v in zip(signature.input_names, signature.graph.inputs, strict=True)}
        if not set(promise.inputs) <= arrays.keys():
            continue  # of another signature
        tried = [p for p in _padded(promise, arrays, seed) if _is_kept(promise, p)]
        best = max(tried, key=lambda p: float((_mask(promise, p) != promise.counts).mean()), default=None)
        if best is None:
            raise VerifyFailed(
                "no inputs found that keep a promise",
                where=promise.source,
                expected=str(promise),
                found="masks with gaps for inputs that end in zeros or in the value that the mask compares with",
                remedy="verify=False, and compare with inputs of your own",
            )
        inputs |= {n: best[v] for n, v in zip(signature.input_names, signature.graph.inputs, strict=True)}
    return inputs


def _padded(promise: PaddingPromise, arrays: Mapping[Var, np.ndarray], seed: int) -> Iterator[dict[Var, np.ndarray]]:
    """The inputs with the end of each row filled in several ways."""
    random = np.random.default_rng(seed)
    mask = _mask(promise, arrays)
    valid = Padded(promise.axis, promise.side).draw(random, mask.shape)
    for value in dict.fromkeys((0.0, *compared_constants([promise.graph]))):
        for filled in (_in_numbers,) if promise.in_numbers else (_filled, _above):
            marked = valid if promise.counts or filled is _filled else ~valid
            yield {v: filled(a, marked, value) if v in promise.inputs else a for v, a in arrays.items()}


def _above(array: np.ndarray, valid: np.ndarray, value: float) -> np.ndarray:
    """As `_filled`, with nothing below the value, so that a comparison with it finds the padding."""
    other = array if array.dtype == bool else np.asarray(value).astype(array.dtype) + np.abs(array)
    return _filled(other, valid, value)


def _in_numbers(array: np.ndarray, valid: np.ndarray, value: float) -> np.ndarray:
    """1 where rows are valid, and 0 elsewhere."""
    return np.broadcast_to(valid, array.shape).astype(array.dtype) if array.shape == valid.shape else array


def _filled(array: np.ndarray, valid: np.ndarray, value: float) -> np.ndarray:
    """The array with `value` where rows are not valid, and elsewhere something else; bools are the mask itself."""
    shape = valid.shape[: array.ndim]
    if array.shape[: len(shape)] != shape:
        return array
    keep = valid.reshape(*shape, -1).any(axis=-1).reshape(*shape, *[1] * (array.ndim - len(shape)))
    if array.dtype == bool:
        return np.broadcast_to(keep, array.shape).copy()
    pad = np.asarray(value).astype(array.dtype)
    other = np.where(array == pad, pad + np.ones((), array.dtype), array)
    return np.where(keep, other, pad)


def _is_kept(promise: PaddingPromise, arrays: Mapping[Var, np.ndarray]) -> bool:
    mask = _mask(promise, arrays)
    if promise.in_numbers and not np.isin(mask, (0, 1)).all():
        return False
    steps = np.moveaxis(mask != 0, promise.axis, 0).astype(np.int8)
    change = np.diff(steps, axis=0)
    falls = (promise.side == "right") == promise.counts
    return bool((change <= 0).all() if falls else (change >= 0).all())


def _mask(promise: PaddingPromise, arrays: Mapping[Var, np.ndarray]) -> np.ndarray:
    (mask,) = evaluate(promise.graph, [arrays[v] for v in promise.graph.inputs])
    return np.asarray(mask)
