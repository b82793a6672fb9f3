"""SavedModels and graphs that work outside of themselves: refused before TensorFlow runs any of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import ImportFailed

F32 = tf.TensorSpec([2], tf.float32, name="x")


def saved(folder: Path, call: Callable[[Any], Any], spec: Any = F32, **attributes: Any) -> Path:
    """A SavedModel of one function."""
    module = tf.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    module.call = tf.function(call, input_signature=[spec], autograph=False)
    path = folder / "model"
    tf.saved_model.save(module, str(path))
    return path


def reads(secret: str) -> Callable[[Any], Any]:
    return lambda x: x + tf.cast(tf.strings.length(tf.io.read_file(secret)), tf.float32)


def writes(secret: str) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        with tf.control_dependencies([tf.io.write_file(secret, "overwritten")]):
            return tf.identity(x)

    return call


def prints(secret: str) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        with tf.control_dependencies([tf.print("overwritten", output_stream=f"file://{secret}")]):
            return tf.identity(x)

    return call


def in_a_branch(secret: str) -> Callable[[Any], Any]:
    return lambda x: tf.cond(tf.reduce_sum(x) > 1e30, lambda: reads(secret)(x), lambda: x)


def runs_python(secret: str) -> Callable[[Any], Any]:
    return lambda x: tf.ensure_shape(tf.numpy_function(lambda v: v, [x], tf.float32), [2])


def saves(secret: str) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        save = tf.raw_ops.SaveV2(prefix=secret, tensor_names=["x"], shape_and_slices=[""], tensors=[x])
        with tf.control_dependencies([save]):
            return tf.identity(x)

    return call


def restores(secret: str) -> Callable[[Any], Any]:
    return lambda x: (
        x + tf.raw_ops.RestoreV2(prefix=secret, tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32])[0]
    )


def lists_files(secret: str) -> Callable[[Any], Any]:
    return lambda x: x + tf.cast(tf.size(tf.io.matching_files(secret)), tf.float32)


ATTACKS = (reads, writes, prints, in_a_branch, runs_python, saves, restores, lists_files)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda f: f.__name__)
def test_functions_that_work_on_files_are_refused(
    attack: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    path = saved(tmp_path, attack(str(secret)))

    def loaded(*args: Any) -> None:
        raise AssertionError("TensorFlow has loaded it")

    monkeypatch.setattr(tf.saved_model, "load", loaded)
    with pytest.raises(ImportFailed, match=r"works on files, sockets or Python code[\s\S]*unsafe=True"):
        jfuse.load(path)
    assert secret.read_text() == "secret"


def test_they_load_where_that_is_asked_for(tmp_path: Path) -> None:
    path = saved(tmp_path, lists_files(str(tmp_path)))  # it finds one: the folder itself
    np.testing.assert_array_equal(jfuse.load(path, unsafe=True)(np.zeros(2, np.float32)), [1, 1])


class Initialized(tf.Module):
    """A table that is filled from a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        words = tf.lookup.TextFileInitializer(
            path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
        )
        self.table = tf.lookup.StaticHashTable(words, -1)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def call(self, words: Any) -> Any:
        return self.table.lookup(words)


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    (tmp_path / "words.txt").write_text("a\nb\n")
    tf.saved_model.save(Initialized(str(tmp_path / "words.txt")), str(tmp_path / "model"))
    return tmp_path / "model"


def test_a_vocabulary_that_the_model_brings_along_is_read(vocabulary: Path) -> None:
    assert jfuse.load(vocabulary)(np.array([b"b", b"c", b"a"], object)).tolist() == [1, -1, 0]


@pytest.mark.parametrize("name", ["../../secret.txt", "/etc/hostname", "words\0.txt"])
def test_a_vocabulary_from_elsewhere_is_refused(vocabulary: Path, name: str) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    file = vocabulary / "saved_model.pb"
    model = SavedModel.FromString(file.read_bytes())
    for asset in model.meta_graphs[0].asset_file_def:
        asset.filename = name
    file.write_bytes(model.SerializeToString())
    with pytest.raises(ImportFailed, match="outside of its folder"):
        jfuse.load(vocabulary)


def test_signatures_that_tensorflow_takes_for_another_object(vocabulary: Path) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    file = vocabulary / "saved_model.pb"
    model = SavedModel.FromString(file.read_bytes())
    objects = model.meta_graphs[0].object_graph_def.nodes
    number = next(c.node_id for c in objects[0].children if c.local_name == "signatures")
    objects[number].user_object.identifier = "nobody"
    file.write_bytes(model.SerializeToString())
    with pytest.raises(ImportFailed, match="none for TensorFlow"):
        jfuse.load(vocabulary)


def test_a_graph_that_reads_files_is_refused(tmp_path: Path) -> None:
    function = tf.function(reads("/etc/hostname"), input_signature=[F32], autograph=False).get_concrete_function()
    path = tmp_path / "graph.pb"
    path.write_bytes(function.graph.as_graph_def().SerializeToString())
    with pytest.raises(ImportFailed, match="ReadFile"):
        jfuse.load(path, jfuse.Inputs(output_tensors=["Identity"]))


def _of_tensorflow_1(path: Path) -> None:
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2], "x")
        weights = v1.get_variable("w", initializer=np.array([2, 3], np.float32), use_resource=True)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(path), {"x": x}, {"y": x * weights})


def test_a_signature_of_tensorflow_1_without_inputs(tmp_path: Path) -> None:
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    _of_tensorflow_1(tmp_path / "model")
    file = tmp_path / "model" / "saved_model.pb"
    model = SavedModel.FromString(file.read_bytes())
    for found in model.meta_graphs[0].signature_def.values():
        found.inputs.clear()
    file.write_bytes(model.SerializeToString())
    with pytest.raises(ImportFailed, match="needs an input for each placeholder"):
        jfuse.load(tmp_path / "model")


def test_a_saved_graph_of_tensorflow_1_loads(tmp_path: Path) -> None:
    """Its saver reads a checkpoint, which is its own."""
    _of_tensorflow_1(tmp_path / "model")
    np.testing.assert_array_equal(jfuse.load(tmp_path / "model")(np.ones(2, np.float32)), [2, 3])


@pytest.mark.parametrize("name", ["saved_model.pb", "saved_model.pbtxt"])
@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"meta_graphs {"])
def test_a_corrupt_saved_model_is_one_error(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ImportFailed, match="cannot be read as a SavedModel"):
        jfuse.load(tmp_path)
