"""Normalizations, whatever they are spelled with: a part around a square root is evaluated, and its factors are solved.

What is found this way is a guess, which the pass has proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import with_float
from jfuse.kernels import ops
from jfuse.passes.outline.region import Meaning, Surroundings

_MOST = 40  # equations of a normalization
_DEPTH = 12  # equations from the input to the root
_DRAWS = 4
_ERROR = 1e-6  # of a guess: the proof has the last word
_MEANS = (ops.mean, ops.sum_)


def norms(around: Surroundings) -> Iterator[Meaning]:
    """Find candidates for a normalization of the last axis or of groups of channels."""
    for root in around.graph.eqns:
        if root.op in (ops.rsqrt, ops.sqrt) and root.outputs[0].type.dtype is DType.f32:
            inside = _before(around, root)
            constants = [a for e in inside for a in e.inputs if isinstance(a, Const) and _is_number(a)]
            numbers = {float(c.array.reshape(())) for c in constants}
            for x in _inputs(inside, root):
                for output in _outputs(around, x, root):
                    yield from _meanings(around, x, output, sorted(numbers))


def _is_number(const: Const) -> bool:
    return const.array.size == 1 and const.type.dtype is DType.f32


def _may_belong(eqn: Eqn) -> bool:
    return not eqn.bodies and not eqn.effects and (eqn.op.elementwise or eqn.op in _MEANS or eqn.op.moves == "renames")


def _before(around: Surroundings, root: Eqn) -> list[Eqn]:
    """The equations that lead to a root, the nearest first."""
    leading, pending = [root], [root]
    while pending and len(leading) < _DEPTH:
        eqn = pending.pop(0)
        for atom in eqn.inputs:
            made = around.made.get(atom) if isinstance(atom, Var) else None
            if made is not None and made not in leading and _may_belong(made):
                leading.append(made)
                pending.append(made)
    return leading


def _inputs(inside: Sequence[Eqn], root: Eqn) -> list[Var]:
    """Values that may be what is normalized: larger than the root; the farthest first."""
    candidates = dict.fromkeys(a for e in inside for a in e.inputs if isinstance(a, Var) and a.type.dtype is DType.f32)
    small = root.outputs[0].type
    large = [v for v in candidates if v.type.is_static and small.is_static and v.type.size > small.size]
    return [v for v in large if v.type.rank >= 2][::-1]


def _outputs(around: Surroundings, x: Var, root: Eqn) -> list[Var]:
    """List values of x's type that are computed from x alone by way of the root, the last one first."""
    known, through, outputs, count = {x}, set[Var](), list[Var](), 0
    for eqn in around.graph.eqns:
        read = [a for a in eqn.inputs if isinstance(a, Var)]
        if not read or not known.issuperset(read) or not _may_belong(eqn):
            continue
        known.update(eqn.outputs)
        count += 1
        if eqn is root or not through.isdisjoint(read):
            through.update(eqn.outputs)
            outputs += [o for o in eqn.outputs if o.type == x.type]
        if count == _MOST:
            break
    return outputs[::-1]


@dataclass(frozen=True)
class _Samples:
    """Drawn inputs of a part, f64[draws, *shape of x], and what it answers."""

    x: np.ndarray
    y: np.ndarray

    @classmethod
    def of(cls, part: Graph, x: Var) -> _Samples | None:
        wide = with_float(part, DType.f64)
        drawn = np.random.default_rng(0).standard_normal((_DRAWS, *map(int, x.type.shape)))
        drawn *= np.array([1.0, 0.01, 3.0, 0.1]).reshape(-1, *[1] * x.type.rank)
        try:
            with jax.enable_x64(True):
                return cls(drawn, np.stack([np.asarray(evaluate(wide, [row])[0]) for row in drawn]))
        except JfuseError:
            return None

    def solved(self, normal: Callable[[np.ndarray], np.ndarray], shifts: bool) -> tuple[np.ndarray, np.ndarray] | None:
        """The factor and the shift of each channel that make y of what is normalized; None where there are none."""
        axes = tuple(range(self.x.ndim - 1))
        n = np.stack([normal(row) for row in self.x])
        means = (n.mean(axes), self.y.mean(axes)) if shifts else (0.0, 0.0)
        factor = ((n - means[0]) * (self.y - means[1])).sum(axes) / np.maximum(((n - means[0]) ** 2).sum(axes), 1e-30)
        shift = np.broadcast_to(means[1] - factor * means[0], factor.shape)
        error = np.abs(self.y - (n * factor + shift)).max()
        if not error <= _ERROR * np.abs(self.y).max():
            return None
        return factor.astype(np.float32), shift.astype(np.float32)


