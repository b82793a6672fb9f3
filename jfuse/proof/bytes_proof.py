"""Proofs without XLA: for ops that work on bytes, body and replacement are computed equation by equation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import depends_on_data
from jfuse.lowering.rules import need
from jfuse.proof.inputs import draw
from jfuse.proof.samples import open_shapes

_SAMPLES = 24  # of each set of sizes; they agree bit by bit
_SCALES = (1.0, 0.1, 10.0)
_LARGEST = 1000  # integer


def works_on_bytes(replacement: Graph) -> bool:
    """Whether the replacement holds an op that jax cannot trace although the sizes of its results are known."""
    return any(
        eqn.op.is_kernel and depends_on_data(eqn) and all(out.type.is_static for out in eqn.outputs)
        for eqn in all_eqns(replacement)
    )


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
