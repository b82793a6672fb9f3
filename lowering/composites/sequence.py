"""The sequence that a fused recurrent op runs over: forwards or backwards, whole or padded to a common length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import dtype, rank, scalar
from jfuse.lowering.rule_tools.rule_context import site
from jfuse.lowering.rules import need

_BATCH_MAJOR = (1, 0, 2)
FROZEN = 1e4  # in front of a sigmoid: exactly 0 or 1 in f32, unless the rest of the sum is above 9,000


@dataclass(frozen=True)
class Masking:
    """The operands of a masked recurrence, None where it has none.

    mask: bool[t,b] or bool[t,b,1], or floats of 0 and 1. held: f[b,o], the output before the first step that counts.
    fill: what collected outputs are in steps that do not count.
    """

    mask: Array | None = None
    held: Array | None = None
    fill: Array | None = None


@dataclass(frozen=True)
class ScanAttributes:
    """The attributes of a scan that became a recurrence.

    results: the name of each result (`Steps.results` says which there are). reverse: whether it runs from the last step
    to the first. counts: the value of the mask where a step counts.
    """

    results: tuple[str, ...]
    reverse: bool = False
    counts: bool = True

    def wanted(self) -> tuple[str | None, ...]:
        """The name of each result, None for those that nothing reads."""
        return tuple(name if read else None for name, read in zip(self.results, site().is_read, strict=True))


class Steps:
    """The steps of a recurrence, in the order in which it makes them, and what of its outputs is read.

    A fused op has no masks. It runs over sequences whose counted steps come first, and what it makes of the rest is
    not read. Left padding is shifted to the right by two reversals, of all steps and of each row's own.
    x: f[t,b,i]. mask: bool[t,b] or bool[t,b,1], or floats of 0 and 1, a step counts where it is `counts`.
    padding: "right" where the mask is True up to a step of each row and False from then on, "left" where it is the
    other way round.
    """

    def __init__(
        self,
        x: Array,
        reverse: bool = False,
        mask: Array | None = None,
        counts: bool = True,
        padding: str | None = None,
    ) -> None:
        self.reverse = reverse
        self.valid = None
        self.left = (padding == "left") ^ reverse ^ (not counts)  # each of them turns the order, or the mask, around
        if mask is not None:
            need(
                padding is not None,
                "padding_unknown",
                want="padding on the right or left",
                got="a mask computed from data",
            )
            if dtype(mask) is not DType.bool:
                mask = ops.not_equal(mask, scalar(0, mask))
            self.valid = self._in_order(mask if rank(mask) == 2 else ops.squeeze(mask, squeeze_dims=(2,)))
            self.valid = self.valid if counts else ops.logical_not(self.valid)
        self.x = self._shifted(self._in_order(x))

    @classmethod
    def of(cls, x: Array, masking: Masking, scan: ScanAttributes) -> Steps:
        """The steps of the composite for which the running rule was called."""
        padding = site().padding(masking.mask, 0, scan.counts)
        return cls(x, scan.reverse, masking.mask, scan.counts, padding)

    @cached_property
    def lengths(self) -> Array:
        """How many steps of each row count.   i32[b]"""
        return ops.sum_(ops.cast(self.valid, out_data_type=DType.i32), [0])

    def with_freeze(self) -> Array:
        """x with one more column: 1 after the last counted step, 0 before; x is 0 there.   f[t,b,i+1]"""
        column = ops.cast(ops.logical_not(self._in_front), out_data_type=dtype(self.x))
        return ops.concatenation(self.with_value(self.x, 0.0), column, axis=2)

    def with_value(self, x: Array, value: float) -> Array:
        """The sequence with that value in the steps that do not count.   x: f[t,b,n], in the order of `self.x`"""
        return ops.select_v2(self._in_front, x, scalar(value, x))

    @cached_property
    def _in_front(self) -> Array:
        """Whether each step of `self.x` counts: those that do come first.   bool[t,b,1]"""
        return ops.expand_dims(ops.reverse_v2(self.valid, [0]) if self.left else self.valid, 2)

    def results(self, names: Sequence[str | None], y: Array, **values: Array | None) -> tuple[Any, ...]:
        """The value of each name (None for None), made of y, the op's output f[t,b,u], and of values by name.

        "h" and "held": the last counted step, where none counts the value of that name; "c": the value; "y": every
        step; "y_<name>": every step that counts, in the others the last one that did before them, or `fill`.
        """
        results: dict[str | None, Any] = {None: None, "c": values.get("c")}
        for name in filter(None, dict.fromkeys(names)):
            if name in ("h", "held"):
                results[name] = self._last(y, values[name])
            elif name != "c":
                results[name] = self._collected(name, y, values)
        return tuple(results[name] for name in names)

    def _last(self, y: Array, initial: Array) -> Array:
        if self.valid is None:
            # The last step of y, not the op's state: reading a state costs two more ops and an order to keep.
            return last_step(y)
        index = ops.maximum(ops.sub(self.lengths, np.int32(1)), np.int32(0))
        rows = ops.transpose(y, _BATCH_MAJOR)
        last = ops.gather(rows, ops.expand_dims(index, 1), axis=1, batch_dims=1)
        some = ops.expand_dims(ops.greater(self.lengths, np.int32(0)), 1)
        return ops.select_v2(some, ops.squeeze(last, squeeze_dims=(1,)), initial)

    def _collected(self, name: str, y: Array, values: dict[str, Array | None]) -> Array:
        steps = self._shifted_back(y)
        if self.valid is not None:
            need(name != "y", "masked_output", want="a value for steps that do not count", got="none")
            other = values[name.removeprefix("y_")]
            other = other if name == "y_fill" or self.left else self._last(y, other)
            steps = ops.select_v2(ops.expand_dims(self.valid, 2), steps, other)
        return self._in_order(steps)

    def _in_order(self, sequence: Array) -> Array:
        return ops.reverse_v2(sequence, [0]) if self.reverse else sequence

    def _shifted(self, sequence: Array) -> Array:
        if not self.left or self.valid is None:
            return sequence
        return ops.reverse_sequence(ops.reverse_v2(sequence, [0]), self.lengths, seq_dim=0, batch_dim=1)

    def _shifted_back(self, sequence: Array) -> Array:
        if not self.left or self.valid is None:
            return sequence
        return ops.reverse_v2(ops.reverse_sequence(sequence, self.lengths, seq_dim=0, batch_dim=1), [0])


def freezing(weights: np.ndarray, gate: float | None) -> np.ndarray:
    """Weights with a column for `with_freeze`, which takes the gate to 0 or 1 or leaves it.   f[u,i] -> f[u,i+1]"""
    towards = 0.0 if gate is None else FROZEN if gate else -FROZEN
    return np.concatenate([weights, np.full((len(weights), 1), towards, weights.dtype)], axis=1)


def last_step(y: Array) -> Array:
    """The last step of a sequence.   f[t,b,u] -> f[b,u]

    The slice states all axes: tflite-micro refuses one that leaves the last ones out.
    """
    zeros, ones = [0, 0, 0], [1, 1, 1]
    return ops.strided_slice(y, [-1, 0, 0], zeros, ones, begin_mask=0b110, end_mask=0b111, shrink_axis_mask=1)