def _meanings(around: Surroundings, x: Var, output: Var, numbers: Sequence[float]) -> Iterator[Meaning]:
    part = around.part([x], output)
    samples = None if part is None else _Samples.of(part, x)
    if part is None or samples is None:
        return
    shape = tuple(map(int, x.type.shape))
    groups = sorted({_groups(v, shape) for eqn in part.eqns for v in eqn.outputs} | {1}) if len(shape) > 2 else []
    for epsilon in (*numbers, 0.0):
        solution = samples.solved(partial(_rms, epsilon=epsilon), False)
        if solution is not None:
            spelled = partial(_rms_spelled, scale=solution[0])
            function = partial(rms_norm, epsilon=epsilon)
            yield Meaning("odml.rms_norm", {"epsilon": epsilon}, function, (x,), output, spelled)
        solution = samples.solved(partial(_grouped, groups=1, rows=True, epsilon=epsilon), True)
        if solution is not None:
            yield _group_norm(x, output, solution, (-1, shape[-1]), 1, epsilon)
        for count in groups:
            solution = samples.solved(partial(_grouped, groups=count, rows=False, epsilon=epsilon), True)
            if solution is not None:
                yield _group_norm(x, output, solution, shape, count, epsilon)


def _groups(v: Var, shape: tuple[int, ...]) -> int:
    """The number of groups where a value has the shape of x with channels in groups; else 1."""
    known = v.type.shape if v.type.is_static else ()
    split = len(known) > 2 and known[-2] * known[-1] == shape[-1] and v.type.size == int(np.prod(shape))
    return int(known[-2]) if split else 1


def _group_norm(
    x: Var, output: Var, solution: tuple[np.ndarray, np.ndarray], shape: tuple[int, ...], groups: int, epsilon: float
) -> Meaning:
    attributes = {"num_groups": groups, "epsilon": epsilon, "channel_axis": -1}
    function = partial(group_norm, groups=groups, epsilon=epsilon)
    spelled = partial(_group_norm_spelled, scale=solution[0], shift=solution[1], shape=shape)
    return Meaning("odml.group_norm", attributes, function, (x,), output, spelled)


def _rms_spelled(call: Any, x: Any, *, scale: np.ndarray) -> Any:
    return call(x, scale)


def _group_norm_spelled(call: Any, x: Any, *, scale: np.ndarray, shift: np.ndarray, shape: tuple[int, ...]) -> Any:
    """The normalization of rows of x, or of x itself: of more than two axes, groups are of all axes but the first."""
    if len(shape) == x.type.rank:
        return call(x, scale, shift)
    rows = ops.reshape(x, np.array(shape, np.int32))
    return ops.reshape(call(rows, scale, shift), np.array(x.type.shape, np.int32))


def _rms(x: np.ndarray, *, epsilon: float) -> np.ndarray:
    return np.asarray(x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon))


def _grouped(x: np.ndarray, *, groups: int, rows: bool, epsilon: float) -> np.ndarray:
    """x with mean 0 and variance 1 in each row, or in each group of channels of each sample."""
    shape = (-1, 1, 1, x.shape[-1]) if rows else (x.shape[0], -1, groups, x.shape[-1] // groups)
    parts = x.reshape(shape)
    centred = parts - parts.mean((1, 3), keepdims=True)
    return np.asarray((centred / np.sqrt((centred**2).mean((1, 3), keepdims=True) + epsilon)).reshape(x.shape))


def rms_norm(x: Any, scale: Any, *, epsilon: float) -> Any:
    """x / sqrt(mean(x^2) + epsilon) * scale over the last axis.   x: f32[..., c]; scale: f32[c]

    Source: litert_torch/generative/layers/normalization.py
    """
    square = ops.mean(ops.mul(x, x), _axes(x.type.rank - 1), keep_dims=True)
    return ops.mul(ops.mul(x, ops.rsqrt(ops.add(square, np.float32(epsilon)))), scale)


def group_norm(x: Any, scale: Any, shift: Any, *, groups: int, epsilon: float) -> Any:
    """Mean 0 and variance 1 of each group of channels over all axes but the first, times scale plus shift.

    x: f32[n, ..., c]; scale, shift: f32[c].   Source: litert_torch/generative/layers/normalization.py
    """
    shape = tuple(map(int, x.type.shape))
    parts, axes = x, _axes(*range(1, len(shape)))
    if groups > 1:
        parts = ops.reshape(x, np.array((shape[0], -1, groups, shape[-1] // groups), np.int32))
        axes = _axes(1, 3)
    centred = ops.sub(parts, ops.mean(parts, axes, keep_dims=True))
    variance = ops.mean(ops.mul(centred, centred), axes, keep_dims=True)
    normal = ops.mul(centred, ops.rsqrt(ops.add(variance, np.float32(epsilon))))
    if groups > 1:
        normal = ops.reshape(normal, np.array(shape, np.int32))
    return ops.add(ops.mul(normal, scale), shift)


def _axes(*axes: int) -> np.ndarray:
    return np.array(axes, np.int32)
