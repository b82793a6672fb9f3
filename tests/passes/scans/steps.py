"""Scans to take apart: a step in ops and the same step in NumPy, and runs of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Eqn, Graph, Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.options import Forms
from jfuse.passes.pipeline import SUB_PASSES
from jfuse.passes.rewrite import rewrite
from jfuse.passes.scans.fission.split_scans import hoisted, split_scans
from jfuse.passes.scans.to_loops.scan_to_loops import scan_to_loops
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.passes.simplify.simplify import simplify
from jfuse.running.interpreter import LiteRt
from jfuse.running.runner import Runner
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes

B, T = symbol("B"), symbol("T")
WIDTH = 6
SIZES: tuple[Mapping[str, int], ...] = ({"T": 4, "B": 3}, {"T": 9, "B": 1}, {"T": 1, "B": 5}, {"T": 4, "B": 3})
RNG = np.random.default_rng(0)
U, V, W = (RNG.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 2 for _ in range(3))
BIAS = RNG.standard_normal(WIDTH).astype(np.float32)


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Loop:
    """A scan over sequences [T, B, WIDTH] from states [B, WIDTH]: its step in ops, and the same in NumPy.

    Both take (*states, *steps of the sequences) and give (*new states, *rows of the stacked results).
    """

    step: Callable[..., Any]
    written: Callable[..., Any]
    states: int = 2
    sequences: int = 1

    def graph(self, length: Any = T, batch: Any = B, *, reverse: bool = False) -> Graph:
        """The scan in a graph of its own."""
        state = f32(batch, WIDTH)
        body = trace_graph(self.step, [state] * (self.states + self.sequences), "step")

        def function(*args: Any) -> Any:
            return ops.scan(list(args), [body], consts=0, carries=self.states, length=length, reverse=reverse)

        return trace_graph(function, [state] * self.states + [f32(length, batch, WIDTH)] * self.sequences)

    def results(self, args: Sequence[np.ndarray], reverse: bool) -> list[np.ndarray]:
        """The results of the scan, by a loop over the step in NumPy."""
        states, stacked = list(args[: self.states]), []
        rows = list(zip(*args[self.states :], strict=True))
        for row in rows[::-1] if reverse else rows:
            found = list(self.written(*states, *row))
            states, rest = found[: self.states], found[self.states :]
            stacked.append(rest)
        columns = [np.stack(column) for column in zip(*stacked, strict=True)]
        return [*states, *(column[::-1] if reverse else column for column in columns)]


def apart(graph: Graph, state: Any = "source") -> Graph:
    """What `split_scans` makes of a graph."""
    return _checked(split_scans(graph, Context(forms=Forms(state=state), sub=SUB_PASSES)))


def hoist(graph: Graph) -> Graph:
    """What `hoisted` makes of the scans of a graph."""
    return _checked(rewrite(graph, hoisted))


def _checked(graph: Graph) -> Graph:
    check_graph(graph)
    slim = eliminate_dead_code(graph)
    check_graph(slim)
    return slim


def scans(graph: Graph) -> list[Eqn]:
    return [eqn for eqn in all_eqns(graph) if eqn.op is ops.scan]


def names(graph: Graph) -> list[str]:
    """The ops of a graph, without those in bodies."""
    return [eqn.op.name for eqn in graph.eqns]


def inside(eqn: Eqn) -> list[str]:
    """The ops of a scan's step."""
    return [e.op.name for e in eqn.bodies[0].eqns]


def arguments(graph: Graph, sizes: Mapping[str, int], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [[sizes.get(str(d), d) for d in var.type.shape] for var in graph.inputs]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def expect(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    for f, w in zip(found, wanted, strict=True):
        # 1e-5: up to nine steps of sums of a dozen f32 terms
        np.testing.assert_allclose(np.asarray(f), w, rtol=1e-5, atol=1e-5)


def check(loop: Loop, graph: Graph, *, reverse: bool = False, litert: bool = True) -> None:
    """A graph made of the loop's answers like the loop in NumPy: on XLA, and in LiteRT invoke after invoke."""
    runtime = LiteRt(file_of(graph)) if litert else None
    on_xla = Runner(graph, quick=True)
    for seed, sizes in enumerate(SIZES):
        args = arguments(graph, sizes, seed)
        wanted = loop.results(args, reverse)
        expect(on_xla(args), wanted)
        if runtime is not None:
            results = runtime.run("main", {f"x{i}": a for i, a in enumerate(args)})
            expect([results[f"y{i}"] for i in range(len(wanted))], wanted)


def file_of(graph: Graph) -> bytes:
    ready = prepare_outputs(simplify(scan_to_loops(graph, Context(sub=SUB_PASSES)), Context(sub=SUB_PASSES)))
    names = tuple(f"x{i}" for i in range(len(graph.inputs))), tuple(f"y{i}" for i in range(len(graph.outputs)))
    return to_bytes(Program((Signature("main", ready, *names),)))
