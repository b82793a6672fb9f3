"""Samples on which a quantized file is judged: the user's, or drawn ones within the ranges that the file takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from jfuse.ir.graph import Signature, Var
from jfuse.kernels.core.integer_types import is_per_tensor
from jfuse.proof.inputs import CallInputs
from jfuse.quantization.real_numbers.numbers import ends_of
from jfuse.verification.plan import CallPlan
from jfuse.verification.subject import Arrays

DRAWN = 64
"""Number of samples that estimates the power of noise within a fifth."""
_FEW = 16  # of the user's own, below which each is also tried with its numbers moved a little
_MOVED = 0.01  # of the largest number


@dataclass(frozen=True)
class Samples:
    """Rows of calls of one signature: inputs by name, [samples, calls, ...]."""

    signature: Signature
    inputs: Arrays

    @property
    def count(self) -> int:
        """How many samples there are."""
        return len(next(iter(self.inputs.values())))

    def row(self, number: int) -> tuple[CallInputs, ...]:
        """The calls of one sample."""
        calls = next(iter(self.inputs.values())).shape[1]
        key, given = self.signature.key, self.inputs
        return tuple(CallInputs(key, {n: a[number, i] for n, a in given.items()}, "given") for i in range(calls))


def samples_of(plan: CallPlan, in_a_row: bool) -> Iterator[Samples]:
    """The samples of a plan; where it draws, at least as many as statistics need.

    in_a_row: a sample is several calls, each from the states that the one before it left.
    """
    if plan.options.inputs is not None:
        yield from _given(plan, in_a_row)
        return
    drawn = replace(plan, options=replace(plan.options, samples=max(DRAWN, plan.options.samples)))
    for batch in drawn.batches(in_a_row):
        rows = batch.whole if in_a_row else {n: a[:, None] for n, a in batch.whole.items()}
        yield Samples(batch.signature, _within(rows, _ranges(batch.signature)))


def _given(plan: CallPlan, in_a_row: bool) -> Iterator[Samples]:
    """The user's calls; in a row while signature and shapes stay the same, then from the first states again."""
    signatures = {s.key: s for s in plan.signatures}
    calls_by_shape: dict[tuple[object, ...], list[Sequence[CallInputs]]] = {}
    for row in plan.rows():
        for alike, calls in groupby(row, _form):
            steps = list(calls)
            for part in [steps] if in_a_row else [[step] for step in steps]:
                calls_by_shape.setdefault((*alike, len(part)), []).append(part)
    for (key, *_), rows in calls_by_shape.items():
        stacked = {n: np.stack([np.stack([step.inputs[n] for step in row]) for row in rows]) for n in rows[0][0].inputs}
        yield Samples(signatures[str(key)], _with_neighbours(stacked))


def _form(step: CallInputs) -> tuple[object, ...]:
    return step.key, *((n, np.shape(a)) for n, a in step.inputs.items())


def _with_neighbours(rows: Arrays) -> Arrays:
    """The samples, and if they are few, copies with slightly moved floats: one sample gives no noise power."""
    count = len(next(iter(rows.values())))
    copies, rng = -(-_FEW // count), np.random.default_rng(0)
    if copies == 1 or not any(a.dtype.kind in "fV" for a in rows.values()):
        return rows
    return {n: np.concatenate([a, *(_moved(a, rng) for _ in range(copies - 1))]) for n, a in rows.items()}


def _moved(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if array.dtype.kind not in "fV":
        return array
    largest = np.abs(array).max(initial=0.0)
    return np.asarray(array + _MOVED * largest * rng.standard_normal(array.shape), array.dtype)


def _ranges(signature: Signature) -> Mapping[str, tuple[float, float]]:
    """The real numbers that inputs can be, of those that are quantized before anything else is done with them."""
    graph = signature.graph
    named = dict(zip(graph.inputs, signature.input_names, strict=False))
    ranges: dict[str, tuple[float, float]] = {}
    for eqn in graph.eqns:
        operand = eqn.inputs[0] if eqn.op.scales == "into" else None
        if isinstance(operand, Var) and operand in named and is_per_tensor(eqn.outputs[0].type):
            ranges[named[operand]] = ends_of(eqn.outputs[0].type)
    return ranges


def _within(rows: Arrays, ranges: Mapping[str, tuple[float, float]]) -> Arrays:
    """The samples, scaled about their middle until they fit the ranges."""
    return {name: _fitted(array, *ranges[name]) if name in ranges else array for name, array in rows.items()}


def _fitted(array: np.ndarray, low: float, high: float) -> np.ndarray:
    axes = tuple(range(2, array.ndim))
    least, most = (f(array, axis=axes, keepdims=True) for f in (np.min, np.max))
    middle, reach = (low + high) / 2, (high - low) / 2
    largest = np.maximum(np.maximum(-least, most), 1e-30)
    inside = (least >= low) & (most <= high)
    return np.asarray(np.where(inside, array, middle + array * (reach / largest)), array.dtype)
