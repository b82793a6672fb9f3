"""Runs a graph as a file in LiteRT, on its own kernels and with delegates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfuse.ir.graph import Graph, Program, Signature
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.file import to_bytes


def in_litert(graph: Graph, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a graph's file, the same in two invokes, with and without delegates."""
    names = tuple(f"x{i}" for i in range(len(graph.inputs))), tuple(f"y{i}" for i in range(len(graph.outputs)))
    data = to_bytes(Program((Signature("main", graph, *names),)))
    inputs = dict(zip(names[0], args, strict=True))
    runs = []
    for delegates in (True, False):
        lite = LiteRt(data, delegates=delegates)
        runs += [lite.run("main", inputs) for _ in range(2)]
    for run in runs[1:]:
        assert all(np.array_equal(run[name], runs[0][name]) for name in names[1])
    return [runs[0][name] for name in names[1]]
