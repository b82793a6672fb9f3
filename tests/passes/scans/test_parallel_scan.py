"""Linear recurrences without a loop: against the loop in NumPy in float64, on XLA and in LiteRT, proven where short."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

import numpy as np
import pytest

from bench.forms import RESULTS
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.pipeline import SUB_PASSES
from jfuse.passes.rewrite import rewrite
from jfuse.passes.scans.fission.split_scans import hoisted
from jfuse.passes.scans.to_loops.linear_step import linear_loop
from jfuse.passes.scans.to_loops.loop_cost import ROOMS, LoopSize, LoopSpelling, Room, fastest, smallest
from jfuse.passes.scans.to_loops.loop_forms import Loop
from jfuse.passes.scans.to_loops.parallel_scan import written_in_parallel
from jfuse.passes.scans.to_loops.scan_to_loops import scan_to_loops
from jfuse.passes.simplify.simplify import simplify
from jfuse.proof.symbolic.prover import prove_symbolically
from jfuse.quantization.recipe import Recipe
from jfuse.running.interpreter import LiteRt
from jfuse.running.runner import Runner
from tests.passes.scans.steps import file_of

B, T = symbol("B"), symbol("T")
WIDTH = 5
DECAY = np.linspace(-0.9, 0.99, WIDTH, dtype=np.float32)
TINY = np.full(WIDTH, 1e-9, np.float32)
TURN = np.linspace(0.1, 3, WIDTH, dtype=np.float32)
COS, SIN = (np.float32(0.95) * f(TURN) for f in (np.cos, np.sin))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


@dataclass(frozen=True)
class Linear:
    """A step of states f32[B, WIDTH] on (x, g) of that type, in ops and in NumPy: (*states, x, g) -> (*new, *rows)."""

    step: Callable[..., Any]
    written: Callable[..., Any]
    states: int = 1

    def graph(self, length: Any, batch: Any = 2, *, reverse: bool = False) -> Graph:
        """The scan over x, g from states that are inputs."""
        state = TensorType((batch, WIDTH), DType.f32)
        body = trace_graph(self.step, [state] * (self.states + 2), "step")

        def function(*args: Any) -> Any:
            return ops.scan(list(args), [body], consts=0, carries=self.states, length=length, reverse=reverse)

        sequence = TensorType((length, batch, WIDTH), DType.f32)
        return trace_graph(function, [state] * self.states + [sequence] * 2)

    def results(self, args: Sequence[np.ndarray], *, reverse: bool) -> list[np.ndarray]:
        """The results by a loop in float64."""
        states: Any = [a.astype(np.float64) for a in args[: self.states]]
        rows, order = {}, range(len(args[-1]))
        for i in order[::-1] if reverse else order:
            states, rows[i] = np.split(np.array(self.written(*states, args[-2][i], args[-1][i])), [self.states])
        return [*states, *np.stack([rows[i] for i in order], axis=1)]


def masked(h: Any, x: Any, g: Any) -> Any:
    new = ops.select_v2(ops.greater(g, np.float32(0)), ops.add(ops.mul(h, DECAY), x), h)
    return new, new


def turned(r: Any, i: Any, x: Any, g: Any) -> Any:
    new = ops.add(ops.sub(ops.mul(r, COS), ops.mul(i, SIN)), x), ops.add(ops.add(ops.mul(r, SIN), ops.mul(COS, i)), g)
    return (*new, new[0])


def blended(h: Any, x: Any, g: Any) -> Any:
    new = ops.add(h, ops.mul(ops.logistic(g), ops.sub(x, h)))
    return new, new


def scaled(h: Any, x: Any, g: Any) -> Any:
    """Collects the state before the step, and what is between."""
    part = ops.mul(ops.neg(h), ops.tanh(g))
    return ops.sub(part, x), part, h


def shaped(h: Any, x: Any, g: Any) -> Any:
    wide = ops.mul(ops.reshape(h, np.array([2, 1, WIDTH], np.int32)), np.float32(0.5))
    new = ops.add(ops.reshape(wide, np.array([2, WIDTH], np.int32)), x)
    return new, new


def filtered(a: Any, b: Any, x: Any, g: Any) -> Any:
    y = ops.add(ops.mul(x, np.float32(0.2)), a)
    return ops.sub(ops.mul(y, np.float32(1.2)), b), ops.mul(y, np.float32(0.5)), y


LOOPS = {
    "decay": Linear(lambda h, x, g: (ops.add(ops.mul(h, DECAY), x),) * 2, lambda h, x, g: (DECAY * h + x,) * 2),
    "blend": Linear(blended, lambda h, x, g: (h + sigmoid(g) * (x - h),) * 2),
    "resets": Linear(
        lambda h, x, g: (ops.add(ops.mul(h, ops.minimum(ops.relu(g), np.float32(1))), x),) * 2,
        lambda h, x, g: (h * np.clip(g, 0, 1) + x,) * 2,
    ),
    "tiny products": Linear(lambda h, x, g: (ops.add(ops.mul(h, TINY), x),) * 2, lambda h, x, g: (TINY * h + x,) * 2),
    "collected before": Linear(scaled, lambda h, x, g: (-h * np.tanh(g) - x, -h * np.tanh(g), h)),
    "masked": Linear(masked, lambda h, x, g: (np.where(g > 0, DECAY * h + x, h),) * 2),
    "complex": Linear(
        turned, lambda r, i, x, g: (COS * r - SIN * i + x, SIN * r + COS * i + g, COS * r - SIN * i + x), states=2
    ),
    "filter": Linear(
        filtered, lambda a, b, x, g: (1.2 * (0.2 * x + a) - b, 0.5 * (0.2 * x + a), 0.2 * x + a), states=2
    ),
    "reshaped": Linear(shaped, lambda h, x, g: (0.5 * h + x,) * 2),
    "sums": Linear(lambda h, x, g: (ops.sub(h, x),) * 2, lambda h, x, g: (h - x,) * 2),
}
LOG2, LOG3, SUMS = LoopSpelling(radix=2), LoopSpelling(radix=3), LoopSpelling(sums=True)


def parallel(graph: Graph, form: LoopSpelling) -> Graph:
    """The graph with its loop in the form."""

    def visit(eqn: Eqn) -> Any:
        if eqn.op is not ops.scan:
            return None
        loop = Loop.of(eqn)
        linear = linear_loop(loop)
        assert linear is not None
        return written_in_parallel(loop, linear, form)

    flat = simplify(rewrite(rewrite(graph, hoisted), visit), Context())
    check_graph(flat)
    assert not any(eqn.op is ops.scan for eqn in flat.eqns)
    return flat


def sizes_of(graph: Graph, ctx: Context | None = None) -> LoopSize:
    """The size of the graph's only loop."""
    sizes: list[LoopSize] = []

    def choose(size: LoopSize, room: Room) -> LoopSpelling:
        sizes.append(size)
        return LoopSpelling()

    scan_to_loops(graph, ctx or Context(sub=SUB_PASSES), choose)
    (size,) = sizes
    return size


