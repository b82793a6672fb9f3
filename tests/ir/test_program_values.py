"""Programs as values: equality, text with constants, jaxprs, equations replaced, graphs built of ops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse import ir, ops
from jfuse.running.interpreter import LiteRt

WEIGHTS = np.random.default_rng(0).standard_normal((8, 32)).astype(np.float32)


def dense(x: Any) -> dict[str, Any]:
    return {"y": jax.nn.relu(x @ WEIGHTS + 1)}


def loaded(function: Any = dense, batch: Any = None) -> jfuse.Model:
    if batch is None:
        (batch,) = jax.export.symbolic_shape("b")
    return jfuse.load(function, [jax.ShapeDtypeStruct((batch, 8), jnp.float32)])


def lstm(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(row @ WEIGHTS + h @ WEIGHTS, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((2, 8))
    return jax.lax.scan(step, (zero, zero), x)[1]


@pytest.fixture(scope="module")
def lowered() -> jfuse.Model:
    return jfuse.lower(loaded())


def test_text_and_constants_give_the_program_back_in_one_call(lowered: jfuse.Model) -> None:
    for model in (loaded(), lowered, jfuse.load(lstm, [jax.ShapeDtypeStruct((5, 2, 8), jnp.float32)])):
        for consts in (model, model.program, ir.constants_of(model.program)):
            back = jfuse.parse(str(model), consts=consts)
            assert isinstance(back, jfuse.Model)
            assert back.program == model.program
            assert hash(back.program) == hash(model.program)
    (graph,) = lowered.program.graphs()
    assert str(jfuse.parse(str(graph), consts=graph)) == str(graph)


def test_programs_are_equal_by_what_they_say(lowered: jfuse.Model) -> None:
    program = loaded().program
    assert program == loaded().program
    assert len({program, loaded().program}) == 1
    other = [lambda x: {"y": jax.nn.relu(x @ (WEIGHTS + 1e-6) + 1)}, lambda x: {"z": jax.nn.relu(x @ WEIGHTS + 1)}]
    assert all(loaded(function).program != program for function in other)
    assert lowered.program != program
    assert program != str(program)
    assert "relu" in str(jfuse.diff(program, lowered.program)).lower()


def test_a_source_is_lowered_without_being_loaded_first(lowered: jfuse.Model) -> None:
    assert jfuse.lower(lowered.to_bytes()).report.operators == {"fully_connected": 1}
    with pytest.raises(jfuse.JfuseError):
        jfuse.lower(5)


@pytest.mark.parametrize("lower", [False, True], ids=["loaded", "lowered"])
def test_a_jaxpr_computes_the_same_and_is_a_source(lower: bool) -> None:
    for model, shape in ((loaded(batch=3), (3, 8)), (jfuse.load(lstm, [jnp.zeros((5, 2, 8))]), (5, 2, 8))):
        given = jfuse.lower(model) if lower else model
        closed = given.jaxpr()
        x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
        wanted = dense(x)["y"] if shape == (3, 8) else lstm(x)
        (found,) = jax.extend.core.jaxpr_as_fun(closed)(x)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        back = jfuse.convert(closed)
        assert back.signature().input_names == ("x",)
        interpreter = LiteRt(back.to_bytes())
        np.testing.assert_allclose(
            interpreter.run("serving_default", {"x": x})["output_0"], wanted, rtol=1e-5, atol=1e-6
        )


def test_a_jaxpr_keeps_open_sizes(lowered: jfuse.Model) -> None:
    closed = lowered.jaxpr()
    assert isinstance(closed, jax.extend.core.ClosedJaxpr)
    assert str(closed.in_avals[0].shape) == "(b, 8)"
    assert jfuse.lower(closed).program.graphs()[0].eqns[0].op is ops.fully_connected
    with pytest.raises(jfuse.ImportFailed, match="a jaxpr states its own inputs"):
        jfuse.load(closed, [jnp.zeros((3, 8))])


def test_a_size_that_jax_must_know_is_given() -> None:
    import keras

    model = jfuse.load(keras.Sequential([keras.Input((6, 3)), keras.layers.GRU(4)]))
    (name,) = map(str, model.signature().graph.inputs[0].type.shape[:1])
    with pytest.raises(jfuse.JfuseError, match=f"(?s)for every size.*sizes=, a number for each of {name}"):
        model.jaxpr()
    assert model.jaxpr(sizes={name: 2}).in_avals[0].shape == (2, 6, 3)


def test_equations_are_replaced_in_bodies_too() -> None:
    def looped(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, x: jnp.tanh(x) + 0.1, jnp.tanh(x))

    model = loaded(looped, batch=2)
    kinds = [e.op for g in model.program.graphs() for e in g.all_eqns()]
    assert kinds.count(ops.tanh) == 2
    changed = model.program.map(lambda eqn: ops.logistic(*eqn.inputs) if eqn.op is ops.tanh else None)
    changed.check()
    assert ops.tanh not in [e.op for g in changed.graphs() for e in g.all_eqns()]
    x = np.random.default_rng(2).standard_normal((2, 8)).astype(np.float32)
    wanted = jax.nn.sigmoid(x)
    for _ in range(3):
        wanted = jax.nn.sigmoid(wanted) + 0.1
    np.testing.assert_allclose(jfuse.Model(changed)(x), wanted, rtol=1e-6)
    (graph,) = model.program.graphs()
    assert graph.map(lambda eqn: None) is graph
    with pytest.raises(jfuse.TypeMismatch, match="a result of another type"):
        model.program.map(lambda eqn: ops.cast(*eqn.inputs, out_data_type=ir.DType.i32) if eqn.op is ops.tanh else None)


def test_producers_and_users(lowered: jfuse.Model) -> None:
    (graph,) = loaded().program.graphs()
    x, (matmul, add, relu) = graph.inputs[0], graph.eqns
    assert graph.users()[x] == [matmul]
    assert graph.users()[matmul.outputs[0]] == [add]
    assert graph.producers()[graph.outputs[0]] is relu  # type: ignore[index]
    assert x not in graph.producers()
    with pytest.raises(jfuse.TypeMismatch, match="read before it is bound"):
        replace(graph, eqns=graph.eqns[1:]).check()


def test_a_graph_is_built_of_ops_and_becomes_a_file() -> None:
    def function(x: Any, y: Any) -> Any:
        return ops.mul(ops.add(x, y), np.float32(2)), ops.tanh(y)

    size = ir.symbol("B")
    typed = ir.TensorType((size, 3), ir.DType.f32)
    model = jfuse.load(ir.trace_graph(function, [ir.Var(typed, "x"), typed]))
    assert model.signature().input_names == ("x", "input_1")
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), 0.5, np.float32)
    found = LiteRt(jfuse.lower(model).to_bytes()).run("serving_default", {"x": x, "input_1": y})
    np.testing.assert_allclose(found["output_0"], np.full((2, 3), 3.0))
    np.testing.assert_allclose(found["output_1"], np.tanh(y), rtol=1e-6)
    twice = ir.trace_graph(function, [ir.Var(typed, "x"), ir.Var(typed, "x")])
    with pytest.raises(jfuse.JfuseError, match="two inputs of the graph have one name"):
        jfuse.load(twice)
