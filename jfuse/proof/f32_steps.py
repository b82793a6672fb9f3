"""Steps that compute something else in f32 than in real numbers, as those that round by adding 1.5 * 2^23 do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import substitute_dim, symbols_of
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, with_float
from jfuse.kernels.control import scan

_SIZE = 3  # of what is open
_ROUNDING = 1e-5  # relative to the largest element of a result: sums of a thousand terms in f32 stay below


def rounding_step(graph: Graph) -> Eqn | None:
    """The first loop whose step gives other numbers in f32 than in f64; None where there is none."""
    loops = (eqn for eqn in all_eqns(graph) if eqn.op is scan and not any(e.bodies for e in eqn.bodies[0].eqns))
    return next((eqn for eqn in loops if _rounds(eqn)), None)


def _rounds(eqn: Eqn) -> bool:
    (step,) = eqn.bodies
    wide = with_float(step, DType.f64)
    random = np.random.default_rng(0)
    args = [
        a.array if i < eqn.params["consts"] and isinstance(a, Const) else _drawn(random, v)
        for i, (v, a) in enumerate(zip(step.inputs, eqn.inputs, strict=True))
    ]
    try:
        with np.errstate(all="ignore"):
            narrow = evaluate(with_float(step, DType.f32), [_as(a, np.float32) for a in args])
            exact = evaluate(wide, [_as(a, np.float64) for a in args])
    except (JfuseError, TypeError, ValueError, IndexError):  # a step that reads its place may take no drawn one
        return False
    return any(map(_differ, narrow, exact))


def _as(array: np.ndarray, kind: Any) -> np.ndarray:
    return array.astype(kind) if array.dtype.kind == "f" else array


def _drawn(random: np.random.Generator, var: Var) -> np.ndarray:
    """Numbers that f32 has, for an input; integers are 0."""
    shape: Sequence[int] = [int(substitute_dim(d, dict.fromkeys(symbols_of(d), _SIZE))) for d in var.type.shape]
    if var.type.dtype.is_float:
        return random.standard_normal(shape).astype(np.float32)
    kind = var.type.dtype.numpy
    return random.integers(0, 2, shape).astype(kind) if var.type.dtype is DType.bool else np.zeros(shape, kind)


def _differ(narrow: Any, exact: Any) -> bool:
    a, b = np.asarray(narrow, np.float64), np.asarray(exact, np.float64)
    size = np.abs(b).max(initial=0.0)
    return bool(np.isfinite(size) and (np.abs(a - b) > _ROUNDING * size).any())
