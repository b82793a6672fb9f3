"""A signature as a pure JAX function: jit, vmap, gradients, open sizes, states, 64 bits whatever the user's setting."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Program, Signature, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.tflite.read.file import load_tflite
from tests.kernels.fused.lstm_oracle import LSTM, file_of, written

B = symbol("B")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
W, BIAS, V = (RNG.normal(size=s).astype(np.float32) for s in ((8, 4), (8,), (2, 8)))


def model_of(body: Any, *inputs: Var, outputs: int = 1) -> Model:
    """A model of one signature."""
    graph = trace_graph(body, list(inputs), name="main")
    names = tuple(v.name or "" for v in inputs), tuple(f"y{i}" for i in range(outputs))
    return Model(Program((Signature("serving_default", graph, *names),)))


def of(name: str, *shape: Any, dtype: DType = DType.f32) -> Var:
    return Var(TensorType(shape, dtype), name)


def mlp() -> Model:
    """f32[B,4] -> f32[B,2]."""
    return model_of(lambda x: ops.fully_connected(ops.tanh(ops.fully_connected(x, W, BIAS)), V), of("x", B, 4))


def written_mlp(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The same, in whatever precision it is given."""
    return np.asarray(np.tanh(x @ w.T + bias) @ V.T.astype(np.float64))


def finite_difference(function: Any, at: np.ndarray, direction: np.ndarray) -> float:
    """The derivative of a sum in a direction, of f64 values."""
    step = 1e-6
    up, down = (function(at.astype(np.float64) + s * direction).sum() for s in (step, -step))
    return float((up - down) / (2 * step))


def test_it_tells_what_it_takes_and_gives() -> None:
    function = mlp().jax()
    assert (function.input_names, function.output_names, function.state_names) == (("x",), ("y0",), ())
    assert repr(function) == "JaxFunction(x -> y0)"
    assert {name: w.shape for name, w in function.weights.items()} == {
        "fully_connected/weights": (8, 4), "fully_connected/bias": (8,), "fully_connected/weights;1": (2, 8),
    }  # fmt: skip


def test_any_batch_jitted_or_not() -> None:
    function = mlp().jax()
    for rows in (1, 3):
        wanted = written_mlp(X[:rows], W, BIAS)
        for call in (function, jax.jit(function)):
            (found,) = call(X[:rows])
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_vmap_over_samples_is_each_sample() -> None:
    function = mlp().jax()
    samples = RNG.normal(size=(5, 3, 4)).astype(np.float32)
    (found,) = jax.vmap(function)(samples)
    np.testing.assert_allclose(found, np.stack([function(s)[0] for s in samples]), rtol=1e-6, atol=1e-6)


