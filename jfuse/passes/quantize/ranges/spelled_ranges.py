"""Replaces hand-written fake quantization, whose ranges training found, by FAKE_QUANT.

Such code is step * (ROUND(CLIP(x / step + zero)) - zero), as in learned step sizes (LSQ), QKeras and
QuantizeAndDequantize. The limits may be on either side of ROUND, which may be FLOOR(x + 0.5). A straight-through
gradient makes it x + (that - x).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import producers, with_bodies
from jfuse.kernels import ops
from jfuse.kernels.nn.activation import LIMITS
from jfuse.lowering.peephole.arithmetic.affine import Affine
from jfuse.lowering.peephole.arithmetic.spelled_activations import Clip
from jfuse.lowering.rule_tools.query import is_plain_float
from jfuse.passes.quantize.forms import rule_of
from jfuse.passes.quantize.ranges.effective_ranges import EVERYWHERE
from jfuse.passes.quantize.ranges.trained import trained_range
from jfuse.passes.rewrite import rewrite
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.quantization.recipe import Recipe

_NEAR = 1e-3
"""How far from a whole step a zero or an end may lie, in steps: a few roundings of f32."""
_SAME = 1e-5  # of two factors whose product is 1, relative
_BITS = range(2, 17)
_ONE, _ZERO = np.ones(()), np.zeros(())


@dataclass(frozen=True)
class _Line:
    """scale * x + shift, no less than low and no more than high."""

    x: Var
    scale: float = 1.0
    shift: float = 0.0
    low: float = -np.inf
    high: float = np.inf

    def then(self, step: _Line) -> _Line:
        """Compose this line with a step that reads it."""
        low, high = (
            float(np.clip(end * step.scale + step.shift, step.low, step.high)) for end in (self.low, self.high)
        )
        return _Line(self.x, self.scale * step.scale, self.shift * step.scale + step.shift, low, high)


@dataclass(frozen=True)
class _RoundedLine:
    """A line of the result of ROUND.

    lines: what is rounded, as a line of each value that it is computed from, the nearest first. before: the values that
    the line was a step before; none for ROUND itself.
    """

    line: _Line
    lines: tuple[_Line, ...]
    before: tuple[Var, ...] = ()

    def fake_quant(self) -> Range | None:
        """The options of the FAKE_QUANT that computes the same; None where none does."""
        step, ends = self.line.scale, (self.line.low, self.line.high)
        zero, first, last = (value / step for value in (-self.line.shift, *ends))
        if not np.isfinite([first, last]).all() or any(abs(v - np.rint(v)) > _NEAR for v in (zero, first, last)):
            return None
        options = _options(round(first), round(last))
        if options is None:
            return None
        fitting = [line for line in self.lines if abs(line.shift - zero) < _NEAR]
        # A step of 1 is one that has moved into weights behind it, where the factor goes again.
        alike = [line for line in fitting if abs(line.scale * step - 1) < _SAME and abs(step - 1) > _SAME]
        line = (alike or fitting or self.lines)[-1]
        shift = 0.0 if fitting else (line.shift - zero) / line.scale
        scale = line.scale * step
        if alike or abs(step - 1) <= _SAME:
            limits = {"min": round(first) / line.scale, "max": round(last) / line.scale}
            return Range(line.x, shift, 1.0, {**limits, **options}, 1.0 if abs(scale - 1) < _SAME else scale)
        return Range(line.x, shift, scale, {"min": self.line.low, "max": self.line.high, **options}, 1.0)


@dataclass(frozen=True)
class Range:
    """FAKE_QUANT of (x + shift) * scale, times a factor.   options: of FAKE_QUANT"""

    x: Var
    shift: float
    scale: float
    options: Mapping[str, Any]
    factor: float

    def spelled(self) -> Any:
        """The same in operators; what is more than FAKE_QUANT goes into products before and behind it."""
        x = ops.add(self.x, np.float32(self.shift)) if self.shift else self.x
        x = x if self.scale == 1 else ops.mul(x, np.float32(self.scale))
        rounded = ops.fake_quant(x, **self.options)
        return rounded if self.factor == 1 else ops.mul(rounded, np.float32(self.factor))


def _options(first: int, last: int) -> Mapping[str, Any] | None:
    """The number of bits, and whether the range is narrow, of whole numbers from the first to the last one."""
    for bits in _BITS if first <= 0 <= last else ():
        if last - first in (2**bits - 1, 2**bits - 2):
            return {"num_bits": bits, "narrow_range": last - first == 2**bits - 2}
    return None


def with_spelled_ranges(graph: Graph, recipe: Recipe) -> Graph:
    """The graph with FAKE_QUANT for its spellings, where the recipe wants integers; bodies included."""
    graph = with_bodies(graph, lambda body: with_spelled_ranges(body, recipe))
    ranges = spelled_ranges(graph)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if not eqn.outputs or eqn.outputs[0] not in ranges or rule_of(eqn, recipe).mode != "integer":
            return None
        return [ranges[eqn.outputs[0]].spelled()]

    return eliminate_dead_code(rewrite(graph, visit)) if ranges else graph


def has_trained_ranges(graph: Graph) -> bool:
    """Whether training found ranges of values, bodies included."""
    return (
        any(trained_range(eqn) is not None for eqn in graph.eqns if eqn.op.is_kernel)
        or any(map(has_trained_ranges, (body for eqn in graph.eqns for body in eqn.bodies)))
        or bool(spelled_ranges(graph))
    )


def spelled_ranges(graph: Graph) -> Mapping[Var, Range]:
    """The values that are the last of a spelling, and what FAKE_QUANT says them with."""
    made_by = producers(graph)
    lines: dict[Var, tuple[_Line, ...]] = {}
    rounded: dict[Var, _RoundedLine] = {}
    for eqn in graph.eqns:
        if len(eqn.outputs) == 1 and is_plain_float(eqn.outputs[0]):
            _read(eqn, lines, rounded, made_by)
    ranges = {var: range_ for var, each in rounded.items() if (range_ := each.fake_quant()) is not None}
    goes_on: set[Var] = set()
    for var in reversed(rounded):
        if var in ranges or var in goes_on:
            goes_on |= {var, *rounded[var].before}
    read = {a for eqn in graph.eqns if goes_on.isdisjoint(eqn.outputs) for a in eqn.inputs}
    return {var: each for var, each in ranges.items() if var in read or var in graph.outputs}


def _read(
    eqn: Eqn, lines: dict[Var, tuple[_Line, ...]], rounded: dict[Var, _RoundedLine], made_by: Mapping[Var, Eqn]
) -> None:
    """Note what an equation makes of a line, or of a rounded one."""
    result = eqn.outputs[0]
    if eqn.op in (ops.round_, ops.floor):
        x = eqn.inputs[0]
        half = 0.5 if eqn.op is ops.floor else 0.0
        rounded_lines = [line.then(_Line(line.x, shift=-half)) for line in _lines_of(x, lines, made_by)]
        if rounded_lines:
            ends = (float(np.rint(end)) for end in (rounded_lines[0].low, rounded_lines[0].high))
            rounded[result] = _RoundedLine(_Line(result, 1.0, 0.0, *ends), tuple(rounded_lines))
        return
    through = _straight_through(eqn, rounded, made_by)
    if through is not None:
        rounded[result] = replace(rounded[through[0]], before=through)
        return
    step = _step_of(eqn)
    if step is None:
        return
    if step.x in rounded:
        before = rounded[step.x]
        rounded[result] = _RoundedLine(before.line.then(step), before.lines, (step.x,))
        return
    steps = [line.then(step) for line in _lines_of(step.x, lines, made_by)]
    lines[result] = (_Line(result, 1.0, 0.0, steps[0].low, steps[0].high), *steps)


def _lines_of(
    atom: Atom | None, lines: Mapping[Var, tuple[_Line, ...]], made_by: Mapping[Var, Eqn]
) -> tuple[_Line, ...]:
    if not isinstance(atom, Var):
        return ()
    if atom in lines:
        return lines[atom]
    activation = made_by[atom].params.get("fused_activation_function") if atom in made_by else None
    return (_Line(atom, 1.0, 0.0, *LIMITS.get(str(activation), EVERYWHERE)),)


def _straight_through(
    eqn: Eqn, rounded: Mapping[Var, _RoundedLine], made_by: Mapping[Var, Eqn]
) -> tuple[Var, Var] | None:
    """The q of x + (q - x) and of x - (x - q), if it is rounded, and the difference."""
    if eqn.op not in (ops.add, ops.sub) or eqn.params["fused_activation_function"] != "NONE":
        return None
    for x, other in (eqn.inputs, eqn.inputs[::-1])[: 2 if eqn.op is ops.add else 1]:
        inner = made_by.get(other) if isinstance(other, Var) else None
        if inner is None or inner.op is not ops.sub or inner.params["fused_activation_function"] != "NONE":
            continue
        q, subtrahend = inner.inputs if eqn.op is ops.add else inner.inputs[::-1]
        if subtrahend is x and isinstance(q, Var) and q in rounded:
            return q, inner.outputs[0]
    return None


def _step_of(eqn: Eqn) -> _Line | None:
    """Read an equation as an increasing line, clipped, of one operand; None where it is none, or differs by element."""
    x = eqn.inputs[0] if eqn.inputs else None
    if (ends := LIMITS.get(str(eqn.op.builtin))) is not None and isinstance(x, Var):
        return _Line(x, 1.0, 0.0, *ends)
    if eqn.op in (ops.maximum, ops.minimum):
        clip = Clip.of(eqn)
        return None if clip is None or not isinstance(clip.x, Var) else _Line(clip.x, 1.0, 0.0, clip.low, clip.high)
    affine = Affine.of(eqn) if eqn.op.elementwise and eqn.op.clamps else None
    if affine is None or not isinstance(affine.x, Var) or affine.function not in LIMITS:
        return None
    numbers = [default if v is None else v for v, default in ((affine.scale, _ONE), (affine.shift, _ZERO))]
    if any(v.size != 1 for v in numbers) or numbers[0].reshape(()) <= 0:
        return None
    scale, shift = (float(v.reshape(())) for v in numbers)
    return _Line(affine.x, scale, shift, *LIMITS[affine.function])
