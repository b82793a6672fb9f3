"""No copy of XNNPACK in a loop's body has one end of LiteRT's, and files answer rightly where their batch grows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import VerifyFailed
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_graphs
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.passes.context import Context
from jfuse.passes.legalize.copies_in_bodies import copies_in_bodies
from jfuse.passes.simplify.simplify import simplify
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.runtime.rows import xnnpack
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.write.file import to_bytes

B = symbol("B")
CUBE = TensorType((B, 4, 4), DType.f32)
SQUARE = np.arange(16, dtype=np.float32).reshape(4, 4) / 10
FLAT, WHOLE = np.array([-1, 16], np.int32), np.array([-1, 4, 4], np.int32)


def in_litert(x: Any) -> Any:
    """Rows in another order, by an operator that XNNPACK does not take."""
    return ops.gather(x, np.arange(x.type.shape[1], dtype=np.int32)[::-1], axis=1)


def joined(x: Any) -> Any:
    halves = [
        op(ops.fully_connected(x, w, keep_num_dims=True)) for op, w in ((ops.tanh, SQUARE[:2]), (ops.sin, SQUARE[2:]))
    ]
    return in_litert(ops.concatenation(*halves, axis=2))


def parted(x: Any) -> Any:
    first, second = ops.split(np.int32(1), in_litert(x), num_splits=2)
    return ops.concatenation(ops.tanh(first), ops.cos(second), axis=1)


STEPS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "reshape": (
        lambda x: ops.tanh(ops.reshape(ops.tanh(ops.reshape(in_litert(x), FLAT)), WHOLE)),
        ["gather", "reshape", "reshape", "tanh", "reshape", "tanh"],
    ),
    "concatenation": (
        joined,
        [
            "fully_connected",
            "tanh",
            "fully_connected",
            "sin",
            "bitcast",
            "bitcast",
            "concatenation",
            "bitcast",
            "gather",
        ],
    ),
    "split": (
        parted,
        ["gather", "strided_slice", "strided_slice", "tanh", "cos", "bitcast", "bitcast", "concatenation", "bitcast"],
    ),
    "product": (
        lambda x: ops.reshape(ops.tanh(ops.fully_connected(in_litert(x), SQUARE)), WHOLE),
        ["gather", "reshape", "reshape", "fully_connected", "tanh", "reshape", "reshape"],
    ),
    "of one part": (
        lambda x: ops.neg(ops.reshape(ops.tanh(ops.reshape(ops.tanh(x), FLAT)), WHOLE)),
        ["tanh", "reshape", "tanh", "reshape", "neg"],
    ),
    "between operators of LiteRT": (
        lambda x: ops.reshape(in_litert(ops.reshape(in_litert(x), FLAT)), WHOLE),
        ["gather", "reshape", "gather", "reshape"],
    ),
}


def loop(step: Callable[[Any], Any], of: TensorType = CUBE, width: int = 16) -> Graph:
    """Two turns, and a larger product behind them, for which XNNPACK's memory grows once more."""
    number = TensorType((), DType.i32)
    body = trace_graph(lambda i, x: (ops.add(i, np.int32(1)), step(x)), [number, of], "body")
    cond = trace_graph(lambda i, _: ops.less(i, np.int32(2)), [number, of], "cond")

    def call(x: Any) -> Any:
        (_, last) = while_([np.int32(0), x], [cond, body])
        return ops.tanh(ops.fully_connected(ops.reshape(last, FLAT), np.full((width, 16), 0.1, np.float32)))

    return trace_graph(call, [of])


def body_of(graph: Graph) -> list[str]:
    (body,) = (g for g in all_graphs(graph) if g.name == "body")
    return [e.op.name for e in body.eqns][1:]  # behind the count


@pytest.mark.parametrize("name", STEPS)
def test_copies_across_are_made_by_litert(name: str) -> None:
    step, wanted = STEPS[name]
    graph = loop(step)
    changed = copies_in_bodies(graph, Context())
    assert body_of(changed) == wanted
    assert copies_in_bodies(changed, Context()) is changed
    file = LiteRt(to_bytes(Program((Signature("main", changed, ("x",), ("y",)),))))
    for size in (1, 3, 4, 2):
        x = np.linspace(-1, 1, size * 16, dtype=np.float32).reshape(size, 4, 4)
        np.testing.assert_allclose(file.run("main", {"x": x})["y"], evaluate(graph, [x])[0], rtol=2e-5, atol=2e-6)


