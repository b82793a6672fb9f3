"""Activations that the source spells in arithmetic, known by their values and not by their spelling.

A result that depends on one tensor x through operators that work element by element, with scalar constants, is a
function of one number. Where it is one that TFLite has as an operator (GELU, HARD_SWISH, LEAKY_RELU, …), it becomes
that. It is computed in f64 on points of all scales, on both sides of every constant that it holds, and may use no case
distinction but clips, and comparisons of x itself with constants, whose places are among those points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.kernels import ops
from jfuse.kernels.control import EXACT, composite
from jfuse.kernels.core.op import TflOp
from jfuse.lowering.rule_tools.query import is_plain_float, keeps_type

_LARGEST = 24  # equations of a spelling; GELU has eight
_PROBES = 9
_CLOSE = 1e-6  # relative; constants are rounded to f32, and the two forms of GELU differ by 1e-4
_STEEP = 10  # how many times as much a tail may be off: exp(-x) is by x times what its constants are
_F32 = (1e-5, 1e2)  # what f32 may differ by, beside x or the result, and up to which x
_COMPARISONS = frozenset({ops.less, ops.less_equal, ops.greater, ops.greater_equal})
_SELECTS = frozenset({ops.select, ops.select_v2})

Known = tuple[TflOp, Mapping[str, Any]]
_KNOWN: tuple[Known, ...] = (
    (ops.relu, {}),
    (ops.relu6, {}),
    (ops.relu_n1_to_1, {}),
    (ops.relu_0_to_1, {}),
    (ops.hard_swish, {}),
    (ops.gelu, {"approximate": False}),
    (ops.gelu, {"approximate": True}),
    (ops.elu, {}),
    (ops.logistic, {}),
    (ops.tanh, {}),
    (ops.abs_, {}),
)


@dataclass
class _PointwisePlace:
    """Where a tensor stands: the nearest tensor that all of it depends on, and how many such steps from the first."""

    made_by: Eqn | None = None
    source: Var | None = None
    depth: int = 0

    @property
    def is_join(self) -> bool:
        """Whether more than one way leads here from the source."""
        return self.made_by is not None and len({a for a in self.made_by.inputs if isinstance(a, Var)}) > 1


class Pointwise:
    """The spelled activations of a graph, found while its equations are visited in order."""

    def __init__(self, graph: Graph) -> None:
        self._places: dict[Var, _PointwisePlace] = {v: _PointwisePlace() for v in graph.inputs}

    def visit(self, eqn: Eqn) -> Any:
        """The result of an equation as one operator on an earlier tensor; None where it is none that is known."""
        place = self._place(eqn)
        self._places.update((out, place if i == 0 else _PointwisePlace()) for i, out in enumerate(eqn.outputs))
        if place.source is None:
            return None
        for source in self._sources(place):
            operator = self._known(eqn, source)
            if operator is not None:
                op, options = operator
                return op(source, **options)
        return None

    def _place(self, eqn: Eqn) -> _PointwisePlace:
        operands = [a for a in eqn.inputs if isinstance(a, Var)]
        if not operands or not _is_pointwise(eqn):
            return _PointwisePlace()
        nearest: Var | None = operands[0]
        for operand in operands[1:]:
            nearest = self._common(nearest, operand)
        return _PointwisePlace() if nearest is None else _PointwisePlace(eqn, nearest, self._at(nearest).depth + 1)

    def _at(self, var: Var) -> _PointwisePlace:
        return self._places.setdefault(var, _PointwisePlace())

    def _common(self, x: Var | None, y: Var | None) -> Var | None:
        """The nearest tensor on which both depend, and nothing beside it."""
        while x is not y:
            if x is None or y is None:
                return None
            if self._at(x).depth >= self._at(y).depth:
                x = self._at(x).source
            else:
                y = self._at(y).source
        return x

    def _sources(self, place: _PointwisePlace) -> Iterator[Var]:
        """From where an equation may be one operator: behind a join, and a factor or two behind that."""
        for _ in range(3):
            if place.source is None:
                return
            if place.is_join:
                yield place.source
                return
            place = self._at(place.source)

    def _known(self, eqn: Eqn, source: Var) -> Known | None:
        if not is_plain_float(source) or not keeps_type(source.type, eqn.outputs[0].type):
            return None
        spelling = self._between(source, eqn)
        if spelling is None or not is_plain_float(eqn.outputs[0]):
            return None
        samples = _samples([a for e in spelling for a in e.inputs if isinstance(a, Const)])
        if samples is None or not all(_is_claimed(e, source) for e in spelling):
            return None
        values = _evaluated(spelling, source, samples)
        if values is None or not np.isfinite(values).all():
            return None
        recognised = _recognised(samples, values)
        plain = recognised is not None and not _drops_nan(spelling, source) and not _rounds(spelling, source, samples)
        return recognised if plain else None

    def _between(self, source: Var, eqn: Eqn) -> list[Eqn] | None:
        """The equations from a tensor to a result, in order; None where they are too many."""
        between: dict[Eqn, None] = {}
        pending = [(eqn, False)]
        while pending:
            current, operands_done = pending.pop()
            if operands_done:
                between[current] = None
            elif current not in between:
                pending.append((current, True))
                makers = [self._at(a).made_by for a in current.inputs if isinstance(a, Var) and a is not source]
                pending += [(m, False) for m in makers if m is not None]
            if len(between) + len(pending) > 4 * _LARGEST:
                return None
        return list(between) if len(between) <= _LARGEST else None


def _is_pointwise(eqn: Eqn) -> bool:
    """Whether each element of the result is made of the one at its place, and of scalar constants."""
    if len(eqn.outputs) != 1 or eqn.effects:
        return False
    if any(isinstance(a, Const) and a.array.size != 1 for a in eqn.inputs):
        return False
    if eqn.op is composite:
        return eqn.params["name"] in EXACT
    return eqn.op.elementwise and eqn.op is not ops.cast


def _is_claimed(eqn: Eqn, source: Var) -> bool:
    """Whether the case distinctions of an equation, if it makes any, show in the samples."""
    if eqn.op in _COMPARISONS:
        return all(a is source or isinstance(a, Const) for a in eqn.inputs)
    return eqn.op is composite or eqn.op in _SELECTS or eqn.op.switch in (None, "clip")


def _samples(constants: Sequence[Const]) -> np.ndarray | None:
    """Points of all scales, and beside every constant, product and quotient of two of them; zeros too."""
    numbers = np.array([float(c.array.reshape(())) for c in constants if c.array.dtype.kind == "f"], np.float64)
    if len(numbers) > _LARGEST or not np.isfinite(numbers).all():
        return None
    pairs = [np.multiply.outer(numbers, numbers).ravel(), np.divide.outer(numbers, numbers[numbers != 0]).ravel()]
    edges = np.concatenate([numbers, *pairs])
    near = np.concatenate([edges * f for f in (1 - 1e-3, 1, 1 + 1e-3)])
    scales = np.logspace(-6, 9, 46)
    points = np.concatenate([np.linspace(-12, 12, 97), scales, -scales, near, -near])
    return np.unique(points[np.abs(points) < 1e10])


def _evaluated(spelling: Sequence[Eqn], source: Var, samples: np.ndarray) -> np.ndarray | None:
    values: dict[Atom, np.ndarray] = {source: samples}
    for eqn in spelling:
        operands = [_operand(a, values, samples.dtype) for a in eqn.inputs]
        try:
            (result,) = eqn.op.run(operands, eqn.params, eqn.bodies)
        except (JfuseError, TypeError, ValueError, KeyError):
            return None
        values[eqn.outputs[0]] = np.asarray(result)
    last_value = values[spelling[-1].outputs[0]]
    return last_value if last_value.shape == samples.shape and last_value.dtype.kind == "f" else None


def _rounds(spelling: Sequence[Eqn], source: Var, samples: np.ndarray) -> bool:
    """Whether a spelling gives other numbers in f32, as one that rounds by adding 1.5 * 2^23 and taking it off."""
    x = samples[np.abs(samples) <= _F32[1]]
    both = (_evaluated(spelling, source, x.astype(kind)) for kind in (np.float64, np.float32))
    exact, narrow = (None if v is None else v.astype(np.float64) for v in both)
    if exact is None or narrow is None:
        return True
    return bool((np.abs(exact - narrow) > _F32[0] * np.maximum(np.abs(x), np.abs(exact))).any())


def _drops_nan(spelling: Sequence[Eqn], source: Var) -> bool:
    """Whether a spelling answers NaN with a number, as where(x > 0, x, 0) does: no operator that is known does so."""
    on_nan = _evaluated(spelling, source, np.full(1, np.nan)) if any(e.op in _SELECTS for e in spelling) else None
    return on_nan is not None and not bool(np.isnan(on_nan).all())


def _operand(atom: Atom | None, values: Mapping[Atom, np.ndarray], kind: np.dtype[Any]) -> np.ndarray | None:
    if isinstance(atom, Const):
        array = atom.array.reshape(())
        return array.astype(kind) if array.dtype.kind == "f" else array
    return None if atom is None else values[atom]


def _recognised(samples: np.ndarray, values: np.ndarray) -> Known | None:
    """The operator that gives these values."""
    place = int(np.argmin(np.abs(samples + 1)))
    alpha = float(np.float32(values[place] / samples[place]))
    known = (*_KNOWN, (ops.leaky_relu, {"alpha": alpha})) if alpha not in (0.0, 1.0) else _KNOWN
    some = np.linspace(0, len(samples) - 1, _PROBES).astype(int)
    for op, options in known:
        # A few points tell most of them apart.
        if all(_is_close(op, options, samples[part], values[part]) for part in (some, slice(None))):
            return op, options
    return None


def _is_close(op: TflOp, options: Mapping[str, Any], x: np.ndarray, values: np.ndarray) -> bool:
    if op is ops.gelu and not options["approximate"]:
        wanted = np.array([0.5 * v * math.erfc(-math.sqrt(0.5) * v) for v in x])  # through jax it would be compiled
    else:
        (wanted,) = op.run([x], op.bind_options(options), ())
    # Beside the result, not beside x: what adds 5e-7 x to a tanh, or to a RELU below 0, is off where x is large.
    size = np.minimum(np.abs(x), 1) + np.abs(wanted) * (1 + np.minimum(np.abs(x), _STEEP))
    return bool(np.all(np.abs(values - wanted) <= _CLOSE * size))
