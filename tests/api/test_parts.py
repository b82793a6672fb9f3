"""Parts of models, and several models as one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt

W = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)


def network(x: Any, z: Any) -> dict[str, Any]:
    hidden = jnp.tanh(x @ W)
    return {"y": jnp.exp(hidden) + z, "h": hidden}


@pytest.fixture(scope="module", params=["source", "lowered", "file"])
def model(request: pytest.FixtureRequest) -> jfuse.Model:
    (batch,) = jax.export.symbolic_shape("B")
    specs = [jax.ShapeDtypeStruct((batch, 64), jnp.float32)] * 2
    source = jfuse.load(network, specs)
    lowered = jfuse.lower(source)
    return {"source": source, "lowered": lowered, "file": jfuse.load(lowered.to_bytes())}[request.param]


X, Z = np.random.default_rng(1).standard_normal((2, 3, 64)).astype(np.float32)
HIDDEN = np.tanh(X @ W)


def run(model: jfuse.Model, **inputs: np.ndarray) -> Any:
    data = jfuse.lower(model).to_bytes()
    return LiteRt(data).run("serving_default", inputs)


def test_a_part_is_cut_at_inner_values(model: jfuse.Model) -> None:
    assert {"x", "z", "y", "h", "exp"} <= {*model.tensor_names()}
    first = jfuse.extract(model, ["h"], ["x"])
    np.testing.assert_allclose(run(first, x=X)["h"], HIDDEN, rtol=1e-4, atol=1e-5)
    second = jfuse.extract(model, ["y"], ["h", "z"])
    assert second.signature().input_names == ("h", "z")
    np.testing.assert_allclose(run(second, h=HIDDEN, z=Z)["y"], np.exp(HIDDEN) + Z, rtol=1e-4, atol=1e-5)
    inner = jfuse.extract(model, ["exp"])
    assert inner.signature().input_names == ("x", "z")
    np.testing.assert_allclose(run(inner, x=X, z=Z)["exp"], np.exp(HIDDEN), rtol=1e-4, atol=1e-5)


def test_a_part_is_cut_at_vars(model: jfuse.Model) -> None:
    hidden = next(v for e in model.signature().graph.eqns for v in e.outputs if e.op is jfuse.ops.tanh)
    first, second = jfuse.extract(model, [hidden], ["x"]), jfuse.extract(model, ["y"], [hidden, "z"])
    ((name, found),) = run(first, x=X).items()
    np.testing.assert_allclose(found, HIDDEN, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run(second, **{name: HIDDEN, "z": Z})["y"], np.exp(HIDDEN) + Z, rtol=1e-4, atol=1e-5)


def test_what_cannot_be_cut_is_named(model: jfuse.Model) -> None:
    with pytest.raises(jfuse.JfuseError, match=r"(?s)need more than the inputs.*\bz\b"):
        jfuse.extract(model, ["y"], ["x"])
    with pytest.raises(jfuse.JfuseError, match="outputs= names no tensor"):
        jfuse.extract(model, ["nothing"])
    with pytest.raises(jfuse.JfuseError, match="inputs= takes a sequence of names"):
        jfuse.extract(model, inputs="x")


def test_a_part_of_what_keeps_states_is_refused() -> None:
    import tensorflow as tf

    class Counting(tf.Module):
        def __init__(self) -> None:
            self.total = tf.Variable(0.0)

        @tf.function(input_signature=[tf.TensorSpec([], name="x")], autograph=False)
        def __call__(self, x: Any) -> Any:
            return {"y": self.total.assign_add(x)}

    with pytest.raises(jfuse.JfuseError, match="keeps states"):
        jfuse.extract(Counting(), ["y"])


def test_two_models_are_one_file_that_holds_constants_once(model: jfuse.Model) -> None:
    first = jfuse.lower(jfuse.extract(model, ["h"], ["x"]))
    again = jfuse.lower(jfuse.extract(model, ["h"], ["x"]))
    both = jfuse.merge({"one": first, "two": again.to_bytes()})
    data = both.to_bytes()
    assert len(data) < first.size_bytes + W.nbytes // 2
    for key in ("one", "two"):
        np.testing.assert_allclose(LiteRt(data).run(key, {"x": X})["h"], HIDDEN, rtol=1e-4, atol=1e-5)
    with pytest.raises(jfuse.JfuseError, match="has several signatures"):
        jfuse.merge({"both": both})
    with pytest.raises(jfuse.JfuseError, match="models= takes a mapping"):
        jfuse.merge([first])  # type: ignore[arg-type]
