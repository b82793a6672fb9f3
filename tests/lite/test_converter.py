"""`jfuse.lite.TFLiteConverter` as scripts use `tf.lite.TFLiteConverter`: files, attributes, names, errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
from tensorflow.lite.python import conversion_metadata_schema_py_generated as metadata
from tensorflow.lite.python.convert import ConverterError as OfficialError

import jfuse
from jfuse import lite
from jfuse.tflite.read.file import load_tflite
from tests.lite import guides
from tests.slow import slow_but

GUIDES = (
    guides.keras_guide,
    guides.saved_model_guide,
    guides.concrete_function_guide,
    guides.signatures_guide,
)


def _inputs(data: bytes) -> list[tuple[Any, ...]]:
    return [(d["name"], *d["shape"], d["dtype"]) for d in Interpreter(model_content=data).get_input_details()]


def test_the_guide_of_jax_needs_one_changed_import(tmp_path: Path) -> None:
    ours, official = (guides.jax_guide(which, tmp_path) for which in (lite, tf.lite))
    assert _inputs(ours) == _inputs(official) == [("x", 2, 6, np.float32)]
    assert Interpreter(model_content=ours).get_signature_list() == {}
    x = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    np.testing.assert_allclose(_called(ours, x), _called(official, x), rtol=1e-5)
    entry = dict(load_tflite(ours).facts.metadata)["CONVERSION_METADATA"].array.tobytes()
    assert (
        metadata.ConversionMetadataT.InitFromObj(metadata.ConversionMetadata.GetRootAs(entry)).environment.modelType
        == metadata.ModelType.JAX
    )


def test_a_jax_function_with_a_scan_and_an_open_size() -> None:
    def running_sum(a: jax.Array, start: jax.Array) -> jax.Array:
        return jax.lax.scan(lambda s, row: (s + row, jnp.tanh(s + row)), start, a)[1]

    (steps,) = jax.export.symbolic_shape("steps")
    inputs = [("rows", jax.ShapeDtypeStruct((steps, 3), jnp.float32)), ("state", jnp.zeros(3))]
    converter = lite.TFLiteConverter.experimental_from_jax([running_sum], [inputs])
    interpreter = Interpreter(model_content=converter.convert(verify=True))
    assert [d["name"] for d in interpreter.get_input_details()] == ["rows", "state"]
    interpreter.resize_tensor_input(0, (5, 3))
    interpreter.allocate_tensors()
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], rows)
    interpreter.set_tensor(interpreter.get_input_details()[1]["index"], np.ones(3, np.float32))
    interpreter.invoke()
    answer = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    np.testing.assert_allclose(answer, np.tanh(1 + np.cumsum(rows, axis=0)), rtol=1e-5)


@pytest.mark.parametrize(
    ("functions", "inputs", "text"),
    [
        ([], [], "No serving func"),
        ([abs], [], "not specified"),
        ([abs], [[], []], "does not match"),
        ([abs, abs], [[], []], "single serving function"),
        ([abs], [np.zeros(3)], "not a dictionary"),
        ([abs], [[("x", 1.0)]], "not an array"),
    ],
)
def test_wrong_arguments_for_jax_are_the_official_errors(functions: list[Any], inputs: list[Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        lite.TFLiteConverter.experimental_from_jax(functions, inputs)


def _called(data: bytes, x: np.ndarray) -> np.ndarray:
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


def _details(data: bytes) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """The signatures, and of each input and output name, sizes and dtype, inputs in the order of their names."""
    interpreter = Interpreter(model_content=data)
    sides = (sorted(interpreter.get_input_details(), key=lambda d: d["name"]), interpreter.get_output_details())
    facts = [(d["name"], *d["shape_signature"], d["dtype"]) for side in sides for d in side]
    return interpreter.get_signature_list(), facts


def _answers(data: bytes, x: np.ndarray) -> list[np.ndarray]:
    """The first output of each signature on two calls."""
    interpreter = Interpreter(model_content=data)
    runners = [interpreter.get_signature_runner(key) for key in interpreter.get_signature_list()]
    return [next(iter(r(**{next(iter(r.get_input_details())): x}).values())) for r in runners for _ in range(2)]


@pytest.mark.parametrize(
    "guide", slow_but((guides.signatures_guide,).__contains__, GUIDES), ids=lambda guide: guide.__name__
)
def test_a_script_of_the_guides_needs_one_changed_import(guide: Callable[..., bytes], tmp_path: Path) -> None:
    """Against the official converter: signatures, names, sizes and answers are the same."""
    tf.keras.backend.clear_session()  # numbers in names begin anew
    tf.keras.utils.set_random_seed(3)
    ours = guide(lite, tmp_path / "ours" if guide is not guides.keras_guide else tmp_path)
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(3)
    official = guide(tf.lite, tmp_path / "official" if guide is not guides.keras_guide else tmp_path)
    assert _details(ours) == _details(official)
    shape = Interpreter(model_content=ours).get_input_details()[0]["shape"]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for a, b in zip(_answers(ours, x), _answers(official, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_the_codelab_of_recurrent_models_converts_where_the_official_converter_refuses_it(tmp_path: Path) -> None:
    tf.keras.utils.set_random_seed(3)
    with pytest.raises(OfficialError, match="TensorListReserve"):
        guides.rnn_guide(tf.lite, tmp_path / "official")
    data = guides.rnn_guide(lite, tmp_path / "ours")
    x = np.random.default_rng(0).normal(size=(1, 5, 4)).astype(np.float32)
    expected = tf.saved_model.load(str(tmp_path / "ours")).signatures["serving_default"](tf.constant(x))["output_0"]
    for answer in _answers(data, x):
        np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)
    assert _details(data)[1] == [
        ("serving_default_x:0", 1, 5, 4, np.float32),
        ("StatefulPartitionedCall:0", 1, 3, np.float32),
    ]


def _function(body: Callable[..., Any], *shape: int | None) -> Any:
    return tf.function(body, input_signature=[tf.TensorSpec(shape, tf.float32, name="x")]).get_concrete_function()


def test_a_bare_concrete_function_has_no_signature() -> None:
    function = _function(lambda x: (x + 1.0, x * 2.0), None, 4)
    ours = lite.TFLiteConverter.from_concrete_functions([function]).convert()
    assert _details(ours) == _details(tf.lite.TFLiteConverter.from_concrete_functions([function]).convert())
    assert _details(ours)[0] == {}


def following(x: Any) -> Any:
    return x + 1.0


def double(x: Any) -> Any:
    return x * 2.0


def test_several_concrete_functions_are_signatures_of_their_graphs_names() -> None:
    owner = tf.Module()
    functions = [_function(body, 4) for body in (following, double)]
    owner.functions = functions
    converter = lite.TFLiteConverter.from_concrete_functions(functions, owner)
    assert sorted(_details(converter.convert())[0]) == ["double", "following"]
    with pytest.raises(ValueError, match="can only convert a single ConcreteFunction"):
        lite.TFLiteConverter.from_concrete_functions(functions)


def test_attributes_may_change_between_two_conversions() -> None:
    converter = lite.TFLiteConverter.from_concrete_functions([_function(tf.nn.relu, 4)])
    assert converter.report is None
    with_metadata = converter.convert()
    converter.exclude_conversion_metadata = True
    without = converter.convert()
    names = [[name for name, _ in load_tflite(data).facts.metadata] for data in (with_metadata, without)]
    assert ["CONVERSION_METADATA" in n for n in names] == [True, False]
    assert converter.report is not None
    assert converter.report.operators == {"relu": 1}


def test_conversion_metadata_is_the_official_table() -> None:
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
    converter = lite.TFLiteConverter.from_keras_model(model)
    converter.target_spec.supported_ops = {tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS}
    entries = dict(load_tflite(converter.convert()).facts.metadata)
    table = metadata.ConversionMetadataT.InitFromObj(
        metadata.ConversionMetadata.GetRootAs(entries["CONVERSION_METADATA"].array.tobytes())
    )
    assert table.environment.tensorflowVersion.decode() == tf.__version__
    assert (table.environment.apiVersion, table.environment.modelType) == (2, metadata.ModelType.KERAS_MODEL)
    assert (table.options.allowCustomOps, table.options.enableSelectTfOps) == (False, True)


def test_subclasses_and_patches_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(lite.TFLiteConverter):
        def __init__(self, funcs: Any, trackable_obj: Any = None) -> None:
            super().__init__(funcs, trackable_obj)
            self.calls = 0

        def convert(self, **options: Any) -> bytes:
            self.calls += 1
            return super().convert(**options)

    mine = Mine.from_concrete_functions([_function(tf.nn.relu, 4)])
    assert load_tflite(mine.convert())
    assert mine.calls == 1
    monkeypatch.setattr(lite.TFLiteConverter, "convert", lambda self: b"patched")
    assert lite.TFLiteConverter.from_concrete_functions([_function(tf.nn.relu, 4)]).convert() == b"patched"


def test_what_does_not_convert_raises_the_official_class_too() -> None:
    function = _function(lambda x: tf.raw_ops.MatrixSquareRoot(input=x), 4, 4)
    converter = lite.TFLiteConverter.from_concrete_functions([function])
    with pytest.raises(OfficialError, match="MatrixSquareRoot") as caught:
        converter.convert()
    assert isinstance(caught.value, jfuse.JfuseError)
    assert isinstance(caught.value.__cause__, jfuse.LowerError)
    converter.allow_custom_ops = True
    (signature,) = load_tflite(converter.convert()).signatures
    assert [e.op.code for e in signature.graph.eqns] == ["MatrixSquareRoot"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("optimisations", "did you mean 'optimizations'"), ("quantize", "has no attribute 'quantize'")],
)
def test_an_unknown_attribute_is_an_error(name: str, message: str) -> None:
    converter = lite.TFLiteConverter.from_concrete_functions([_function(tf.nn.relu, 4)])
    with pytest.raises(AttributeError, match=message):
        setattr(converter, name, [])


def test_every_official_attribute_is_known_and_those_without_meaning_warn_once() -> None:
    function = _function(tf.nn.relu, 4)
    official, ours = (m.TFLiteConverter.from_concrete_functions([function]) for m in (tf.lite, lite))
    private = {"_funcs", "_trackable_obj", "_metadata", "_tflite_metrics", "_collected_converter_params"}
    internal = {name for name in vars(official) if name.startswith("_saved_model")} | private
    assert not [name for name in vars(official) if name not in internal and not hasattr(ours, name)]
    with pytest.warns(UserWarning, match="ir_dump_dir changes nothing"):
        ours.ir_dump_dir = "somewhere"
    ours.ir_dump_dir = "elsewhere"  # warnings are errors in these tests
    ours._experimental_lower_tensor_list_ops = False


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda c, d: c.from_saved_model(str(d / "none")), OSError, "SavedModel file does not exist at"),
        (lambda c, d: c.from_saved_model(str(d), ["other"]), ValueError, "Invalid signature key 'other' found"),
        (lambda c, d: c.from_saved_model(str(d), tags={"gpu"}), ValueError, "Got an incompatible argument to `tags`"),
        (lambda c, d: c.from_concrete_functions([tf.function(tf.nn.relu)]), ValueError, "call get_concrete_function"),
        (lambda c, d: c.from_concrete_functions([]).convert(), ValueError, "No ConcreteFunction is specified"),
    ],
)
def test_bad_input_raises_what_the_official_class_raises(
    make: Callable[..., Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    tf.saved_model.save(guides.Squared(), str(tmp_path))
    for converter in (lite.TFLiteConverter, tf.lite.TFLiteConverter):
        with pytest.raises(error, match=message):
            make(converter, tmp_path)


def test_own_options_are_keywords_of_convert() -> None:
    model = tf.keras.Sequential([tf.keras.Input((5, 2), batch_size=1), tf.keras.layers.LSTM(3)])
    converter = lite.TFLiteConverter.from_keras_model(model)
    data = converter.convert(state="keep", verify=True)
    assert converter.report is not None
    assert converter.report.differences
    x = np.ones((1, 5, 2), np.float32)
    runner = Interpreter(model_content=data).get_signature_runner()
    first, second = (next(iter(runner(**{model.inputs[0].name: x}).values())) for _ in range(2))
    assert not np.allclose(first, second)


def _trained(x: Any) -> Any:
    """A dense layer as quantization-aware training leaves it."""
    rounded = tf.quantization.fake_quant_with_min_max_args
    weights = np.random.default_rng(0).normal(size=(16, 8), scale=0.3).astype(np.float32)
    most = float(np.abs(weights).max())
    return rounded(rounded(x, -3.0, 3.0) @ rounded(weights, -most, most, narrow_range=True), -6.0, 6.0)


def _of_training(library: Any, function: Any, io: str) -> bytes:
    concrete = tf.function(function, input_signature=[tf.TensorSpec([1, 16], name="x")]).get_concrete_function()
    converter = library.TFLiteConverter.from_concrete_functions([concrete], tf.Module())
    converter.optimizations = [library.Optimize.DEFAULT]
    converter.inference_input_type = converter.inference_output_type = getattr(tf, io)
    data: bytes = converter.convert()
    return data


def _operators(data: bytes) -> list[str]:
    return [op["op_name"] for op in Interpreter(model_content=data)._get_ops_details()]


@pytest.mark.parametrize("io", ["float32", "int8", pytest.param("uint8", marks=pytest.mark.slow)])
def test_ranges_of_training_make_integers_without_a_data_set(io: str) -> None:
    ours, official = (_of_training(library, _trained, io) for library in (lite, tf.lite))
    assert _operators(ours) == _operators(official)
    entry = dict(load_tflite(ours).facts.metadata)["CONVERSION_METADATA"].array.tobytes()
    options = metadata.ConversionMetadataT.InitFromObj(metadata.ConversionMetadata.GetRootAs(entry)).options
    assert [*options.modelOptimizationModes] == [metadata.ModelOptimizationMode.QUANTIZATION_AWARE_TRAINING]
    x = np.random.default_rng(1).normal(size=(1, 16)).astype(np.float32)
    found, wanted = (_called(data, _as_stored(data, x)) for data in (ours, official))
    np.testing.assert_array_equal(found, wanted)


def _as_stored(data: bytes, x: np.ndarray) -> np.ndarray:
    (given,) = Interpreter(model_content=data).get_input_details()
    scale, zero_point = given["quantization"]
    return np.asarray(np.rint(x / scale) + zero_point if scale else x, given["dtype"])


def test_without_ranges_of_training_a_default_is_dynamic() -> None:
    assert _operators(_of_training(lite, lambda x: x @ tf.ones([16, 80]), "float32")) == ["FULLY_CONNECTED"]
    with pytest.raises(ValueError, match=r"must be tf\.float32"):
        _of_training(lite, lambda x: x @ tf.ones([16, 80]), "int8")


def test_the_hint_for_an_operator_without_integers_names_attributes() -> None:
    concrete = tf.function(tf.sin, input_signature=[tf.TensorSpec([1, 4])]).get_concrete_function()
    converter = lite.TFLiteConverter.from_concrete_functions([concrete])
    converter.optimizations = [lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([np.full((1, 4), i, np.float32)] for i in range(4))
    converter.target_spec.supported_ops = [lite.OpsSet.TFLITE_BUILTINS_INT8]
    with pytest.raises(lite.ConverterError, match=r"supported_ops = \[TFLITE_BUILTINS_INT8, TFLITE_BUILTINS\]"):
        converter.convert()
