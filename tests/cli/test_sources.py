"""Options about the source, and Python code that the user brings along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.cli import app as cli
from jfuse.lowering.defaults import default_rules

Run = Callable[..., Any]

RULES = """
import jfuse

@jfuse.fuses("acme.Twice", default=False)
def fuse_twice(x):
    return jfuse.ops.add(x, x)
"""
LAYERS = """
import keras

@keras.saving.register_keras_serializable("acme_cli")
class AddOne(keras.layers.Layer):
    def call(self, x):
        return x + 1.0
"""


@pytest.fixture(scope="module")
def run() -> Run:
    runner = CliRunner()
    return lambda *words: runner.invoke(cli.app, [str(w) for w in words])


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GraphDef of a placeholder of open sizes, twice itself, and a marked function."""
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, None, 4], name="x")
        tf.add(x, tf.multiply(x, 2.0, name="twice"), name="y")
    path = tmp_path_factory.mktemp("frozen") / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def test_tensors_of_a_graph_and_shapes(run: Run, frozen: Path, tmp_path: Path) -> None:
    done = run("convert", frozen, "-o", tmp_path / "m.tflite")
    assert done.exit_code == 0, done.output
    assert jfuse.load(tmp_path / "m.tflite").signature().output_names == ("y",)  # the tensor that nothing reads
    words = ["--output-tensors", "y,twice", "--input-tensors", "x", "--shape", "x=?,3,4", "--batch", "2", "--no-verify"]
    done = run("convert", frozen, "-o", tmp_path / "m.tflite", *words)
    assert done.exit_code == 0, done.output
    signature = jfuse.load(tmp_path / "m.tflite").signature()
    assert [str(v.type) for v in signature.graph.inputs] == ["f32[2,3,4]"]
    assert signature.output_names == ("y", "twice")
    printed = run("inspect", frozen, "--output-tensors", "y", "--shape", "x=1,1,4")
    assert "f32[1,1,4]" in printed.output


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    import tensorflow as tf

    @tf.function(experimental_implements="acme.Twice")
    def twice(x: Any) -> Any:
        return x * 2.0

    call = tf.function(lambda x: {"y": twice(x)}, input_signature=[tf.TensorSpec([3], name="x")], autograph=False)
    tf.saved_model.save(tf.Module(), str(tmp_path / "model"), signatures={"serving_default": call})
    return tmp_path / "model"


def test_rules_of_a_file(run: Run, marked: Path, tmp_path: Path) -> None:
    (tmp_path / "my_rules.py").write_text(RULES, encoding="utf-8")
    done = run("explain", marked, "--rules", tmp_path / "my_rules.py")
    assert done.exit_code == 0, done.output
    assert "the rule is fuse_twice" in done.output
    assert "acme.Twice" not in default_rules().fuses
    (tmp_path / "none.py").write_text("x = 1", encoding="utf-8")
    done = run("explain", marked, "--rules", tmp_path / "none.py")
    assert done.exit_code == 1
    assert "defines no rule" in done.output


@pytest.fixture
def registered() -> Iterator[None]:
    import keras

    yield
    keras.saving.get_custom_objects().pop("acme_cli>AddOne", None)


@pytest.mark.usefixtures("registered")
def test_layers_of_a_module(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import keras

    (tmp_path / "acme_layers.py").write_text(LAYERS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "model.keras"
    scope: dict[str, Any] = {}
    exec(LAYERS, scope)
    keras.Sequential([keras.Input((3,)), scope["AddOne"]()]).save(path)
    keras.saving.get_custom_objects().pop("acme_cli>AddOne")
    assert run("inspect", path).exit_code == 1
    done = run("inspect", path, "--import", "acme_layers")
    assert done.exit_code == 0, done.output
    assert " = add a 1.0 " in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shape", "x"), "write it as x=1,49,40"),
        (("--shape", "x=1,a"), "write it as x=1,49,40"),
        (("--batch", "0"), "greater than or equal to 1"),
        (("--import", "no_such.module"), "there is no module 'no_such.module'"),
        (("--rules", "no_such.py"), "does not exist"),
    ],
)
def test_wrong_values_exit_with_2(run: Run, tmp_path: Path, words: tuple[str, str], message: str) -> None:
    done = run("convert", "not_there", "-o", tmp_path / "m.tflite", *words)
    assert done.exit_code == 2
    assert message in done.output
