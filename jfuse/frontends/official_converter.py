"""TensorFlow's own converter, as a reference for measurements. Conversion itself never calls it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.frontends.keras import load_keras_file
from jfuse.frontends.keras_h5 import H5_SUFFIXES
from jfuse.tf_nodes.presence import need_tensorflow

KERAS_SUFFIXES = (".keras", *H5_SUFFIXES)
Shape = Callable[[str, Sequence[int | None]], list[int | None]]
"""The sizes that an input of a name and a shape is to have."""


def official_converter(
    path: Path, signatures: Sequence[str] | None, shapes: Mapping[str, Sequence[int | None]], batch: int | None
) -> Any:
    """`tf.lite.TFLiteConverter` of a SavedModel folder or a Keras file, with the sizes that are asked for.

    Raises ImportFailed for other sources, and without TensorFlow.
    """
    need_tensorflow(str(path))
    fixed = _sizes(shapes, batch)
    if path.is_dir():
        return _of_folder(path, signatures, fixed if shapes or batch is not None else None)
    if path.suffix in KERAS_SUFFIXES:
        return of_keras_model(load_keras_file(path), fixed if shapes or batch is not None else None)
    raise ImportFailed(
        "the official converter takes no such source", where=str(path), expected="a SavedModel folder or a Keras file"
    )


def official_bytes(converter: Any) -> bytes:
    """Run the official converter and suppress its output."""
    with contextlib.redirect_stdout(io.StringIO()):
        return bytes(converter.convert())


def _of_folder(path: Path, signatures: Sequence[str] | None, fixed: Shape | None) -> Any:
    import tensorflow as tf

    if fixed is None:
        keys = None if signatures is None else list(signatures)
        return tf.lite.TFLiteConverter.from_saved_model(str(path), signature_keys=keys)
    loaded = tf.saved_model.load(str(path))
    functions = [_fixed(loaded.signatures[key], fixed) for key in signatures or loaded.signatures]
    return tf.lite.TFLiteConverter.from_concrete_functions(functions, loaded)


def _fixed(function: Any, fixed: Shape) -> Any:
    """A signature with the sizes of its inputs fixed."""
    import tensorflow as tf

    specs = {
        name: tf.TensorSpec(fixed(name, spec.shape.as_list()), spec.dtype, name)
        for name, spec in function.structured_input_signature[1].items()
    }
    return tf.function(lambda **inputs: function(**inputs)).get_concrete_function(**specs)


def of_keras_model(model: Any, fixed: Shape | None = None) -> Any:
    """The official converter of a Keras model."""
    import tensorflow as tf

    if fixed is None:
        return tf.lite.TFLiteConverter.from_keras_model(model)
    # A model around it: of a concrete function of a Keras 3 model the converter leaves variables without values.
    keras = _library(model)
    inputs = [_fixed_input(keras, x, fixed) for x in model.inputs]
    around = keras.Model(inputs, model(inputs[0] if len(inputs) == 1 else inputs))
    return tf.lite.TFLiteConverter.from_keras_model(around)


def _fixed_input(keras: Any, x: Any, fixed: Shape) -> Any:
    name = x.name.split(":")[0]
    batch, *shape = fixed(name, list(x.shape))
    return keras.Input(shape, batch_size=batch, dtype=x.dtype, name=name)


def _library(model: Any) -> Any:
    """Keras 3 or tf_keras, whichever the model is of."""
    if any(base.__module__.startswith("tf_keras") for base in type(model).__mro__):
        import tf_keras

        return tf_keras
    import keras

    return keras


def _sizes(shapes: Mapping[str, Sequence[int | None]], batch: int | None) -> Shape:
    def fixed(name: str, shape: Sequence[int | None]) -> list[int | None]:
        fixed_shape = shapes.get(name, [None] * len(shape))
        sizes = [size if wanted is None else wanted for size, wanted in zip(shape, fixed_shape, strict=True)]
        return [batch if sizes[0] is None else sizes[0], *sizes[1:]] if sizes else sizes

    return fixed
