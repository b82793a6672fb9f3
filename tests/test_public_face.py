"""The public face: load, lower, verify, convert, and what they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jfuse
from jfuse.lowering.defaults import default_rules
from jfuse.passes.pipeline import PIPELINE
from jfuse.running.interpreter import LiteRt

KERNEL = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)


@pytest.fixture(scope="module")
def dense() -> Any:
    import tensorflow as tf

    def dense(x: Any) -> Any:
        return {"logits": tf.nn.relu(x @ KERNEL + 0.5), "total": tf.reduce_sum(x, axis=1)}

    return tf.function(dense, input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])


@pytest.fixture(scope="module")
def result(dense: Any) -> jfuse.Model:
    return jfuse.convert(dense)


def expected(x: np.ndarray) -> dict[str, np.ndarray]:
    return {"logits": np.maximum(x @ KERNEL + np.float32(0.5), 0), "total": x.sum(axis=1)}


def test_a_result_runs_on_xla_by_position_and_by_name(result: jfuse.Model) -> None:
    x = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    for found in (result(x), result(x=x), result(x, signature="serving_default")):
        for name, wanted in expected(x).items():
            np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=1e-6)


def test_the_steps_one_by_one_give_the_same_bytes(dense: Any, result: jfuse.Model) -> None:
    model = jfuse.load(dense)
    lite = jfuse.lower(model)
    assert lite.to_bytes() == result.to_bytes()
    report = jfuse.verify(lite, model)
    assert {d.pair for d in report.differences} == {"tensorflow/xla", "tensorflow/litert"}
    assert all(0 <= d.error <= d.tolerance for d in report.differences)


def test_activation_and_bias_are_merged(result: jfuse.Model) -> None:
    assert result.report.operators == {"fully_connected": 1, "sum": 1}


def test_a_saved_file_loads_as_the_same_text(result: jfuse.Model, tmp_path: Path) -> None:
    path = result.save(tmp_path / "dense.tflite")
    assert str(jfuse.load(path)).split("#")[0] == str(result).split("#")[0]
    assert str(jfuse.load(path.read_bytes())) == str(jfuse.load(path))
    interpreter = LiteRt(path.read_bytes())
    x = np.ones((5, 3), np.float32)
    found = interpreter.run("serving_default", {"x": x})
    np.testing.assert_allclose(found["logits"], expected(x)["logits"], rtol=1e-6)


def test_the_size_is_known_before_the_file_is_written(dense: Any, tmp_path: Path) -> None:
    model = jfuse.convert(dense, verify=False)
    said = model.size_bytes
    path = model.save(tmp_path / "dense.tflite")
    assert said == path.stat().st_size == model.report.size_bytes
    assert path.read_bytes() == model.to_bytes()
    assert model.size_bytes == said


def test_the_jax_function_can_be_batched_and_differentiated(result: jfuse.Model) -> None:
    function = result.jax()
    x = np.random.default_rng(2).standard_normal((6, 4, 3)).astype(np.float32)
    logits, total = jax.vmap(function)(x)
    np.testing.assert_allclose(logits[5], expected(x[5])["logits"], rtol=1e-5, atol=1e-6)
    slope = jax.grad(lambda v: function(v)[1].sum())(x[0])
    np.testing.assert_array_equal(slope, np.ones_like(x[0]))
    assert total.shape == (6, 4)


def test_it_runs_on_every_device(result: jfuse.Model) -> None:
    assert jax.device_count() >= 2
    x = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)
    for device in jax.devices():
        with jax.default_device(device):
            np.testing.assert_allclose(jfuse.lower(result)(x)["logits"], expected(x)["logits"], rtol=1e-6, atol=1e-6)


def test_dump_dir_holds_a_text_for_each_pass(dense: Any, tmp_path: Path) -> None:
    jfuse.lower(jfuse.load(dense), pipeline=jfuse.Pipeline(dump_dir=tmp_path / "dump"))
    names = sorted(path.name for path in (tmp_path / "dump").iterdir())
    assert names == [f"{i:02d}_{p.__name__}.txt" for i, p in enumerate(PIPELINE)]
    assert "fully_connected" in (tmp_path / "dump" / names[-1]).read_text()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m(), "takes other inputs"),
        (lambda m: m(np.ones((1, 3)), y=1), "takes other inputs"),
        (lambda m: m(np.ones((1, 3)), signature="absent"), "has no signature 'absent'"),
        (lambda m: m.jax("absent"), "has no signature 'absent'"),
        (lambda m: m.save("no/such/folder/m.tflite"), "no/such/folder"),
    ],
)
def test_wrong_calls_say_what_is_wrong(result: jfuse.Model, call: Any, message: str) -> None:
    with pytest.raises((jfuse.JfuseError, OSError), match=message):
        call(result)


def test_unknown_keywords_states_and_rules_are_errors(dense: Any) -> None:
    with pytest.raises(TypeError, match="sideways"):
        jfuse.convert(dense, sideways=True)  # type: ignore[call-arg]
    with pytest.raises(jfuse.JfuseError, match="sideways"):
        jfuse.convert(dense, state="sideways", verify=False)  # type: ignore[arg-type]
    with pytest.raises(jfuse.RuleError, match="takes rules"):
        jfuse.convert(dense, rules=[lambda x: x])  # type: ignore[list-item]


def test_a_name_has_one_rule_unless_it_is_overridden() -> None:
    name = next(iter(default_rules().lowers))
    with pytest.raises(jfuse.RuleError, match=f"two rules for '{name}'"):
        jfuse.lowers(name)(lambda x: x)


def test_rules_of_one_call_come_before_the_registered_ones(dense: Any) -> None:
    @jfuse.lowers("Relu", default=False)
    def leaky(features: Any) -> Any:
        return jfuse.ops.leaky_relu(features, alpha=0.5)

    before = default_rules().lowers["Relu"]
    model = jfuse.lower(jfuse.load(dense, rules=[leaky]))
    assert default_rules().lowers["Relu"] is before
    assert "leaky_relu" in model.report.operators
    # TensorFlow's own answer differs from that of a wrong rule, and the message says where.
    with pytest.raises(jfuse.VerifyFailed, match="leaky_relu"):
        jfuse.verify(model)


def test_what_nobody_can_spell_is_listed_at_once() -> None:
    import tensorflow as tf

    def strange(x: Any) -> Any:
        return tf.math.special.spence(x) + tf.math.special.dawsn(x) + tf.math.special.dawsn(2.0 * x)

    function = tf.function(strange, input_signature=[tf.TensorSpec([2], tf.float32)])
    with pytest.raises(jfuse.LowerError, match=r"tf.Dawsn \(2x, first at (.|\n)*tf.Spence \(1x"):
        jfuse.convert(function)


@pytest.fixture(scope="module")
def adding() -> tuple[Any, jfuse.Model]:
    import tensorflow as tf

    total = tf.Variable([1.0, 2.0], name="total")

    def add(x: Any) -> Any:
        return total.assign_add(x) * 2.0

    function = tf.function(add, input_signature=[tf.TensorSpec([2], tf.float32, name="x")], autograph=False)
    return total, jfuse.convert(function)


def test_a_stream_goes_on_and_a_plain_call_is_a_first_one(adding: tuple[Any, jfuse.Model]) -> None:
    _, result = adding
    x = np.array([0.5, 0.25], np.float32)
    stream = result.stream()
    assert [stream(x).tolist(), stream(x=x).tolist()] == [[3.0, 4.5], [4.0, 5.0]]
    assert stream.states["total"].tolist() == [2.0, 2.5]
    assert result(x).tolist() == [3.0, 4.5]
    stream.reset()
    assert stream(x).tolist() == [3.0, 4.5]


def test_the_jax_function_takes_and_gives_states(adding: tuple[Any, jfuse.Model]) -> None:
    _, result = adding
    x, total = np.ones((3, 2), np.float32), np.arange(6, dtype=np.float32).reshape(3, 2)
    y, after = jax.jit(jax.vmap(result.jax()))(x, total)
    np.testing.assert_array_equal(after, total + 1)
    np.testing.assert_array_equal(y, (total + 1) * 2)


def test_the_text_of_a_saved_file_has_the_states(adding: tuple[Any, jfuse.Model], tmp_path: Path) -> None:
    _, result = adding
    path = result.save(tmp_path / "adding.tflite")
    assert str(jfuse.load(path)).split("#")[0] == str(result).split("#")[0]
    assert 'state "total" = f32[2](1.0 2.0)' in str(result)


def test_unknown_modes_are_refused(dense: Any) -> None:
    with pytest.raises(jfuse.JfuseError, match=r"no state 'kept'(.|\n)*'source' or 'reset' or 'keep' or 'io'"):
        jfuse.convert(dense, state="kept")  # type: ignore[arg-type]


def test_a_report_is_shown_in_a_notebook_by_itself() -> None:
    """In a process where nothing else has imported the pages."""
    asked = "import jfuse; print(jfuse.Report()._repr_html_())"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("<table>")