def arguments(loop: Linear, length: int, batch: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(length)
    shapes = [(batch, WIDTH)] * loop.states + [(length, batch, WIDTH)] * 2
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def expect(found: Sequence[Any], wanted: Sequence[np.ndarray]) -> None:
    for f, w in zip(found, wanted, strict=True):
        # 2e-6 of the largest: sums of up to 37 terms in f32, in another order
        np.testing.assert_allclose(np.asarray(f), w, atol=2e-6 * max(1, np.abs(w).max()))


every_loop = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)


@every_loop
@pytest.mark.parametrize(
    ("length", "form", "reverse"), [(4, LOG2, False), (11, LOG2, True), (37, LOG3, False), (18, LOG3, True)]
)
def test_levels_of_blocks_answer_like_the_loop(loop: Linear, length: int, form: LoopSpelling, reverse: bool) -> None:
    args = arguments(loop, length)
    flat = parallel(loop.graph(length, reverse=reverse), form)
    expect(Runner(flat, quick=True)(args), loop.results(args, reverse=reverse))


@pytest.mark.parametrize("name", ["blend", "masked", "complex", "collected before"])
@pytest.mark.parametrize("batch", [2, B], ids=["fixed", "open"])
def test_levels_in_litert(name: str, batch: Any) -> None:
    loop = LOOPS[name]
    runtime = LiteRt(file_of(parallel(loop.graph(23, batch), LOG3)))
    for rows in (2,) if batch == 2 else (3, 1, 30):
        args = arguments(loop, 23, rows)
        results = runtime.run("main", {f"x{i}": a for i, a in enumerate(args)})
        expect([results[f"y{i}"] for i in range(len(results))], loop.results(args, reverse=False))


@pytest.mark.parametrize("reverse", [False, True])
def test_sums_of_any_length(reverse: bool) -> None:
    flat = parallel(LOOPS["sums"].graph(T, B, reverse=reverse), SUMS)
    assert [eqn.op for eqn in flat.eqns if eqn.op is ops.cumsum]
    runtime = LiteRt(file_of(flat))
    for length, rows in ((1, 3), (40, 1), (7, 9)):
        args = arguments(LOOPS["sums"], length, rows)
        results = runtime.run("main", {f"x{i}": a for i, a in enumerate(args)})
        expect([results[f"y{i}"] for i in range(len(results))], LOOPS["sums"].results(args, reverse=reverse))


@pytest.mark.parametrize("name", ["decay", "resets", "complex"])
@pytest.mark.parametrize(("length", "reverse"), [(4, False), (5, True)])
def test_short_ones_are_proven(name: str, length: int, reverse: bool) -> None:
    """Longer ones have more levels of the same identity; the prover has no induction over levels."""
    graph = LOOPS[name].graph(length, reverse=reverse)
    verdict = prove_symbolically(graph, parallel(graph, LOG2), rounded=True)
    assert verdict.is_proven, verdict.stopped


