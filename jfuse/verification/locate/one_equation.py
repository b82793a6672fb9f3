"""One equation on XLA: compiled once for all operands of its shapes, constants too, and as soon as can be."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.base.memo import Memo
from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import symbols_in
from jfuse.ir.evaluate import evaluate, sizes_of
from jfuse.ir.graph import Eqn, Var
from jfuse.kernels.control import scan_parts
from jfuse.kernels.core.op import TflOp
from jfuse.running.partition import is_changed
from jfuse.running.runner import run_equation

_SHAPE_LIKE = 64  # elements; integers up to so many stay NumPy: they may be shapes, which kernels need by value
_PROGRAMS: Memo[Callable[..., Any]] = Memo(1024)


def computed(eqn: Eqn, operands: Sequence[np.ndarray | None], env: Mapping[Var, Any]) -> tuple[np.ndarray, ...]:
    """The results of an equation for these operands (None for omitted ones).

    env: values of the graph so far, for open sizes. Raises whatever the kernel raises for operands that it does
    not take.
    """
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        if is_changed(eqn):
            results: Sequence[Any] = run_equation(eqn, operands, env)
        elif eqn.op.name == "scan":
            results = _scanned(eqn, operands, env)
        elif isinstance(eqn.op, TflOp) and eqn.op.traceable and any(map(_is_data, operands)) and _is_closed(eqn):
            results = _compiled(eqn, eqn.op, operands)
        else:
            results = run_equation(eqn, [jnp.asarray(v) if _is_data(v) else v for v in operands], env)
    return tuple(map(np.asarray, results))


def _is_data(value: np.ndarray | None) -> bool:
    """Whether XLA computes with it: neither possible shapes nor texts."""
    if value is None or value.dtype == object:
        return False
    return value.dtype.kind not in "iub" or value.size > _SHAPE_LIKE


def _is_closed(eqn: Eqn) -> bool:
    """Whether the parameters hold no open size, which would differ from run to run."""
    return not symbols_in(eqn.params)


def _compiled(eqn: Eqn, op: TflOp, operands: Sequence[np.ndarray | None]) -> Sequence[Any]:
    data = [i for i, v in enumerate(operands) if _is_data(v)]
    fixed = tuple(v if v is None or _is_data(v) else (v.shape, str(v.dtype), v.tobytes()) for v in operands)
    key = (op.builtin, op.body, str(dict(eqn.params)), tuple((i, _abstract(v)) for i, v in enumerate(fixed)))

    def call(*arrays: Any) -> tuple[Any, ...]:
        operand_list = list(operands)
        for i, array in zip(data, arrays, strict=True):
            operand_list[i] = array
        return run_equation(eqn, operand_list, {})

    results: Sequence[Any] = _PROGRAMS.get(key, lambda: quick_jit(call))(*(operands[i] for i in data))
    return results


def _abstract(value: Any) -> Hashable:
    return (value.shape, str(value.dtype)) if isinstance(value, np.ndarray) else value


def _scanned(eqn: Eqn, operands: Sequence[Any], env: Mapping[Var, Any]) -> Sequence[Any]:
    """Step by step: a scan of jax's would be compiled anew each time."""
    consts, carried, xs = scan_parts(operands, eqn.params)
    count = len(xs[0]) if xs else int(eqn.params["length"])
    rows: list[Sequence[Any]] = [()] * count
    with sizes_of(env):
        for turn in reversed(range(count)) if eqn.params["reverse"] else range(count):
            results = evaluate(eqn.bodies[0], [*consts, *carried, *(x[turn] for x in xs)])
            carried, rows[turn] = results[: len(carried)], results[len(carried) :]
    return [*carried, *(np.stack([np.asarray(r) for r in column]) for column in zip(*rows, strict=True))]
