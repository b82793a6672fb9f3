"""Proofs without XLA: body and replacement are computed equation by equation.

For ops that work on bytes, and for results whose size depends on data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import jax
import numpy as np

from jfuse.errors import JfuseError, NotFused
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, with_float
from jfuse.kernels.core.op import depends_on_data
from jfuse.lowering.rules import need
from jfuse.proof.inputs import draw
from jfuse.proof.samples import Case, Sampler, open_shapes

_SAMPLES = 24  # of each set of sizes; they agree bit by bit
_SCALES = (1.0, 0.1, 10.0)
_LARGEST = 1000  # integer


def works_on_bytes(replacement: Graph) -> bool:
    """Whether the replacement holds an op that jax cannot trace although the sizes of its results are known."""
    return any(
        eqn.op.is_kernel and depends_on_data(eqn) and all(out.type.is_static for out in eqn.outputs)
        for eqn in all_eqns(replacement)
    )


def counts_data(*graphs: Graph) -> bool:
    """Whether results as long as data decide (WHERE, UNIQUE) are all that keeps XLA from running the graphs.

    They are no longer than what they are counted from; a size that is a value of its own, as that of RANGE, may be any.
    """
    eqns = [eqn for graph in graphs for eqn in all_eqns(graph) if not eqn.bodies]
    atoms = [a for eqn in eqns for a in (*eqn.inputs, *eqn.outputs) if a is not None]
    runs = all(e.op.is_kernel and not (e.op.traceable and depends_on_data(e)) for e in eqns)
    return runs and any(map(depends_on_data, eqns)) and all(a.type.dtype is not DType.string for a in atoms)


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
            wanted, found = evaluate(body, args), evaluate(replacement, args)
            same = all(np.array_equal(np.asarray(f), np.asarray(w)) for f, w in zip(found, wanted, strict=True))
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

    error_of: of results with a sample in front, what they differ by; of other sizes it is infinite.
    """
    both = [with_float(graph, DType.f64) for graph in (body, replacement)]
    count, worst = 0, 0.0
    for shapes in open_shapes([v.type for v in body.inputs]):
        case = Case.of(shapes, _SAMPLES)
        for args in zip(*sampler.draw(case, seed), strict=True):
            wanted, found = (_computed(graph, args) for graph in both)
            for number, (w, f) in enumerate(zip(wanted, found, strict=True)):
                error = error_of(f[None], w[None])
                sizes = ", ".join("x".join(map(str, s)) or "scalar" for s in shapes)
                got = f"an error of {error:.1e} in result {number}, operands of {sizes}"
                need(error <= tolerance, "not_equal", want="what the body computes", got=got)
                worst = max(worst, error)
            count += 1
    return count, worst


def _computed(graph: Graph, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    try:
        with jax.enable_x64(True):
            return [np.asarray(r) for r in evaluate(graph, args)]
    except (JfuseError, TypeError, ValueError, IndexError) as error:
        raise NotFused("body_not_executable", got=str(error).split("\n")[0]) from error
