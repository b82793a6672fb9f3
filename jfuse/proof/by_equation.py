"""Proofs without XLA: body and replacement are computed equation by equation.

For ops that work on bytes, for results whose size depends on data, and for bodies with nodes that TensorFlow computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError, NotFused
from jfuse.ir.evaluate import evaluate, run_equation
from jfuse.ir.graph import Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, with_float
from jfuse.kernels.core.op import depends_on_data
from jfuse.lowering.rules import need
from jfuse.proof.inputs import draw
from jfuse.proof.samples import Case, Sampler, open_shapes

_SAMPLES = 24  # of each set of sizes; they agree bit by bit
_SCALES = (1.0, 0.1, 10.0)
_LARGEST = 1000  # integer
_MOST_ELEMENTS = 2**20  # of a result whose size is a value: an infinity as an integer would ask for gigabytes


class _TooLarge(Exception):
    """A result would be too large to compute."""


class _Fails(Exception):
    """A graph does not take the operands."""


def works_on_bytes(replacement: Graph) -> bool:
    """Whether the replacement holds an op that jax cannot trace although the sizes of its results are known."""
    return any(
        eqn.op.is_kernel and depends_on_data(eqn) and all(out.type.is_static for out in eqn.outputs)
        for eqn in all_eqns(replacement)
    )


def runs_by_equation(*graphs: Graph) -> bool:
    """Whether results as long as data decide, and nodes without a rule, are all that keeps XLA from running the graphs.

    Those of WHERE and UNIQUE are no longer than what they are counted from. A size that is a value of its own, as that
    of RANGE, may be any: it is looked at before the result is computed, which bodies of loops give no room for.
    """
    eqns = [eqn for graph in graphs for eqn in all_eqns(graph) if not eqn.bodies]
    outer = {eqn for graph in graphs for eqn in graph.eqns}
    atoms = [a for eqn in eqns for a in (*eqn.inputs, *eqn.outputs) if a is not None]
    kernels = [e for e in eqns if not _is_node(e)]
    runs = all(e.op.is_kernel and (e in outer or not (e.op.traceable and depends_on_data(e))) for e in kernels)
    needed = len(kernels) < len(eqns) or any(map(depends_on_data, kernels))
    return runs and needed and all(a.type.dtype is not DType.string for a in atoms)


def _is_node(eqn: Eqn) -> bool:
    """Whether TensorFlow computes an equation, the same each time."""
    return eqn.op.tf_name is not None and bool(eqn.op.node) and not eqn.op.draws


def agree(body: Graph, replacement: Graph, seed: int) -> int:
    """The number of samples on which both give the same integers and strings; raises NotFused where they do not.

    TensorFlow computes what is no op of TFLite.
    """
    for out in body.outputs:
        exact = not out.type.dtype.is_float
        need(exact, "body_not_executable", want="results without rounding, or ops that XLA runs", got=str(out.type))
    generator = np.random.default_rng(seed)
    types = [v.type for v in body.inputs]
    count = 0
    for shapes in open_shapes(types):
        for number in range(_SAMPLES):
            scale = _SCALES[number % len(_SCALES)]
            of = (replace(t, shape=shape) for t, shape in zip(types, shapes, strict=True))
            args = [draw(generator, t, {}, scale, _LARGEST) for t in of]
            expected, actual = evaluate(body, args), evaluate(replacement, args)
            same = all(np.array_equal(np.asarray(f), np.asarray(w)) for f, w in zip(actual, expected, strict=True))
            need(same, "not_equal", want="what the body computes", got=f"other values in sample {count}")
            count += 1
    return count


def largest_difference(
    body: Graph,
    replacement: Graph,
    sampler: Sampler,
    tolerance: float,
    seed: int,
    error_of: Callable[[np.ndarray, np.ndarray], float],
) -> tuple[int, float]:
    """The number of samples, and the largest error among them in f64; raises NotFused above the tolerance.

    Samples are passed over that the body does not take (a size below 0) or whose results would be too large: at most
    two thirds of those of each set of sizes.
    error_of: of results with a sample in front, what they differ by; of other sizes it is infinite.
    """
    both = [with_float(graph, DType.f64) for graph in (body, replacement)]
    count, worst = 0, 0.0
    for shapes in open_shapes([v.type for v in body.inputs]):
        case = Case.of(shapes, _SAMPLES)
        passed_over = 0
        for args in zip(*sampler.draw(case, seed), strict=True):
            try:
                expected = _computed(both[0], args)
            except (_TooLarge, _Fails) as refused:
                # A sample on which the body fails says nothing. But if most did, a replacement would pass untested.
                passed_over += 1
                got = f"{refused} in {passed_over} of {case.count} samples"
                need(3 * passed_over <= 2 * case.count, "body_not_executable", want="results for most samples", got=got)
                continue
            try:
                actual = _computed(both[1], args)
            except (_TooLarge, _Fails) as refused:
                raise NotFused("not_equal", want="what the body computes", got=str(refused)) from refused
            for number, (w, f) in enumerate(zip(expected, actual, strict=True)):
                error = error_of(f[None], w[None])
                sizes = ", ".join("x".join(map(str, s)) or "scalar" for s in shapes)
                got = f"an error of {error:.1e} in result {number}, operands of {sizes}"
                need(error <= tolerance, "not_equal", want="what the body computes", got=got)
                worst = max(worst, error)
            count += 1
    return count, worst


def _computed(graph: Graph, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))
    try:
        with jax.enable_x64(True):
            for eqn in graph.eqns:
                operands = [env[a] if isinstance(a, Var) else a for a in eqn.inputs]
                if eqn.op.traceable and depends_on_data(eqn):
                    _need_small(eqn, operands)
                results = run_equation(eqn, operands, env)
                if _is_node(eqn) and _has_nan(results) and not _has_nan(operands):
                    raise _Fails(f"{eqn.op.name} gives NaN")  # outside of what it is defined for
                env.update(zip(eqn.outputs, results, strict=True))
            return [np.asarray(env[a] if isinstance(a, Var) else a.array) for a in graph.outputs]
    except _TooLarge:
        raise
    except (JfuseError, TypeError, ValueError, IndexError) as error:
        raise _Fails(str(error).split("\n")[0]) from error


def _has_nan(values: Sequence[Any]) -> bool:
    arrays = [np.asarray(v.array if isinstance(v, Const) else v) for v in values if v is not None]
    return any(a.dtype.kind in "fc" and bool(np.isnan(a).any()) for a in arrays)


def _need_small(eqn: Eqn, operands: Sequence[Any]) -> None:
    """Raise _TooLarge for results that would be, with these operands."""
    atoms = [a if a is None or isinstance(a, Const) else Const(np.asarray(a)) for a in operands]
    for result in eqn.op.infer(atoms, eqn.params, eqn.bodies):
        if result.is_static and math.prod(map(int, result.shape)) > _MOST_ELEMENTS:
            raise _TooLarge(f"{eqn.op.name} of more than {_MOST_ELEMENTS:,} elements")
