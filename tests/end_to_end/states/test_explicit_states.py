"""States that a model takes and returns by itself: kept by the file, the pieces of a sequence answer as the whole."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import jfuse

RNG = np.random.default_rng(0)
W, U = RNG.normal(size=(5, 24)).astype(np.float32) / 3, RNG.normal(size=(6, 24)).astype(np.float32) / 3
STATES = {"h": ("h_in", "h_out"), "c": ("c_in", "c_out")}
CUTS = [1, 4, 9]


def f32(*shape: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def lstm(x: Any, h_in: Any, c_in: Any) -> Any:
    """f32[b,t,5], f32[b,6] twice -> the sequence f32[b,t,6], and the states after it"""

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(row @ W + h @ U, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), y = jax.lax.scan(step, (h_in, c_in), jnp.swapaxes(x, 0, 1))
    return {"y": jnp.swapaxes(y, 0, 1), "h_out": h, "c_out": c}


def from_zeros(x: Any) -> Any:
    return lstm(x, jnp.zeros((x.shape[0], 6)), jnp.zeros((x.shape[0], 6)))["y"]


def sequence() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(2, 12, 5)).astype(np.float32)


def runner(model: Any) -> Any:
    return Interpreter(model_content=model.to_bytes()).get_signature_runner()


def check_pieces(model: Any, output: str, wanted: Any) -> None:
    run = runner(model)
    found = [run(x=piece)[output] for piece in np.split(sequence(), CUTS, axis=1)]
    np.testing.assert_allclose(np.concatenate(found, 1), wanted, atol=1e-5)


def test_states_that_a_function_takes_and_returns_are_kept() -> None:
    (time,) = jax.export.symbolic_shape("time")
    result = jfuse.convert(lstm, [f32(2, time, 5), f32(2, 6), f32(2, 6)], state=STATES)
    assert result.report.operators["unidirectional_sequence_lstm"] == 1
    assert [k.name for k in result.report.kept] == ["h", "c"]
    assert {(d.pair, d.output) for d in result.report.differences} >= {("jax/xla", "state c"), ("jax/litert", "y")}
    check_pieces(result, "y", from_zeros(sequence()))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["keep", "io"])
def test_what_scans_carry_is_kept_or_given(mode: Any) -> None:
    batch, time = jax.export.symbolic_shape("batch, time")
    result = jfuse.convert(from_zeros, [f32(2 if mode == "keep" else batch, time, 5)], state=mode)
    wanted = from_zeros(sequence())
    if mode == "keep":
        return check_pieces(result, "output_0", wanted)
    run, found = runner(result), []
    states = {s.name: np.zeros((2, 6), np.float32) for s in result.signature().exposed}
    assert len(states) == 2
    for piece in np.split(sequence(), CUTS, axis=1):
        results = run(x=piece, **states)
        found.append(results["output_0"])
        states = {name: results[name] for name in states}
    np.testing.assert_allclose(np.concatenate(found, 1), wanted, atol=1e-5)


@pytest.mark.slow
def test_signatures_share_a_state_that_one_of_them_only_writes() -> None:
    def step(x: Any, total: Any) -> Any:
        return {"mean": (total + x) / 2, "total": total + x}

    def start(value: Any) -> Any:
        return {"total": value * 1.0, "doubled": value * 2}

    initial = np.array([3, 4], np.float32)
    specs = {"step": [f32(2), f32(2)], "start": [f32(2)]}
    result = jfuse.convert({"step": step, "start": start}, specs, state={"sum": ("total", "total", initial)})
    interpreter = Interpreter(model_content=result.to_bytes())
    one, begin = (interpreter.get_signature_runner(key) for key in ("step", "start"))
    x = np.array([1, 2], np.float32)
    np.testing.assert_allclose(one(x=x)["mean"], [2, 3])
    np.testing.assert_allclose(one(x=x)["mean"], [2.5, 4])
    begin(value=np.array([10, 20], np.float32))
    np.testing.assert_allclose(one(x=x)["mean"], [5.5, 11])


@pytest.mark.slow
def test_a_function_of_tensorflow_keeps_its_own_states_too() -> None:
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec((2, 3)), tf.TensorSpec((2, 3))])
    def smooth(x: Any, before: Any) -> Any:
        mean = 0.5 * x + 0.5 * before
        return {"y": 2.0 * mean, "after": mean}

    result = jfuse.convert(smooth, state={"mean": ("before", "after")})
    assert {d.pair for d in result.report.differences} == {"tensorflow/xla", "tensorflow/litert"}
    run, x = runner(result), np.ones((2, 3), np.float32)
    for wanted in (1, 1.5, 1.75):
        np.testing.assert_allclose(run(x=x)["y"], np.full((2, 3), wanted))


def test_a_wrong_new_value_of_a_state_is_found() -> None:
    def once(x: Any, h: Any) -> Any:
        return {"y": x + h, "h": h + 1}

    model = jfuse.load(once, [f32(3), f32(3)]).keeping({"h": ("h", "h")})
    lowered = jfuse.lower(jfuse.load(lambda x, h: {"y": x + h, "h": h + 2}, [f32(3), f32(3)]), state={"h": ("h", "h")})
    with pytest.raises(jfuse.VerifyFailed, match="state h"):
        jfuse.verify(lowered, model)


@pytest.mark.parametrize(
    ("state", "size", "message"),
    [
        (3, 2, "does not say what is carried"),
        (None, 2, "does not say what is carried"),
        ({"h": "h_in"}, 2, "does not say what is carried"),
        ({"h": ("h_in",)}, 2, "does not say what is carried"),
        ({"h": ("hidden", "h_out")}, 2, "no input 'hidden'"),
        ({"h": ("h_in", "hidden")}, 2, "no output 'hidden'"),
        ({"h": ("h_in", "h_out"), "g": ("h_in", "c_out")}, 2, "to two states"),
        ({"x": ("h_in", "h_out")}, 2, "name of the state 'x'"),
        ({"h": ("h_in", "y")}, 2, "of two types"),
        ({"h": ("h_in", "h_out", np.zeros(3))}, 2, "another shape"),
        ({"h": ("h_in", "h_out")}, None, "known only when a call is made"),
    ],
)
def test_states_that_cannot_be_say_why(state: Any, size: int | None, message: str) -> None:
    batch = size or jax.export.symbolic_shape("batch")[0]
    model = jfuse.load(lstm, [f32(batch, 4, 5), f32(batch, 6), f32(batch, 6)])
    with pytest.raises(jfuse.JfuseError, match=message):
        model.keeping(state)
