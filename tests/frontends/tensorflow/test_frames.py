"""Frames, Switch and Merge of TensorFlow 1: what they mean, as While and If, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import ImportFailed, LowerError
from jfuse.base.measure import relative_error
from jfuse.frontends.tensorflow.functional import functional_library, functional_nodes
from jfuse.ir.graph import Graph
from jfuse.ir.walk import all_eqns
from jfuse.tf_nodes.messages import as_own
from tests.frontends.against_tensorflow import TOLERANCE, spec
from tests.models import tf1

v1 = tf.compat.v1


def load(build: Callable[..., Any], *specs: Any) -> tuple[tf1.Graph, jfuse.Model]:
    source = tf1.frozen(build, *specs)
    assert source.ops() & {"Switch", "Enter"}
    return source, jfuse.load(source.graph_def, jfuse.Inputs(**source.names()))


def check(source: tf1.Graph, model: jfuse.Model, *shape: int, count: int = 6) -> None:
    """The model answers like a session, for inputs that take every branch."""
    answers = []
    for seed in range(count):
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        wanted, found = source.run(x), model(x)
        found = list(found.values()) if isinstance(found, dict) else [found]
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            assert relative_error(np.asarray(ours), theirs) <= TOLERANCE
        answers.append(wanted[0])
    assert any(relative_error(a, answers[0]) > 1e-3 for a in answers[1:])


def names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in all_eqns(graph)]


def loop(x: Any, steps: int = 3) -> Any:
    return v1.while_loop(lambda i, _: i < steps, lambda i, v: (i + 1, v * 1.5 + tf.cast(i, tf.float32)), (0, x))[1]


def nested_loops(x: Any) -> Any:
    def inner(i: Any, v: Any) -> Any:
        return v1.while_loop(lambda j, _: j < i + 1, lambda j, w: (j + 1, w * 1.5 + x), (0, v))[1]

    return v1.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, inner(i, v) - 1.0), (0, x))[1]


def branch(x: Any) -> Any:
    return v1.cond(x[0] > 0.0, lambda: x * 2.0, lambda: x - 1.0)


def constants_in_branches(x: Any) -> Any:
    """The two sides know each other by control edges alone."""
    a, b = v1.cond(x[0] > 0.0, lambda: (tf.constant(1.0), x), lambda: (tf.constant(2.0), x * 3.0))
    return a + b


def nested_branches(x: Any) -> Any:
    inner = lambda: v1.cond(x[1] > 0.0, lambda: x * 2.0, lambda: x + 1.0)  # noqa: E731
    return v1.cond(x[0] > 0.0, inner, lambda: x - 1.0)


def branches_on_one_predicate(x: Any) -> Any:
    """Each needs the one before: they must not become one If, and the results of the second must."""
    p = x[0] > 0.0
    y = v1.cond(p, lambda: x * 2.0, lambda: x - 1.0)
    z, w = v1.cond(p, lambda: (y * 3.0, x), lambda: (y + x, y))
    return z + v1.cond(p, lambda: w * 5.0, lambda: z - w)


def branch_in_loop(x: Any) -> Any:
    def body(i: Any, v: Any) -> Any:
        return i + 1, v1.cond(tf.reduce_sum(v) > 1.0, lambda: v * 0.5, lambda: v + tf.cast(i, tf.float32) + 0.3)

    return v1.while_loop(lambda i, _: i < 5, body, (0, x))[1]


def loop_in_branch(x: Any) -> Any:
    return v1.cond(x[0] > 0.0, lambda: loop(x), lambda: x - 1.0)


def loop_with_several_exits_in_a_branch(x: Any) -> Any:
    def several() -> Any:
        _, v, w = v1.while_loop(lambda i, *_: i < 3, lambda i, v, w: (i + 1, v * 1.5, w + v), (0, x, x))
        return v, w, v1.cond(w[1] > 0.0, lambda: v, lambda: w)

    a, b, c = v1.cond(x[0] > 0.0, several, lambda: (x - 1.0, x, x + 1.0))
    return a + b * c, b


def several_exits(x: Any) -> Any:
    body = lambda i, a, b, c: (i + 1, b, a + 1.0, c)  # noqa: E731
    i, a, b, c = v1.while_loop(lambda i, *_: i < 4, body, (0, x, x * 2.0, x * 3.0))
    return tf.cast(i, tf.float32) + a, b, c


def branch_by_cases(x: Any) -> Any:
    return v1.case([(x[0] > 1.0, lambda: x * 2.0), (x[1] > 0.0, lambda: x * 3.0)], default=lambda: x - 7.0)


def passed_through(x: Any) -> Any:
    return v1.cond(x[0] > 0.0, lambda: (x, x * 2.0), lambda: (x * 3.0, x))


def until_large(x: Any) -> Any:
    return v1.while_loop(lambda v: tf.reduce_sum(v) < 100.0, lambda v: (v * v + 1.5,), (x,))


CONTROL: dict[str, tuple[Callable[[Any], Any], dict[str, int]]] = {
    "loop": (loop, {"while": 1}),
    "nested_loops": (nested_loops, {"while": 2}),
    "branch": (branch, {"if": 1}),
    "constants_in_branches": (constants_in_branches, {"if": 1}),
    "nested_branches": (nested_branches, {"if": 2}),
    "branches_on_one_predicate": (branches_on_one_predicate, {"if": 3}),
    "branch_in_loop": (branch_in_loop, {"while": 1, "if": 1}),
    "loop_in_branch": (loop_in_branch, {"while": 1, "if": 1}),
    "loop_with_several_exits_in_a_branch": (loop_with_several_exits_in_a_branch, {"while": 1, "if": 2}),
    "several_exits": (several_exits, {"while": 1}),
    "branch_by_cases": (branch_by_cases, {"if": 2}),
    "passed_through": (passed_through, {"if": 1}),
    "until_large": (until_large, {"while": 1}),
}


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name: str) -> None:
    build, counts = CONTROL[name]
    source, model = load(build, spec(3))
    found = names(model.signature().graph)
    assert {op: found.count(op) for op in ("while", "if") if op in found} == counts
    check(source, model, 3)


def rows(x: Any, *, conditional: bool = False, shape: Any = None) -> Any:
    """A recurrence over x[b,5,3] with TensorArrays."""
    steps = tf.shape(x)[1]
    xs = tf.TensorArray(tf.float32, size=steps, clear_after_read=False).unstack(tf.transpose(x, [1, 0, 2]))
    out = tf.TensorArray(tf.float32, size=steps, element_shape=shape, clear_after_read=False)

    def body(t: Any, h: Any, o: Any) -> Any:
        h = tf.tanh(xs.read(t) + h * 0.5)
        if conditional:
            return t + 1, h, v1.cond(h[0, 0] > 0.0, lambda: o.write(t, h), lambda: o.write(t, h * 0.0))
        return t + 1, h, o.write(t, h)

    _, h, o = v1.while_loop(lambda t, *_: t < xs.size(), body, (0, tf.zeros_like(x[:, 0]), out))
    return tf.transpose(o.stack(), [1, 0, 2]), h, o.gather([2, 0])


@pytest.mark.parametrize("batch", [2, None])
@pytest.mark.parametrize("options", [{}, {"conditional": True}, {"shape": (2, 3)}], ids=str)
def test_tensor_arrays(options: dict[str, Any], batch: int | None) -> None:
    source, model = load(lambda x: rows(x, **options), spec(batch, 5, 3))
    assert "TensorArrayV3" in source.ops()
    check(source, model, 2, 5, 3)


def test_a_list_that_only_an_inner_loop_writes() -> None:
    def build(x: Any) -> Any:
        out = tf.TensorArray(tf.float32, size=6)

        def outer(i: Any, o: Any) -> Any:
            inner = v1.while_loop(
                lambda j, _: j < 2, lambda j, o: (j + 1, o.write(2 * i + j, x * tf.cast(j, tf.float32))), (0, o)
            )
            return i + 1, inner[1]

        return v1.while_loop(lambda i, _: i < 3, outer, (0, out))[1].stack()

    check(*load(build, spec(3)), 3)


def test_a_predicate_that_is_known_takes_one_branch() -> None:
    def build(x: Any) -> Any:
        return v1.cond(tf.constant(True), lambda: x * 2.0, lambda: x - 1.0)

    source, model = load(build, spec(3))
    assert names(model.signature().graph) == ["mul"]
    check(source, model, 3)


def test_random_numbers_of_each_turn_are_drawn_in_the_loop() -> None:
    """A node without operands belongs to the loop that its control edge names."""

    def build(x: Any) -> Any:
        return v1.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v + v1.random_uniform([3])), (0, x))[1]

    source = tf1.frozen(build, spec(3))
    model = jfuse.load(source.graph_def, jfuse.Inputs(**source.names()))
    (eqn,) = [e for e in model.signature().graph.eqns if e.op.name == "while"]
    assert "random_uniform" in [e.op.name for e in eqn.bodies[1].eqns]


def test_dead_assertions_are_noted() -> None:
    def build(x: Any) -> Any:
        with tf.control_dependencies([v1.assert_positive(tf.abs(x) + 1.0)]):
            return loop(x * 2.0)

    source, model = load(build, spec(3))
    assert any("assertion" in note for note in model.report.notes)
    check(source, model, 3)


def test_a_variable_of_a_saved_model_enters_a_loop(tmp_path: Any) -> None:
    def build(x: Any) -> Any:
        kernel = v1.get_variable("kernel", [3, 3], use_resource=True)
        return v1.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, tf.tanh(v @ kernel)), (0, x[0]))[1]

    folder = tf1.Recurrent(build, batch=2, steps=5).save(tmp_path / "model")
    lite = jfuse.convert(folder)
    assert all(d.error <= d.tolerance for d in lite.report.differences)


def test_a_function_with_frames() -> None:
    """Functions that TensorFlow 1 defined keep frames in their bodies."""
    from tensorflow.python.framework import function as legacy

    with tf1.control_flow_v1():

        @legacy.Defun(tf.float32)
        def called(x: Any) -> Any:
            return branch_in_loop(x)

        def build(x: Any) -> Any:
            y = called(x)
            y.set_shape([3])
            return y

        source = tf1.frozen(build, spec(3))
    assert "Enter" not in source.ops()
    check(source, jfuse.load(source.graph_def, jfuse.Inputs(**source.names())), 3)


def chain(x: Any, length: int) -> Any:
    for i in range(length):
        x = v1.cond(x[i % 3] > 0.0, lambda x=x: x * 0.9, lambda x=x: x + 0.1)
    return x


def test_many_branches_in_a_row() -> None:
    """Deeper than Python's stack."""
    source, model = load(lambda x: chain(x, 100), spec(3))
    assert names(model.signature().graph).count("if") == 100
    check(source, model, 3, count=2)


