"""The runner, and the whole list of passes on an LSTM and on a loop that is none."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jfuse.passes.pipeline
from jfuse.base.errors import JfuseError
from jfuse.ir.check import check_graph
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Eqn, Graph, Program, Signature, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.array.lists import reserve
from jfuse.kernels.control import composite, scan, while_
from jfuse.kernels.core.op import Array
from jfuse.lowering.defaults import default_rules
from jfuse.passes.context import Context
from jfuse.passes.options import CountedStage, Forms
from jfuse.passes.pipeline import PIPELINE, Stage, run_pipeline
from jfuse.passes.promises import NO_COMPOSITES, NO_SCANS, NOTHING_DEAD, ONLY_BUILTINS, RESULTS_APART, Promise
from tests import cells
from tests.cells import BATCH, INPUTS, UNITS, Step, f32
from tests.conftest import Golden
from tests.parsed import parsed

STEPS = 5
COUNTER = TensorType((), DType.i32)


def imported(step: Step, inputs: int = INPUTS, units: int = UNITS) -> Graph:
    """What the importer makes of a Keras 3 layer around a step: x f32[B,5,inputs] -> the last h, f32[B,units]."""
    state, row, sequence = f32(BATCH, units), f32(1, BATCH, units), f32(STEPS, BATCH, inputs)
    carried = [COUNTER, COUNTER, row, state, state, sequence]

    def more(turn: Array, time: Array, *others: Array) -> Array:
        return ops.logical_and(ops.less(turn, np.int32(STEPS)), ops.less(time, np.int32(STEPS)))

    def turn(turn: Array, time: Array, rows: Array, h: Array, c: Array, xs: Array) -> tuple[Array, ...]:
        new_h, new_c, y = step(h, c, ops.gather(xs, time, axis=0))
        return ops.add(turn, np.int32(1)), ops.add(time, np.int32(1)), ops.expand_dims(y, 0), new_h, new_c, xs

    bodies = trace_graph(more, carried, "cond"), trace_graph(turn, carried, "body")

    def layer(x: Array) -> Array:
        batch = ops.strided_slice(ops.shape(x), [0], [1], [1], shrink_axis_mask=1)
        h, c = (ops.fill(ops.pack(batch, np.int32(units)), np.float32(0)) for _ in range(2))
        time_first = ops.transpose(x, [1, 0, 2])
        zero = np.zeros((), np.int32)
        rows = while_([zero, zero, reserve(row.shape, DType.f32), h, c, time_first], bodies)[2]
        return ops.strided_slice(rows, [-1, 0, 0], [0, 0, 0], [1, 1, 1], begin_mask=6, end_mask=6, shrink_axis_mask=1)

    return trace_graph(layer, [f32(BATCH, STEPS, inputs)])


def keras_layer() -> Graph:
    """An LSTM whose weights are large enough to print as digests."""
    inputs, units = 5, 6
    shapes = ((inputs, 4 * units), (units, 4 * units), (4 * units,))
    random = np.random.default_rng(3)
    kernel, recurrent, bias = (random.standard_normal(shape).astype(np.float32) for shape in shapes)

    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.add(ops.add(cells.dense(x, kernel), cells.dense(h, recurrent)), bias)
        new_h, new_c = cells.update(ops.split(1, z, num_splits=4), c)
        return new_h, new_c, new_h

    return imported(step, inputs, units)


def relu_step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """No LSTM: the cell gate is cut off at zero."""
    i, f, g, o = cells.sums(x, h)
    new_h, new_c = cells.update((i, f, ops.relu(g), o), c)
    return new_h, new_c, new_h


def program(*graphs: Graph, assumptions: tuple[str, ...] = ()) -> Program:
    return Program(tuple(Signature(f"s{i}", g, ("x",), ("y",)) for i, g in enumerate(graphs)), assumptions)


def small() -> Graph:
    return trace_graph(lambda x: ops.tanh(ops.neg(x)), [f32(BATCH, 4)])


def context() -> Context:
    return Context(rules=default_rules(), forms=Forms(loop="while"))


def last_h(x: np.ndarray, activation: Callable[[Any], Any]) -> np.ndarray:
    """h of the last step by the equations.   x: f[b,t,i]"""
    h = c = np.zeros((len(x), UNITS))
    for row in x.astype(np.float64).swapaxes(0, 1):
        i, f, g, o = (cells.gate(row @ cells.W + h @ cells.R + cells.B, k) for k in range(4))
        c = c / (1 + np.exp(-f)) + np.tanh(activation(g)) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    return np.asarray(h)


def test_imported_keras_layer(golden: Golden) -> None:
    golden.check(keras_layer())


def test_fused_keras_layer(golden: Golden) -> None:
    golden.check(run_pipeline(program(keras_layer()), context()).graphs()[0])


@pytest.mark.parametrize(
    ("step", "activation", "op", "refused"),
    [
        (cells.keras, lambda g: g, "unidirectional_sequence_lstm", []),
        (relu_step, lambda g: np.maximum(g, 0), "while", ["unexplained_switch"]),
    ],
    ids=["lstm", "loop"],
)
def test_every_pass_keeps_types_and_answers(
    step: Step, activation: Callable[[Any], Any], op: str, refused: list[str]
) -> None:
    ctx = context()
    (graph,) = run_pipeline(program(imported(step)), ctx, check_types=True).graphs()
    assert [e.op.name for e in graph.eqns if e.op.name in ("while", "unidirectional_sequence_lstm")] == [op]
    assert [r.condition for r in ctx.report.refused] == refused
    for batch in (1, 4):
        x = np.random.default_rng(batch).standard_normal((batch, STEPS, INPUTS)).astype(np.float32)
        np.testing.assert_allclose(evaluate(graph, [x])[0], last_h(x, activation), atol=1e-6)  # f32, 5 steps


def forgetful(graph: Graph, ctx: Context) -> Graph:
    """Drops the first equation, whose result is read."""
    return replace(graph, eqns=graph.eqns[1:])


def mistyping(graph: Graph, ctx: Context) -> Graph:
    """Says that the result of the last equation has five columns."""
    *others, last = graph.eqns
    wrong = Var(f32(BATCH, 5))
    return replace(graph, eqns=(*others, replace(last, outputs=(wrong,))), outputs=(wrong,))


def kept(graph: Graph, ctx: Context) -> Graph:
    """Changes nothing."""
    return graph


def test_a_pass_that_breaks_a_graph_is_named_with_those_before_it() -> None:
    with pytest.raises(JfuseError, match=r"pass 'forgetful' broke the graph \(passes before it: kept, kept\)") as error:
        run_pipeline(program(small()), Context(), (kept, kept, forgetful, kept))
    assert error.value.remedy == "fix the pass: it must return a complete graph with equal results"
    with pytest.raises(JfuseError, match=r"'forgetful' broke the graph \(passes before it: none\)"):
        run_pipeline(program(small()), Context(), (forgetful,))


def refusing(graph: Graph, ctx: Context, states: int) -> object:
    return "this one" if ctx.forms.loop == "while" else None


def test_what_a_pass_promises_is_checked_after_it() -> None:
    step = Stage(kept, Promise("nothing is left to do", refusing))
    run_pipeline(program(small()), Context(), (step,))
    with pytest.raises(JfuseError, match=r"the pass 'kept' broke its promise \(passes before it: kept\)") as error:
        run_pipeline(program(small()), Context(forms=Forms(loop="while")), (kept, step))
    assert (error.value.expected, error.value.found) == ("nothing is left to do", "this one")


def composed() -> Graph:
    """A composite, in whose body a scan collects the negatives of rows."""
    rows = f32(3, 4)
    row = trace_graph(ops.neg, [f32(4)], "step")

    def collected(x: Array) -> Array:
        return scan([x], [row], consts=0, carries=0, length=3)[0]

    body = trace_graph(collected, [rows], "body")
    return trace_graph(lambda x: composite([x], [body], name="acme.rows", arguments=("x",))[0], [rows])


@pytest.mark.parametrize(
    ("promise", "holding", "broken", "op"),
    [
        (NO_COMPOSITES, small(), composed(), "composite"),
        (NO_SCANS, small(), composed(), "scan"),
        (ONLY_BUILTINS, small(), composed(), "composite"),
        (NOTHING_DEAD, small(), replace(small(), outputs=small().inputs), "neg"),
        (RESULTS_APART, small(), trace_graph(lambda x: (x, ops.neg(x)), [f32(2)]), "Var"),
    ],
    ids=["composites", "scans", "builtins", "dead", "results"],
)
def test_a_broken_promise_is_found(promise: Promise, holding: Graph, broken: Graph, op: str) -> None:
    assert promise.broken_by(holding, Context(), 0) is None
    found = promise.broken_by(broken, Context(), 0)
    assert (found.op.name if isinstance(found, Eqn) else type(found).__name__) == op


def test_passes_get_other_passes_from_the_pipeline_alone() -> None:
    """Order is in one place: no module of a pass imports a pass."""
    named = {step.__name__ for step in PIPELINE}
    folder = Path(jfuse.passes.pipeline.__file__).parent
    imported = [
        f"{path.relative_to(folder)} imports {alias.name}"
        for path in folder.rglob("*.py")
        if path.name != "pipeline.py"
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in named
    ]
    assert imported == []


def test_wrong_types_are_found_where_types_are_checked() -> None:
    assert run_pipeline(program(small()), Context(), (mistyping,)).graphs()[0].outputs[0].type == f32(BATCH, 5)
    with pytest.raises(JfuseError, match="pass 'mistyping' broke the graph"):
        run_pipeline(program(small()), Context(), (kept, mistyping), check_types=True)


def test_the_text_after_each_pass_is_written_to_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "here"
    result = run_pipeline(program(imported(cells.keras)), context(), dump_dir=folder)
    names = [path.name for path in sorted(folder.iterdir())]
    assert names == [f"{number:02d}_{step.__name__}.txt" for number, step in enumerate(PIPELINE)]
    assert names[5] == "05_while_to_scan.txt"
    assert " = scan[" in (folder / names[5]).read_text()
    assert (folder / names[-1]).read_text() == str(result.graphs()[0])


def test_assumptions_signatures_and_shared_graphs_are_kept() -> None:
    first, second = small(), trace_graph(ops.tanh, [f32(2)])
    given = program(first, second, first, assumptions=("B1 = B",))
    result = run_pipeline(given, Context())
    assert result.assumptions == ("B1 = B",)
    assert [(s.key, s.input_names, s.output_names) for s in result.signatures] == [
        (f"s{i}", ("x",), ("y",)) for i in range(3)
    ]
    assert result.signatures[0].graph is result.signatures[2].graph
    assert len(result.graphs()) == 2


def test_stages_are_told_and_timed_in_order() -> None:
    stages: list[str] = []
    ctx = Context(on_stage=stages.append)
    run_pipeline(program(small(), small()), ctx)
    assert stages == [step.__name__ for step in PIPELINE]
    counts = [(stage.done, stage.total, stage.unit) for stage in stages if isinstance(stage, CountedStage)]
    assert counts == [(i + 1, len(PIPELINE), "passes") for i in range(len(PIPELINE))]
    assert list(ctx.report.seconds) == stages
    assert all(seconds >= 0 for seconds in ctx.report.seconds.values())


def test_results_keep_their_types_and_order() -> None:
    def swapped(x: Array, y: Array) -> tuple[Array, ...]:
        return ops.tanh(y), x, ops.neg(x)

    graph = trace_graph(swapped, [f32(BATCH, 4), f32(2)])
    signature = Signature("s", graph, ("x", "y"), ("a", "b", "c"))
    (result,) = run_pipeline(Program((signature,)), Context()).graphs()
    check_graph(result)
    assert [a.type for a in result.outputs] == [a.type for a in graph.outputs]
