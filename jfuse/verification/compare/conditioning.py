"""Differences that are rounding alone: both sides as far from the exact answer as roundings on the way move it.

Cancellation (x - x + 1e-7, 1 - tanh(20)^2, the distance of a point from itself) leaves errors of larger numbers.
The graph is computed in f64, for the exact answer, and in f32 with every intermediate value rounded otherwise,
which bounds the distance of two right answers. Where the reference rounds to 16 bits, values are rounded to these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.base.measure import relative_error
from jfuse.ir.graph import Const, Eqn, Program, Signature
from jfuse.ir.types import DType
from jfuse.ir.walk import with_float
from jfuse.proof.inputs import CallInputs
from jfuse.verification.compare.ties import chooses
from jfuse.verification.compare.wrong import WrongOutput
from jfuse.verification.locate.inner_rounding import rounded_results
from jfuse.verification.locate.rounding import TIMES, rounding_of
from jfuse.verification.runners.node_values import Value

_NARROW_ROUNDINGS = 4.0  # of the largest element, as of a kernel that computes in f32 and rounds once
_FEW, _MANY = 6, 40
"""Tries: an element may stand still by chance in a few (a root of what is clamped at 0, in half of them). Where each
layer enlarges what the one before left, some move twenty times as far in many as in a few."""


@dataclass(frozen=True)
class Conditioning:
    """Tells which differences of a lowered program are nothing but the rounding of f32."""

    program: Program

    def excused(
        self, step: CallInputs, wrong: Sequence[WrongOutput], before: Sequence[CallInputs] = ()
    ) -> tuple[Sequence[WrongOutput], Sequence[str]]:
        """The wrong outputs of one call that rounding does not explain, and a note on those that it does.

        before: the calls before it, from the initial states. Loops are one equation: what diverges in them step by step
        stays wrong. So does what a choice turns over: all answers have the choices of f32, as a rounding there would
        move them so far that anything would pass (`Ties` follows the choices of each side).
        """
        signature = next(s for s in self.program.signatures if s.key == step.key)
        row = (*before, step) if signature.states else (step,)
        if any(s.key != step.key for s in row) or not any(map(_Rounding.may_be, wrong)):
            return wrong, ()
        unit = max(w.tolerance.unit for w in wrong)
        choices = _Choices()
        plain, *few = (rounded_results(signature, row, seed, unit, choices) for seed in (None, *range(_FEW)))
        exact = rounded_results(*_in_f64(signature, row), None, settled=choices)
        roundings = [_Rounding.of(w, exact.get(w.output), plain.get(w.output)) for w in wrong]
        left = list(wrong)
        for seed in range(_MANY):
            moved = few[seed] if seed < _FEW else rounded_results(signature, row, seed, unit, choices)
            for rounding in filter(None, roundings):
                rounding.learn(moved.get(rounding.wrong.output))
            if seed >= _FEW - 1:
                left = [
                    w for w, rounding in zip(wrong, roundings, strict=True) if rounding is None or rounding.unexplained
                ]
            if seed >= _FEW - 1 and not any(r is not None and r.may_yet for r in roundings):
                break
        names = ", ".join(sorted({w.output for w in wrong if w not in left}))
        whose = "the source" if unit else "f32"
        note = f"{names} of {step.key!r}: as far from the answer in float64 as roundings of {whose} on the way move it"
        return left, (note,) if names else ()


@dataclass(frozen=True)
class _Choices:
    """Results of the equations that choose, as the first run has them. Floats among which one chooses may move."""

    first: dict[tuple[int, int], Sequence[Value]] = field(default_factory=dict)

    def __call__(self, place: tuple[int, int], eqn: Eqn, results: Sequence[Value]) -> Sequence[Value]:
        if not chooses(eqn):
            return results
        pairs = zip(self.first.setdefault(place, results), results, strict=True)
        return [self._settled(eqn, first, again) for first, again in pairs]

    @staticmethod
    def _settled(eqn: Eqn, first: Value, again: Value) -> Value:
        if first is None or again is None:
            return first
        is_moved = eqn.op.chooses and first.dtype.kind == "f" and first.shape == again.shape
        return again if is_moved else first.astype(again.dtype)


def _in_f64(signature: Signature, row: Sequence[CallInputs]) -> tuple[Signature, list[CallInputs]]:
    """A signature and its calls in double precision."""
    states = tuple(replace(s, initial=Const(_wide(s.initial.array), s.initial.name)) for s in signature.states)
    wide = replace(signature, graph=with_float(signature.graph, DType.f64), states=states)
    return wide, [replace(step, inputs={n: _wide(np.asarray(a)) for n, a in step.inputs.items()}) for step in row]


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def source_overflows(
    step: CallInputs, wrong: Sequence[WrongOutput], before: Sequence[CallInputs] = ()
) -> tuple[Sequence[WrongOutput], Sequence[str]]:
    """The wrong outputs but those that are right wherever a source of 16 bits is finite; a note on these."""
    left = [w for w in wrong if not (w.tolerance.unit and _differs_by_overflow(w))]
    names = ", ".join(sorted({w.output for w in wrong} - {w.output for w in left}))
    note = f"{names} of {step.key!r}: where the source overflows its 16 bits the file was not compared with it"
    return left, (note,) if names else ()


def _differs_by_overflow(wrong: WrongOutput) -> bool:
    if wrong.found.size != wrong.wanted.size:
        return False
    found, wanted = wrong.found.reshape(wrong.wanted.shape).astype(np.float64), wrong.wanted.astype(np.float64)
    over = np.isfinite(found) & ~np.isfinite(wanted)
    return bool(over.any()) and relative_error(found, np.where(over, found, wanted)) <= wrong.tolerance.value


@dataclass
class _Rounding:
    """One output on both sides, in f64.   exact: the answer. plain: that of f32. moves: how far roundings move it"""

    wrong: WrongOutput
    exact: np.ndarray
    plain: np.ndarray
    moves: np.ndarray

    @staticmethod
    def may_be(wrong: WrongOutput) -> bool:
        """Whether rounding can explain an output: f32, or rounded by the reference, with a finite difference."""
        is_rounded = wrong.wanted.dtype == np.float32 or wrong.tolerance.unit > 0
        return is_rounded and bool(np.isfinite(wrong.measure.absolute))  # beside zeros alone any error is infinite

    @classmethod
    def of(cls, wrong: WrongOutput, exact: Value, plain: Value) -> _Rounding | None:
        """None where the graph cannot be computed equation by equation."""
        shape, size = wrong.wanted.shape, wrong.wanted.size
        if not cls.may_be(wrong) or exact is None or plain is None or {exact.size, plain.size} != {size}:
            return None
        return cls(wrong, exact.reshape(shape), plain.reshape(shape).astype(np.float64), np.zeros(shape))

    def learn(self, moved: Value) -> None:
        """Add an answer computed with other roundings of intermediate values."""
        if moved is not None and moved.size == self.plain.size:
            with np.errstate(invalid="ignore"):
                by = np.abs(moved.reshape(self.plain.shape).astype(np.float64) - self.plain)
            self.moves = np.maximum(self.moves, np.nan_to_num(by, posinf=0.0))

    @property
    def unexplained(self) -> bool:
        """Whether a side has an element that is farther from the exact answer than roundings bring it."""
        return bool(self._beyond().any())

    @property
    def may_yet(self) -> bool:
        """Whether more tries may explain the rest: elements that stood still, or are not far beyond."""
        far = self._beyond(TIMES) & (self.moves > self._usual())
        return self.unexplained and not bool(far.any())

    def _usual(self) -> np.ndarray:
        """The usual rounding error of a kernel, relative to the scale of each element."""
        largest = np.abs(self.exact[np.isfinite(self.exact)]).max(initial=0.0)
        rounding = max(rounding_of(self.wrong.wanted.dtype), _NARROW_ROUNDINGS * self.wrong.tolerance.unit)
        return np.asarray(rounding * (largest if self.wrong.scale is None else self.scale))

    @property
    def scale(self) -> np.ndarray:
        """The magnitude by which the error of each element is divided."""
        return np.broadcast_to(np.asarray(self.wrong.scale), self.plain.shape)

    def _beyond(self, times: float = 1.0) -> np.ndarray:
        """The elements whose distance from the exact answer, on either side, exceeds `times` the allowed one."""
        shape, allowed = self.plain.shape, times * (TIMES * self.moves + self._usual())
        sides = (self.wrong.found.reshape(shape).astype(np.float64), self.wrong.wanted.astype(np.float64))
        with np.errstate(invalid="ignore"):
            near = [(np.abs(side - self.exact) <= allowed) | _same(side, self.exact) for side in sides]
        return np.asarray(~(near[0] & near[1]))


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))