def edited(build: Callable[..., Any], edit: Callable[[dict[str, Any]], None]) -> tf1.Graph:
    """The graph of a function of x f32[3] with some of its nodes changed."""
    source = tf1.frozen(build, spec(3))
    edit({node.name: node for node in source.graph_def.node})
    return source


def imported(source: tf1.Graph) -> Any:
    """The nodes as the importer takes them, without TensorFlow's own look at the graph."""
    graph_def = as_own(source.graph_def)
    library = functional_library(graph_def)
    return functional_nodes(graph_def.node, list(source.outputs), library)


def test_a_value_of_a_branch_is_no_result() -> None:
    source = tf1.frozen(branch, spec(3))
    (inside,) = (node.name for node in source.graph_def.node if node.op == "Mul")
    with pytest.raises(ImportFailed, match=r"read outside of it at cond/mul\n.*make the result of tf\.cond"):
        jfuse.load(source.graph_def, jfuse.Inputs(input_tensors=source.inputs, output_tensors=[inside]))


def test_a_value_of_a_turn_is_no_result() -> None:
    source = tf1.frozen(loop, spec(3))
    with pytest.raises(ImportFailed, match="read outside of it at while/mul"):
        imported(replace(source, outputs=("while/mul",)))


def no_condition(nodes: dict[str, Any]) -> None:
    nodes["while/LoopCond"].op = "Identity"


