"""SavedModels that jax2tf made: their StableHLO is read, with the variables around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jfuse
from jfuse.base.errors import ImportFailed
from tests.end_to_end.invokes import check_invokes
from tests.frontends.stablehlo.test_exported import U, W

pytestmark = pytest.mark.slow


def lstm(params: Any, x: Any) -> Any:
    """f32[b,t,5] -> f32[b,t,6]"""

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(row @ params["w"] + h @ params["u"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[0], 6))
    return jnp.swapaxes(jax.lax.scan(step, (zero, zero), jnp.swapaxes(x, 0, 1))[1], 0, 1)


def test_a_folder_of_jax2tf_becomes_a_fused_recurrence(tmp_path: Path) -> None:
    import tensorflow as tf
    from jax.experimental import jax2tf

    module = tf.Module()
    module.weights = {"w": tf.Variable(W), "u": tf.Variable(U)}
    converted = jax2tf.convert(lstm, polymorphic_shapes=[None, "(b, t, 5)"])
    signature = [tf.TensorSpec((None, None, 5), tf.float32)]
    module.serve = tf.function(lambda x: converted(module.weights, x), input_signature=signature, autograph=False)
    tf.saved_model.save(module, str(tmp_path), signatures=module.serve)
    result = jfuse.convert(tmp_path)
    assert result.report.operators["unidirectional_sequence_lstm"] == 1
    assert {d.pair for d in result.report.differences} == {"tensorflow/xla", "tensorflow/litert"}
    check_invokes(result)


def test_ops_of_tensorflow_stand_around_what_jax2tf_made() -> None:
    import tensorflow as tf
    from jax.experimental import jax2tf

    # Composites (top_k, erf) are read too, but TensorFlow 2.21 cannot run those of jax 0.10.
    inner = jax2tf.convert(lambda x: {"sorted": jnp.sort(x, -1)[:, :2], "sums": jnp.cumsum(x, -1)})

    @tf.function(input_signature=[tf.TensorSpec((3, 4))], autograph=False)
    def model(x: Any) -> Any:
        found = inner(tf.nn.relu(x) - 0.5)
        return {"y": tf.reduce_sum(found["sorted"], -1), "z": found["sums"] * 2.0}

    check_invokes(jfuse.convert(model))


def test_a_module_that_calls_back_is_refused() -> None:
    import tensorflow as tf
    from jax.experimental import jax2tf

    def calls(x: Any) -> Any:
        return jax2tf.call_tf(tf.math.sin, call_tf_graph=True, ordered=False, output_shape_dtype=x)(x)

    made = jax2tf.convert(lambda x: calls(x), native_serialization_platforms=("cpu",))
    model = tf.function(made, input_signature=[tf.TensorSpec((3,))], autograph=False)
    with pytest.raises(ImportFailed, match="calls TensorFlow back"):
        jfuse.load(model)