@pytest.mark.parametrize("name", ["decay", "resets", "complex"])
def test_another_order_or_factor_is_not_proven(name: str) -> None:
    graph = LOOPS[name].graph(4)
    other = LOOPS["tiny products" if name == "decay" else name].graph(4, reverse=name != "decay")
    assert not prove_symbolically(graph, parallel(other, LOG2), rounded=True).is_proven


def factor(function: Callable[[Any], Any]) -> Linear:
    """h' = f(g) h + x, whose factor is computed from the step input g."""
    return Linear(lambda h, x, g: (ops.add(ops.mul(function(g), h), x),) * 2, lambda h, x, g: (h, h))


ONE, HALF = np.float32(1), np.float32(0.5)
BOUNDED: dict[str, Callable[[Any], Any]] = {
    "sigmoid": ops.logistic,
    "one minus sigmoid": lambda g: ops.sub(ONE, ops.logistic(g)),
    "exp of a negative softplus": lambda g: ops.exp(ops.mul(ops.log(ops.add(ONE, ops.exp(g))), np.float32(-0.3))),
    "above a floor": lambda g: ops.add(HALF, ops.mul(HALF, ops.logistic(g))),
    "sine": lambda g: ops.sin(g),
    "clip": lambda g: ops.maximum(ops.minimum(g, ONE), -ONE),
    "a number": lambda g: np.full(WIDTH, 1.05, np.float32),  # to the 64th power 23
}
UNBOUNDED: dict[str, Callable[[Any], Any]] = {
    "the input": lambda g: g,
    "exp": ops.exp,
    "twice a sigmoid": lambda g: ops.mul(ops.logistic(g), np.float32(2)),
    "a quotient": lambda g: ops.div(ops.logistic(g), g),
    "a number": lambda g: np.full(WIDTH, 2, np.float32),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_factors_may_be_multiplied(name: str) -> None:
    assert "log16" in sizes_of(factor(BOUNDED[name]).graph(64)).parallel


@pytest.mark.parametrize("name", UNBOUNDED)
def test_products_that_may_be_infinite_keep_the_loop(name: str) -> None:
    """Infinity times a state of 0 would be NaN, where the loop has 0."""
    assert not sizes_of(factor(UNBOUNDED[name]).graph(64)).parallel


OTHERS = {
    "tanh": lambda h, x, g: (ops.tanh(ops.add(h, x)),) * 2,
    "square": lambda h, x, g: (ops.add(ops.mul(h, h), x),) * 2,
    "maximum": lambda h, x, g: (ops.maximum(h, x),) * 2,
    "matrix": lambda h, x, g: (ops.add(ops.fully_connected(h, np.eye(WIDTH, dtype=np.float32), None), x),) * 2,
    "gate on the state": lambda h, x, g: (ops.add(ops.mul(ops.logistic(h), h), x),) * 2,
    "relu in the sum": lambda h, x, g: (ops.add(ops.mul(h, DECAY), x, fused_activation_function="RELU"),) * 2,
    "chosen by the state": lambda h, x, g: (ops.select_v2(ops.greater(h, ONE), h, x),) * 2,
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_recurrences_keep_their_loop(name: str) -> None:
    assert not sizes_of(Linear(OTHERS[name], lambda *_: ()).graph(64)).parallel


@pytest.mark.parametrize("length", [T, 31])
def test_an_open_or_short_length_has_no_levels(length: Any) -> None:
    assert not sizes_of(LOOPS["decay"].graph(length)).parallel


@pytest.mark.parametrize("recipe", ["int8", "int16x8", "dynamic"])
def test_integers_keep_the_loop(recipe: str) -> None:
    ctx = Context(sub=SUB_PASSES, recipe=Recipe.named(recipe))
    assert bool(sizes_of(LOOPS["blend"].graph(64), ctx).parallel) == (recipe == "dynamic")


def test_the_smallest_form_of_a_sum_is_one_operator() -> None:
    assert smallest(sizes_of(LOOPS["sums"].graph(64)), ROOMS["size"]) == SUMS


def measured() -> list[tuple[LoopSize, dict[str, float]]]:
    """Recurrences that `python -m bench.loops bench/results/loops_linear.json --rows linear` measured."""
    rows = json.loads((RESULTS / "loops_linear.json").read_text(encoding="utf-8"))["rows"]
    return [(LoopSize(**row["size"]), row["forms_us"]) for row in rows]


def test_the_choice_is_near_the_fastest_form_that_was_measured() -> None:
    room = ROOMS["speed"]
    ratios = [us[fastest(size, room).short] / min(us.values()) for size, us in measured()]
    assert len(ratios) >= 24
    assert geometric_mean(ratios) <= 1.05
    assert max(ratios) <= 1.25