def no_next_value(nodes: dict[str, Any]) -> None:
    nodes["while/Merge_1"].input[1] = "while/Merge_1_start"


def no_start(nodes: dict[str, Any]) -> None:
    nodes["while/Merge_1"].input[0] = "while/NextIteration"


def first_turn_only(nodes: dict[str, Any]) -> None:
    nodes["while/mul"].input[1] = "while/Enter"


def exit_of_nothing(nodes: dict[str, Any]) -> None:
    nodes["while/Exit_1"].input[0] = "x0"


def circle(nodes: dict[str, Any]) -> None:
    nodes["while/mul"].input[1] = "while/add_1"


def no_sides(nodes: dict[str, Any]) -> None:
    nodes["cond/Merge"].input[0] = nodes["cond/Merge"].input[1] = "x0"


def three_sides(nodes: dict[str, Any]) -> None:
    nodes["cond/Merge"].input.append("x0")


@pytest.mark.parametrize(
    ("build", "edit", "message"),
    [
        (loop, no_next_value, "a loop variable has no start or no next value at while/Merge_1"),
        (loop, no_start, "a loop variable has no start or no next value at while/Merge_1"),
        (loop, first_turn_only, "a value enters a loop for its first turn only at while/Enter"),
        (loop, exit_of_nothing, "an Exit node stands outside of any loop at while/Exit_1"),
        (loop, circle, "a value depends on itself without a loop at while/"),
        (loop, no_condition, "read outside of it|has no condition"),
        (branch, no_sides, "a value depends on branches that cannot be distinguished at cond/Merge"),
        (branch, three_sides, "a value depends on branches that cannot be distinguished at cond/Merge"),
    ],
)
def test_graphs_that_no_library_wrote(build: Callable[..., Any], edit: Callable[[Any], None], message: str) -> None:
    with pytest.raises(ImportFailed, match=message):
        imported(edited(build, edit))


def test_a_variable_that_a_loop_writes() -> None:
    def build(x: Any) -> Any:
        state = v1.get_variable("state", [3], use_resource=True)

        def body(i: Any, v: Any) -> Any:
            with tf.control_dependencies([state.assign(v)]):
                return i + 1, v + 1.0

        return v1.while_loop(lambda i, _: i < 3, body, (0, x))[1] + state

    with tf1.control_flow_v1(), tf.Graph().as_default() as graph:
        y = build(v1.placeholder(tf.float32, [3], name="x0"))
        source = tf1.Graph(graph.as_graph_def(), ("x0",), (y.op.name,))
    with pytest.raises(LowerError, match="a variable is written inside of a loop or branch"):
        imported(source)
