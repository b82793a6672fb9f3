"""Keras 3 and tf_keras: model objects, `.keras` and `.h5` files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jfuse.base.errors import ImportFailed, JfuseError
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.base.settings import own_random_numbers
from jfuse.frontends.keras_archive import OWN_LAYERS, check_archive, read_archive
from jfuse.frontends.keras_h5 import H5_SUFFIXES, check_h5, read_h5
from jfuse.frontends.tensorflow.callable import DEFAULT_KEY, reason_of
from jfuse.frontends.tensorflow.live_function import LiveFunction
from jfuse.frontends.tensorflow.signature import TfSignature, flat_names
from jfuse.frontends.utf8_names import utf8_name


def is_keras_model(source: object) -> bool:
    """Whether the object is a model of Keras 3 or tf_keras (seen without importing either)."""
    roots = {base.__module__.split(".")[0] for base in type(source).__mro__ if base.__name__ == "Model"}
    return bool(roots & {"keras", "tf_keras"})


def load_keras_file(path: Path, *, unsafe: bool = False, limits: Limits = DEFAULT_LIMITS) -> Any:
    """The model in a `.keras` or `.h5` file, by the library that wrote it.

    unsafe: let the file run code of its own (lambdas, any class or function that it names).
    """
    is_h5 = path.suffix in H5_SUFFIXES
    config, module, version = read_h5(path) if is_h5 else _of_archive(path, limits)
    # Both libraries write the module "keras" for a Sequential; only the version tells them apart.
    library = _library(module, version)
    try:
        if not unsafe:
            check = check_h5 if is_h5 else check_archive
            check(path, config, lambda name: library.saving.get_registered_object(name) is not None, limits)
        with utf8_name(path) as name, own_random_numbers():
            return library.models.load_model(name, compile=False, safe_mode=not unsafe)
    except JfuseError:
        raise
    except Exception as error:  # both libraries raise whatever their layers raise
        raise ImportFailed(
            f"{path} cannot be read as a {path.suffix} file", found=reason_of(error), remedy=OWN_LAYERS
        ) from error


def _of_archive(path: Path, limits: Limits) -> tuple[Any, object, object]:
    config, metadata = read_archive(path, limits)
    return config, config.get("module"), metadata.get("keras_version")


def _library(module: object, version: object) -> Any:
    if str(module).startswith("tf_keras") or str(version).startswith("2."):
        if find_spec("tf_keras") is None:
            raise ImportFailed(
                "the model is one of Keras 2", found="tf_keras is not installed", remedy="pip install tf_keras"
            )
        import tf_keras

        return tf_keras
    import keras

    return keras


def keras_signature(model: Any, input_signature: Sequence[Any] | None) -> TfSignature:
    """The model's inference call as one signature; inputs and outputs are named as `model.export` names them."""
    import tensorflow as tf

    _need_tensorflow_backend(model)
    structure = _input_structure(model, input_signature)
    tensors = tf.nest.flatten(structure)
    specs = (
        [_spec(t, i) for i, t in enumerate(tensors)] if input_signature is None else tf.nest.flatten(input_signature)
    )
    if len(specs) != len(tensors):
        raise ImportFailed(f"the model has {len(tensors)} inputs", found=f"an input_signature of {len(specs)}")

    def call(*inputs: Any) -> Any:
        return model(tf.nest.pack_sequence_as(structure, inputs), training=False)

    try:
        with own_random_numbers():  # a layer that is built here draws
            function = tf.function(call, autograph=False).get_concrete_function(*specs)
    except Exception as error:  # tracing runs the layers' code
        raise ImportFailed(f"the model {model.name!r} could not be traced", found=reason_of(error)) from error
    names = tuple(_name(t, i) for i, t in enumerate(tensors))
    return TfSignature(DEFAULT_KEY, LiveFunction(function), names, flat_names(function.structured_outputs, "output"))


def _input_structure(model: Any, input_signature: Sequence[Any] | None) -> Any:
    for attribute in ("_inputs_struct", "_nested_inputs", "inputs"):
        structure = getattr(model, attribute, None)
        if isinstance(structure, list) and len(structure) < 2:
            structure = structure[0] if structure else None
        if structure is not None:
            return structure
    if input_signature:  # a subclass of Model
        return input_signature[0] if len(input_signature) == 1 else input_signature
    if (specs := _specs_of_calls(model)) is not None:
        return specs
    raise ImportFailed(
        f"the model {model.name!r} does not know its inputs",
        remedy="pass inputs=jfuse.Inputs(input_signature=[tf.TensorSpec(…), …]), or a concrete function of it",
    )


def _specs_of_calls(model: Any) -> Any:
    """The inputs that a Model was called or built with, as the library remembers them; None if it was neither."""
    save_spec = getattr(model, "save_spec", None)  # of Keras 2
    called = save_spec() if save_spec is not None else None
    if called is not None:
        (args, _) = called
        return args[0] if len(args) == 1 else list(args)
    shapes = getattr(model, "_build_shapes_dict", None)  # of Keras 3
    if not shapes:
        return None
    specs = [_spec_of_shape(shape) for shape in shapes.values()]
    return specs[0] if len(specs) == 1 else specs


def _spec_of_shape(shape: Any) -> Any:
    """The float inputs of a shape, or of a nest of shapes."""
    import tensorflow as tf

    if isinstance(shape, Mapping):
        return {name: _spec_of_shape(inner) for name, inner in shape.items()}
    if all(size is None or isinstance(size, int) for size in shape):
        return tf.TensorSpec(shape, tf.float32)
    return [_spec_of_shape(inner) for inner in shape]


def _spec(tensor: Any, index: int) -> Any:
    import tensorflow as tf

    return tf.TensorSpec(tuple(tensor.shape), tensor.dtype, name=_name(tensor, index))


def _name(tensor: Any, index: int) -> str:
    return str(getattr(tensor, "name", None) or f"input_{index}").split(":")[0]


def _need_tensorflow_backend(model: Any) -> None:
    if type(model).__module__.startswith("tf_keras"):
        return
    import keras

    if keras.backend.backend() != "tensorflow":
        raise ImportFailed(
            f"Keras runs on {keras.backend.backend()}",
            expected="KERAS_BACKEND=tensorflow",
            remedy="set it before keras is imported",
        )
