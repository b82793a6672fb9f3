"""SavedModel folders: signatures, shared targets, and folders that are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import ImportFailed, LowerError
from jfuse.ir.graph import Const
from jfuse.ir.walk import all_eqns
from jfuse.model import Model
from tests.frontends.against_tensorflow import check_model
from tests.models import other


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return other.TwoSignatures().save(tmp_path_factory.mktemp("saved") / "model")


def constants(model: Model, key: str) -> list[int]:
    """The addresses of the weights of one signature."""
    atoms = [a for e in all_eqns(model.signatures[key].graph) for a in e.inputs if isinstance(a, Const)]
    return [a.array.__array_interface__["data"][0] for a in atoms if a.array.size == 160]


def test_signatures_and_names(folder: Path) -> None:
    model = jfuse.load(folder)
    assert list(model.signatures) == ["again", "scale", "shift"]
    assert model.signatures["shift"].input_names == ("x",)
    assert model.signatures["shift"].output_names == ("input", "shifted")
    check_model(model)


def test_equal_targets_share_a_graph(folder: Path) -> None:
    model = jfuse.load(str(folder))
    assert model.signatures["again"].graph is model.signatures["scale"].graph
    assert model.signatures["shift"].graph is not model.signatures["scale"].graph
    assert len(model.program.graphs()) == 2


def test_signatures_share_their_weights(folder: Path) -> None:
    model = jfuse.load(folder)
    assert constants(model, "scale") == constants(model, "shift") != []


def test_chosen_signatures(folder: Path) -> None:
    assert list(jfuse.load(folder, jfuse.Inputs(signatures=["shift"])).signatures) == ["shift"]


def test_a_missing_signature(folder: Path) -> None:
    with pytest.raises(ImportFailed, match=r"has no signature 'nope'\n.*'again', 'scale', 'shift'"):
        jfuse.load(folder, jfuse.Inputs(signatures=["nope"]))


def save_v1(folder: Path, build: Callable[[Any], Any]) -> Path:
    """A SavedModel of TensorFlow 1 of a function of x f32[b,3]."""
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], name="x")
        y = build(x)
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save()
    return folder


def test_tensorflow_1(tmp_path: Path) -> None:
    def build(x: Any) -> Any:
        kernel = tf.compat.v1.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], use_resource=True)
        return x @ kernel * tf.compat.v1.placeholder_with_default(0.5, [], name="factor")

    model = jfuse.load(save_v1(tmp_path / "model", build))
    assert (model.signature().input_names, model.signature().output_names) == (("x",), ("y",))
    check_model(model)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: x * tf.compat.v1.Variable(2.0, use_resource=False), "a reference variable of TensorFlow 1"),
        (lambda x: tf.raw_ops.Enter(data=x, frame_name="loop"), "a value that only one branch or turn makes"),
    ],
)
def test_what_only_tensorflow_1_has_is_refused(build: Callable[[Any], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ImportFailed, LowerError), match=message):
        jfuse.load(save_v1(tmp_path / "model", build))


def test_no_signatures(tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path / "bare"))
    with pytest.raises(ImportFailed, match="has no signatures"):
        jfuse.load(tmp_path / "bare")


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="does not exist"):
        jfuse.load(tmp_path / "missing")


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="is not a SavedModel"):
        jfuse.load(tmp_path)


def test_a_corrupt_folder(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(b"no protocol buffer")
    with pytest.raises(ImportFailed, match="cannot be read as a SavedModel"):
        jfuse.load(tmp_path)


def test_missing_variables(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes((folder / "saved_model.pb").read_bytes())
    with pytest.raises(ImportFailed, match="cannot be read as a SavedModel"):
        jfuse.load(tmp_path)


def test_a_file_of_no_known_kind(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"")
    with pytest.raises(ImportFailed, match=r"is of no known kind\n.*a SavedModel folder"):
        jfuse.load(path)