def test_gradients_of_inputs_and_weights() -> None:
    function = mlp().jax()
    of_x = jax.grad(lambda x: function(x)[0].sum())(X)
    of_weights = jax.grad(lambda w: function.apply(w, X)[0].sum())(dict(function.weights))
    towards = RNG.normal(size=X.shape), RNG.normal(size=W.shape), RNG.normal(size=BIAS.shape)
    wanted = (
        finite_difference(lambda x: written_mlp(x, W, BIAS), X, towards[0]),
        finite_difference(lambda w: written_mlp(X, w, BIAS), W, towards[1]),
        finite_difference(lambda b: written_mlp(X, W, b), BIAS, towards[2]),
    )
    gradients = of_x, of_weights["fully_connected/weights"], of_weights["fully_connected/bias"]
    found = [float(np.vdot(g, t)) for g, t in zip(gradients, towards, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_gradients_through_an_lstm() -> None:
    lstm = LSTM()
    function = Model(load_tflite(file_of(lstm))).jax()
    states = function.initial_states
    x = RNG.normal(size=(lstm.batch, lstm.steps, lstm.inputs)).astype(np.float32)

    def wanted(given: np.ndarray) -> np.ndarray:
        zeros = np.zeros((lstm.batch, lstm.units))
        return written(lstm, given, zeros, zeros)[0]

    found = jax.jit(jax.grad(lambda x: function(x, *states)[0].sum()))(x)
    towards = RNG.normal(size=x.shape)
    np.testing.assert_allclose(float(np.vdot(found, towards)), finite_difference(wanted, x, towards), rtol=1e-4)


def test_states_come_last_and_go_round() -> None:
    lstm = LSTM()
    model = Model(load_tflite(file_of(lstm)))
    function = model.jax()
    assert function.state_names == tuple(s.name for s in model.signature().states)
    assert [s.shape for s in model.initial_states()] == [(lstm.batch, lstm.units)] * 2
    x = RNG.normal(size=(2, lstm.batch, lstm.steps, lstm.inputs)).astype(np.float32)
    stream, states = model.stream(), list(model.initial_states())
    for steps in x:
        y, *states = function(steps, *states)
        np.testing.assert_allclose(y, stream(steps), rtol=1e-6, atol=1e-6)


def test_large_weights_are_arguments_of_apply() -> None:
    weights = RNG.normal(size=(200, 300)).astype(np.float32)
    function = model_of(lambda x: ops.fully_connected(x, weights), of("x", B, 300)).jax()
    x = np.ones((2, 300), np.float32)
    program = jax.jit(function.apply).lower(function.weights, x)
    assert len(program.as_text()) < 10_000
    with pytest.raises(JfuseError, match="the weights have other names"):
        function.apply({}, x)


def test_wide_integers_without_x64() -> None:
    assert jnp.asarray(np.int64(1)).dtype == np.int32
    n = of("n", B, dtype=DType.i64)
    function = model_of(lambda n: ops.add(n, np.int64(2**40)), n).jax()
    for call in (function, jax.jit(function), lambda n: jax.vmap(function)(n[None])):
        (found,) = call(np.array([1, 2]))
        assert found.dtype == np.int64
        assert found.ravel().tolist() == [2**40 + 1, 2**40 + 2]


def test_export_with_open_sizes() -> None:
    (rows,) = jax.export.symbolic_shape("rows")
    exported = jax.export.export(jax.jit(mlp().jax()))(jax.ShapeDtypeStruct((rows, 4), jnp.float32))
    np.testing.assert_allclose(exported.call(X)[0], written_mlp(X, W, BIAS), rtol=1e-5, atol=1e-6)


def loop() -> Model:
    """f32[], i32[] -> f32[]: x doubled n times."""

    def less(i: Any, n: Any, x: Any) -> Any:
        return ops.less(i, n)

    def double(i: Any, n: Any, x: Any) -> Any:
        return ops.add(i, np.int32(1)), n, ops.add(x, x)

    def body(x: Any, n: Any) -> Any:
        types = [TensorType((), DType.i32), TensorType((), DType.i32), TensorType((), DType.f32)]
        graphs = [trace_graph(f, [Var(t) for t in types], name=f.__name__) for f in (less, double)]
        return ops.while_([np.int32(0), n, x], graphs)[2]

    return model_of(body, of("x"), of("n", dtype=DType.i32))


def test_loops_of_computed_turns_differentiate_forwards() -> None:
    function = loop().jax()
    n = np.int32(3)
    found = jax.jvp(lambda x: function(x, n)[0], (np.float32(1.5),), (np.float32(1),))
    assert [float(v) for v in found] == [12.0, 8.0]
    with pytest.raises(ValueError, match=r"Reverse-mode differentiation does not work for lax.while_loop"):
        jax.grad(lambda x: function(x, n)[0])(np.float32(1.5))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "the number of arguments differs"),
        ((np.zeros((3, 5)),), "x has another shape"),
        ((0.0,), "x has another shape"),
    ],
)
def test_wrong_arguments(args: tuple[Any, ...], message: str) -> None:
    with pytest.raises(JfuseError, match=message):
        mlp().jax()(*args)


def test_sizes_that_data_decides() -> None:
    model = model_of(lambda x: ops.where(ops.greater(x, np.float32(0))), of("x", 4))
    with pytest.raises(JfuseError, match="cannot be traced by jax") as failure:
        model.jax()
    assert "the result size of where depends on data" in str(failure.value)
    assert "runs equation by equation: the result size of where depends on data" in str(model.runner())
    assert model(np.array([1, -1, 2, 0], np.float32)).tolist() == [[0], [2]]
    assert str(mlp().runner()) == "one program"
