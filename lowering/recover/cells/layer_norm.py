"""Recognizes layer normalization in a loop body, however it is spelled, by its results on rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import is_known
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import live_eqns, substitute_graph, with_float
from jfuse.kernels import ops
from jfuse.lowering.recover.algebra.forms import Dependence, concrete_zeros
from jfuse.lowering.rule_tools.case_distinctions import run_time_switches

Run = Callable[[np.ndarray], np.ndarray]
"""f64[rows, columns] -> f64[rows, columns]"""

_ROWS = 4
_SAMPLES = 3
_MOST_TRIED = 12
_EXACT = 1e-9  # in f64, relative: what is no normalization differs by far more


@dataclass(frozen=True)
class RowNorm:
    """Columns of `of`, block by block with mean 0 and variance 1, times `scale` plus `shift`: f64[columns].

    epsilon: what is added to the variance. units: the columns of a block.
    """

    of: Var
    scale: np.ndarray
    shift: np.ndarray
    epsilon: float
    units: int

    def block(self, column: int) -> np.ndarray:
        """The columns over which the statistics of a column run."""
        first = column - column % self.units
        return np.arange(first, first + self.units)


def row_norm(body: Graph, dependence: Dependence, var: Var) -> RowNorm | None:
    """The row normalization that a value applies to a value affine in the body's inputs; None for other values."""
    if not _has_statistics(body, dependence, var):
        return None
    for source, graph in _affine_sources(body, dependence, var):
        try:
            norm = _fitted(with_float(graph, DType.f64), source)
        except (JfuseError, ValueError, TypeError):  # what NumPy raises where shapes do not fit
            continue
        if norm is not None:
            return norm
    return None


def _between(body: Graph, source: Var, var: Var) -> Graph:
    """Extract the graph that computes `var` from `source`; its further inputs are inputs of the body."""
    start = Var(source.type)
    eqns = live_eqns(substitute_graph(body, {source: start}), [var])
    others = tuple(v for v in body.inputs if any(v in e.inputs for e in eqns))
    return Graph("norm", (start, *others), eqns, (var,))


def _has_statistics(body: Graph, dependence: Dependence, var: Var) -> bool:
    """Whether an equation before the value takes sums over what is not affine in the inputs, as a variance does."""
    inputs = frozenset(body.inputs)
    eqns = (e for e in live_eqns(body, [var]) if e.op in (ops.mean, ops.sum_))
    return any(a is not None and not dependence.of(a) <= inputs for e in eqns for a in e.inputs)


def _affine_sources(body: Graph, dependence: Dependence, var: Var) -> Iterator[tuple[Var, Graph]]:
    """Values affine in the inputs through which alone the value depends on them, the nearest first; and how it does."""
    inputs = frozenset(body.inputs)
    sources = (o for eqn in reversed(live_eqns(body, [var])) for o in eqn.outputs)
    affine = (
        s for s in sources if s.type.dtype.is_float and s.type.rank and dependence.of(s) and dependence.of(s) <= inputs
    )
    for source in islice(affine, _MOST_TRIED):
        graph = _between(body, source, var)
        if not _reads_inputs(graph) and next(run_time_switches(graph), None) is None:
            yield source, graph


def _reads_inputs(graph: Graph) -> bool:
    """Whether some equation reads the data of another input than the first."""
    others = graph.inputs[1:]
    return any(a in others and not _is_shape_only(e, i) for e in graph.eqns for i, a in enumerate(e.inputs))


def _is_shape_only(eqn: Eqn, place: int) -> bool:
    return eqn.op.operand_at(place).shape_only


def _fitted(graph: Graph, source: Var) -> RowNorm | None:
    like, *others = (concrete_zeros(v.type, _ROWS) for v in graph.inputs)
    rows = like.shape[0]
    width = like.size // rows

    def run(values: np.ndarray) -> np.ndarray:
        (values_after,) = evaluate(graph, [values.reshape(like.shape), *others])
        return np.asarray(values_after, np.float64).reshape(rows, -1)

    with np.errstate(all="ignore"):
        shift = run(np.zeros_like(like))
        if shift.shape != (rows, width) or not np.isfinite(shift).all() or not (shift == shift[0]).all():
            return None
        shapes = (out.type.shape for eqn in graph.eqns for out in eqn.outputs if out.type.rank)
        sizes = dict.fromkeys([width, *(int(shape[-1]) for shape in shapes if is_known(shape[-1]))])
        for units in (u for u in sizes if u > 1 and width % u == 0):
            scale = _scale(run, shift[0], rows, units)
            epsilon = _epsilon(run, shift[0], scale, rows, units)
            if _agrees(run, scale, shift[0], epsilon, rows, units):
                return RowNorm(source, scale, shift[0], epsilon, units)
    return None


def _normed(z: np.ndarray, units: int, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of columns with mean 0 and variance 1, and the variance of each element's block."""
    blocks = z.reshape(len(z), -1, units)
    centred = blocks - blocks.mean(-1, keepdims=True)
    variance = np.broadcast_to((centred * centred).mean(-1, keepdims=True), blocks.shape)
    return (centred / np.sqrt(variance + epsilon)).reshape(z.shape), variance.reshape(z.shape)


def _draws(rows: int, width: int, scale: float) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [scale * random.standard_normal((rows, width)) for _ in range(_SAMPLES)]


def _scale(run: Run, shift: np.ndarray, rows: int, units: int) -> np.ndarray:
    """The factor of each column: where values are so large that nothing added to their variance counts."""
    draws = _draws(rows, shift.size, 1e6)
    normed = np.concatenate([_normed(z, units, 0.0)[0] for z in draws])
    normed_rows = np.concatenate([run(z) - shift for z in draws])
    best = np.abs(normed).argmax(0), np.arange(shift.size)
    exact: np.ndarray = normed_rows[best] / normed[best]
    narrow = exact.astype(np.float32).astype(np.float64)
    return np.where(np.abs(narrow - exact) <= _EXACT * np.abs(exact).max(), narrow, exact)


def _epsilon(run: Run, shift: np.ndarray, scale: np.ndarray, rows: int, units: int) -> float:
    """Estimate the number added to the variance, from how much less small values grow than without it."""
    z = _draws(rows, shift.size, 1e-3)[0]
    normed, variance = _normed(z, units, 0.0)
    wanted = scale * normed
    place = np.unravel_index(np.abs(wanted).argmax(), wanted.shape)
    ratio = (run(z) - shift)[place] / wanted[place]
    return max(0.0, float(variance[place] * (1 / ratio**2 - 1)))


def _agrees(run: Run, scale: np.ndarray, shift: np.ndarray, epsilon: float, rows: int, units: int) -> bool:
    if not np.isfinite(scale).all() or not np.isfinite(epsilon):
        return False
    for size in (1e-3, 1.0, 30.0):
        for z in _draws(rows, shift.size, size):
            wanted = scale * _normed(z, units, epsilon)[0] + shift
            # relative to the largest: epsilon itself is measured to about 1e-10 of the variance
            if not np.allclose(run(z), wanted, rtol=0, atol=_EXACT * np.abs(wanted).max()):
                return False
    return True
