"""tf.functions and concrete functions: names, keys, and what cannot be traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import ImportFailed
from tests.frontends.against_tensorflow import check_model, spec
from tests.models import other


def double(x: Any) -> Any:
    return x * 2.0


def test_a_function_with_specs() -> None:
    model = jfuse.load(tf.function(double), jfuse.Inputs(input_signature=[spec(None, 3)]))
    assert [str(d) for d in model.signature().graph.inputs[0].type.shape] == ["B", "3"]
    check_model(model)


def test_names_of_inputs_and_results() -> None:
    signature = jfuse.load(other.nested_inputs()).signature()
    assert signature.key == "serving_default"
    assert signature.input_names == ("alone", "first", "second")
    assert signature.output_names == ("difference", "sums_0", "sums_1")


def test_names_that_repeat_get_numbers() -> None:
    nest = {"p": (spec(2), spec(2)), "q": spec(2)}

    def call(values: Any) -> Any:
        return values["p"][0] - values["p"][1] * 2.0 + values["q"] * 3.0

    model = jfuse.load(tf.function(call, input_signature=[nest], autograph=False))
    assert model.signature().input_names == ("values", "values_1", "values_2")
    check_model(model)


def test_names_of_results_that_repeat_get_numbers() -> None:
    call = tf.function(lambda x: {"a": {"b": x + 1.0}, "a_b": x * 2.0}, input_signature=[spec(3)], autograph=False)
    model = jfuse.load(call)
    assert model.signature().output_names == ("a_b", "a_b_1")
    check_model(model)


def test_several_functions() -> None:
    module = other.TwoSignatures()
    concrete = {"a": module.scale.get_concrete_function(), "b": module.shift.get_concrete_function()}
    model = jfuse.load(concrete)
    assert list(model.signatures) == ["a", "b"]
    assert model.signatures["b"].output_names == ("input", "shifted")
    check_model(model)
    assert list(jfuse.load([concrete["b"]]).signatures) == ["serving_default"]


def test_functions_in_a_list_go_by_their_own_names() -> None:
    module = other.TwoSignatures()
    scale, shift = module.scale.get_concrete_function(), module.shift.get_concrete_function()
    assert list(jfuse.load([scale, shift]).signatures) == ["scale", "shift"]
    assert list(jfuse.load([scale, module.scale.get_concrete_function()]).signatures) == ["scale", "scale_1"]
    assert list(jfuse.load([module.scale, module.shift]).signatures) == ["scale", "shift"]


def test_results_that_are_none_numbers_or_inputs() -> None:
    call = tf.function(lambda x: (x, None, 5.0), input_signature=[spec(3, name="x")], autograph=False)
    model = jfuse.load(call)
    assert model.signature().output_names == ("output_0", "output_2")
    check_model(model)


def test_a_function_that_needs_specs() -> None:
    with pytest.raises(ImportFailed, match=r"could not be traced\n.*\n.*pass inputs=jfuse.Inputs\(input_signature="):
        jfuse.load(tf.function(double))


def test_a_function_that_fails() -> None:
    def broken(x: Any) -> Any:
        raise RuntimeError("the user's own words")

    with pytest.raises(ImportFailed, match="RuntimeError: the user's own words"):
        jfuse.load(tf.function(broken, autograph=False), jfuse.Inputs(input_signature=[spec(3)]))


class _Modules:
    """Modules with one signature, with several, and with none."""

    class One(tf.Module):
        @tf.function(input_signature=[spec(3, name="x")], autograph=False)
        def doubled(self, x: Any) -> Any:
            return x + x

    class Several(One):
        @tf.function(input_signature=[spec(3, name="x")], autograph=False)
        def __call__(self, x: Any) -> Any:
            return x * 3.0

    class Unspecified(tf.Module):
        @tf.function(autograph=False)
        def __call__(self, x: Any) -> Any:
            return x * 3.0


def test_a_module_gives_its_functions() -> None:
    assert list(jfuse.load(_Modules.One()).signatures) == ["serving_default"]
    several = jfuse.load(_Modules.Several())
    assert set(several.signatures) == {"serving_default", "doubled"}
    check_model(several)
    assert list(jfuse.load(_Modules.Several(), jfuse.Inputs(signatures=["doubled"])).signatures) == ["doubled"]


def test_a_module_whose_functions_take_anything() -> None:
    with pytest.raises(ImportFailed, match=r"Unspecified has an input signature\n.*__call__\n.*input_signature="):
        jfuse.load(_Modules.Unspecified())
    check_model(jfuse.load(_Modules.Unspecified(), jfuse.Inputs(input_signature=[spec(3)])))


def test_a_loaded_saved_model(tmp_path: Path) -> None:
    tf.saved_model.save(_Modules.One(), str(tmp_path))
    check_model(jfuse.load(tf.saved_model.load(str(tmp_path))))


@pytest.mark.parametrize("source", [object(), 5, None, double, tf.Module()])
def test_objects_of_no_known_kind(source: Any) -> None:
    with pytest.raises(ImportFailed, match="does not know what to do with"):
        jfuse.load(source)


def test_sequences_of_no_functions() -> None:
    with pytest.raises(ImportFailed, match="this is no TensorFlow function"):
        jfuse.load([double, double])


def test_a_missing_key() -> None:
    call = tf.function(double, input_signature=[spec(3)])
    with pytest.raises(ImportFailed, match=r"no signature 'serve'\n.*serving_default"):
        jfuse.load(call, jfuse.Inputs(signatures=["serve"]))


def test_a_function_whose_variables_are_gone_is_refused() -> None:
    def function() -> Any:
        weight = tf.Variable([2.0, 3.0])
        return tf.function(lambda x: x * weight, input_signature=[spec(2)], autograph=False).get_concrete_function()

    with pytest.raises(ImportFailed, match="the variables of the function have been deleted"):
        jfuse.load(function())


def test_a_loaded_model_keeps_its_variables() -> None:
    def load() -> jfuse.Model:
        weight = tf.Variable([2.0, 3.0])
        return jfuse.load(tf.function(lambda x: x * weight, input_signature=[spec(2)], autograph=False))

    jfuse.verify(jfuse.lower(load()))


@pytest.mark.parametrize("source", [[], {}])
def test_nothing_to_convert(source: Any) -> None:
    with pytest.raises(ImportFailed, match="no function or signature is given"):
        jfuse.load(source)


def test_keys_come_as_a_sequence() -> None:
    with pytest.raises(ImportFailed, match=r"takes a sequence of keys(.|\n)*\['serving_default'\]"):
        jfuse.load(tf.function(double, input_signature=[spec(3)]), jfuse.Inputs(signatures="serving_default"))


@pytest.mark.parametrize(
    ("what", "call", "given"),
    [
        ("an argument", lambda x: x.values * 2.0, tf.SparseTensorSpec([3, 4], tf.float32)),
        ("a result", lambda x: tf.sparse.from_dense(x), tf.TensorSpec([3], tf.float32)),
    ],
)
def test_what_is_no_plain_tensor_is_refused(what: str, call: Any, given: Any) -> None:
    function = tf.function(call, input_signature=[given], autograph=False)
    with pytest.raises(
        ImportFailed, match=rf"{what} of the function is no plain tensor at the signature 'serving_default'"
    ):
        jfuse.load(function)


@tf.function(autograph=False)
def activated(x: Any, act: Any = tf.nn.relu, scale: float = 2.0) -> Any:
    return act(x) * scale


class Activated(tf.Module):
    @tf.function(input_signature=[spec(None, 3)], autograph=False)
    def __call__(self, x: Any, act: Any = tf.nn.relu) -> Any:
        return act(x)


@pytest.mark.parametrize("kind", ["function", "method"])
def test_a_default_that_is_a_function(kind: str) -> None:
    module = Activated()
    is_method = kind == "method"
    model = jfuse.load(
        module.__call__ if is_method else activated, jfuse.Inputs(input_signature=None if is_method else [spec(2, 3)])
    )
    assert model.signature().input_names == ("x",)
    check_model(model)
    jfuse.verify(jfuse.lower(model), options=jfuse.Verify(calls=1))  # calls TensorFlow's function with the tensor alone
