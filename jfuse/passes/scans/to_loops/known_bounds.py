"""Bounds of values that follow from the operators that make them, whatever the inputs are: a sigmoid is in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import exp, inf, isfinite, isnan, log
from types import MappingProxyType
from typing import TypeAlias

from jfuse.ir.graph import Atom, Const, Eqn, Op
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.nn.activation import LIMITS

Bounds: TypeAlias = tuple[float, float]
_ANY: Bounds = (-inf, inf)
_DEEPEST = 40  # equations, one after the other


def bounds(atom: Atom, producer: Callable[[Atom], Eqn | None]) -> Bounds:
    """The least and the largest number that a value may be, infinities where nothing is known; NaN does not count.

    producer: gives the equation that makes a value.
    """
    known: dict[Atom, Bounds] = {}

    def of(value: Atom | None, depth: int) -> Bounds:
        if isinstance(value, Const):
            numbers = value.array
            return (float(numbers.min()), float(numbers.max())) if numbers.size else (0.0, 0.0)
        if value is None:
            return _ANY
        if value not in known:
            eqn = producer(value)
            known[value] = _ANY if eqn is None or depth > _DEEPEST else result(eqn, depth + 1)
        return known[value]

    def result(eqn: Eqn, depth: int) -> Bounds:
        if eqn.op not in (ops.select, ops.select_v2):
            return _of_result(eqn, lambda a: of(a, depth))
        condition, *values = eqn.inputs
        test = None if condition is None else producer(condition)
        on_nan = test is not None and test.op is ops.not_equal and test.inputs[0] is test.inputs[1]
        first, second = (of(v, depth) for v in values)
        return second if on_nan and not all(map(isfinite, first)) else _hull([first, second])

    return of(atom, 0)


def _of_result(eqn: Eqn, of: Callable[[Atom | None], Bounds]) -> Bounds:
    """The bounds of the results of an equation, by those of its operands."""
    rule = _RULES.get(eqn.op)
    activation = LIMITS.get(eqn.params.get("fused_activation_function", "NONE"), _ANY)
    if eqn.op is ops.cast and eqn.inputs[0] is not None and eqn.inputs[0].type.dtype is DType.bool:
        return (0.0, 1.0)
    if rule is not None:
        least, most = rule([of(a) for a in eqn.inputs])
    elif eqn.op.moves is not None and eqn.op.moves != "joins":
        least, most = of(eqn.inputs[_data(eqn)])
    elif eqn.op.moves == "joins":
        least, most = _hull([of(a) for a in eqn.inputs])
    else:
        least, most = _ANY
    return _cut((least, most), activation)


def _data(eqn: Eqn) -> int:
    """The operand whose elements an equation moves."""
    return next(i for i, a in enumerate(eqn.inputs) if a is not None and a.type.dtype is eqn.outputs[0].type.dtype)


def _hull(all_bounds: Sequence[Bounds]) -> Bounds:
    return min(low for low, _ in all_bounds), max(high for _, high in all_bounds)


def _cut(of: Bounds, limits: Bounds) -> Bounds:
    low, high = (min(max(end, limits[0]), limits[1]) for end in of)
    return low, high


def _rising(function: Callable[[float], float]) -> Callable[[Sequence[Bounds]], Bounds]:
    return lambda of: (function(of[0][0]), function(of[0][1]))


def _corners(function: Callable[[float, float], float]) -> Callable[[Sequence[Bounds]], Bounds]:
    """Of what is monotonic in each operand."""

    def rule(of: Sequence[Bounds]) -> Bounds:
        ends = [function(x, y) for x, y in product(*of)]
        return _ANY if any(map(isnan, ends)) else (min(ends), max(ends))

    return rule


def _times(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y  # an end that is infinite is not reached


def _divided(of: Sequence[Bounds]) -> Bounds:
    low, high = of[1]
    if not (low > 0 or high < 0):
        return _ANY
    return _corners(_times)((of[0], (1 / high, 1 / low)))


def _exp(x: float) -> float:
    return exp(x) if x < 700 else inf


def _log(x: float) -> float:
    return log(x) if 0 < x < inf else -inf if x <= 0 else inf


def _magnitude(of: Sequence[Bounds]) -> Bounds:
    low, high = of[0]
    return (max(0.0, low, -high), max(-low, high))


def _limits(low: float, high: float) -> Callable[[Sequence[Bounds]], Bounds]:
    return lambda of: _cut(of[0], (low, high))


_RULES: Mapping[Op, Callable[[Sequence[Bounds]], Bounds]] = MappingProxyType(
    {
        ops.logistic: lambda of: (0.0, 1.0),
        ops.softmax: lambda of: (0.0, 1.0),
        ops.tanh: lambda of: (-1.0, 1.0),
        ops.sin: lambda of: (-1.0, 1.0),
        ops.cos: lambda of: (-1.0, 1.0),
        ops.exp: _rising(_exp),
        ops.log: _rising(_log),
        ops.neg: lambda of: (-of[0][1], -of[0][0]),
        ops.abs_: _magnitude,
        ops.relu: _limits(0.0, inf),
        ops.relu6: _limits(0.0, 6.0),
        ops.relu_n1_to_1: _limits(-1.0, 1.0),
        ops.relu_0_to_1: _limits(0.0, 1.0),
        ops.add: _corners(lambda x, y: x + y),
        ops.sub: _corners(lambda x, y: x - y),
        ops.mul: _corners(_times),
        ops.div: _divided,
        ops.minimum: _corners(min),
        ops.maximum: _corners(max),
        ops.square: lambda of: (0.0, _times(max(map(abs, of[0])), max(map(abs, of[0])))),
    }
)
"""Bounds of a result by those of the operands."""