def test_read_back_they_are_what_they_were() -> None:
    graph = loop(STEPS["concatenation"][0])
    assert body_of(simplify(copies_in_bodies(graph, Context()), Context())) == body_of(simplify(graph, Context()))


@pytest.mark.parametrize(
    ("of", "target"), [(TensorType((2, 4, 4), DType.f32), "litert"), (CUBE, "tflite-micro")], ids=["fixed", "micro"]
)
def test_other_files_keep_their_copies(of: TensorType, target: str) -> None:
    graph = loop(STEPS["split"][0], of)
    assert copies_in_bodies(graph, Context(target=target_named(target))) is graph


def growing(data: bytes, wanted: dict[int, tuple[np.ndarray, np.ndarray]], rounds: int) -> int:
    """How many calls of growing batches answer wrongly, in so many interpreters."""
    from ai_edge_litert.interpreter import Interpreter

    wrong, rng = 0, np.random.default_rng(0)
    for _ in range(rounds):
        interpreter = Interpreter(model_content=data)
        x, y = (details[0]["index"] for details in (interpreter.get_input_details(), interpreter.get_output_details()))
        for size in sorted(rng.choice(list(wanted), len(wanted) // 2, replace=False)):
            interpreter.resize_tensor_input(x, wanted[size][0].shape)
            interpreter.allocate_tensors()
            interpreter.set_tensor(x, wanted[size][0])
            interpreter.invoke()
            wrong += not np.allclose(interpreter.get_tensor(y), wanted[size][1], rtol=1e-3, atol=1e-5)
    return wrong


@pytest.fixture(scope="module")
def stacked() -> tf.keras.Model:
    tf.keras.utils.set_random_seed(0)
    layers = tf.keras.layers
    gru = [layers.GRU(units, return_sequences=units < 40) for units in (8, 24, 40)]
    return tf.keras.Sequential([tf.keras.Input((None, 6)), *gru, layers.Dense(3)])


def test_stacked_gru_with_growing_batches(stacked: tf.keras.Model) -> None:
    """Where the copies are XNNPACK's, every tenth of these calls answers wrongly."""
    xs = {size: np.random.default_rng(size).normal(size=(size, 12, 6)).astype(np.float32) for size in range(1, 13)}
    wanted = {size: (x, stacked(x).numpy()) for size, x in xs.items()}
    assert growing(jfuse.convert(stacked, verify=False).to_bytes(), wanted, rounds=20) == 0


@pytest.mark.slow
def test_verification_finds_a_copy_that_is_left_out(stacked: tf.keras.Model, tmp_path: Path) -> None:
    file = tmp_path / "stacked.tflite"
    with mock.patch("jfuse.passes.legalize.copies_in_bodies._made_by_litert", lambda body: body):
        jfuse.convert(stacked, verify=False).save(file)
    with pytest.raises(VerifyFailed, match="left out a copy in a loop"):
        jfuse.verify(file, stacked, jfuse.Verify(calls=1))


def one_operator(builtin: str) -> Graph:
    op = next(op for op in vars(ops).values() if getattr(op, "builtin", None) == builtin and not op.form)
    weights = np.ones((4, 4), np.float32)
    calls: dict[str, Callable[[Any], Any]] = {
        "RESHAPE": lambda x: op(x, FLAT),
        "CONCATENATION": lambda x: op(*[x] * 5, axis=1),
        "SPLIT": lambda x: op(np.int32(1), x, num_splits=4),
        "TRANSPOSE": lambda x: op(x, np.array([2, 0, 1], np.int32)),
        "FULLY_CONNECTED": lambda x: op(x, weights),
        "LEAKY_RELU": lambda x: op(x, alpha=0.1),
    }
    by_two = builtin in xnnpack.BINARY
    return trace_graph(calls.get(builtin, (lambda x: op(x, x)) if by_two else op), [CUBE])


@pytest.mark.parametrize(
    "builtin", sorted(xnnpack.COPIES | xnnpack.UNARY | xnnpack.BINARY | {"TRANSPOSE", "FULLY_CONNECTED"})
)
def test_xnnpack_takes_what_is_called_sure(builtin: str) -> None:
    from ai_edge_litert.interpreter import Interpreter

    graph = one_operator(builtin)
    assert all(map(xnnpack.surely_takes, graph.eqns))
    names = tuple(f"y{i}" for i in range(len(graph.outputs)))
    interpreter = Interpreter(model_content=to_bytes(Program((Signature("main", graph, ("x",), names),))))
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], [3, 4, 4])
    interpreter.allocate_tensors()
    assert interpreter._get_ops_details()[-1]["op_name"] == "DELEGATE"
