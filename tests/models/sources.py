"""The ways in which a Keras model reaches jfuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf


def specs_of(model: Any) -> list[Any]:
    """A tf.TensorSpec for each input of a Keras model, with the model's own batch."""
    return [tf.TensorSpec(tuple(t.shape), t.dtype, name=t.name.split(":")[0]) for t in model.inputs]


def exported(model: Any, folder: Path) -> Path:
    """`model.export`; it makes the batch dynamic unless it is given an input_signature."""
    specs = specs_of(model)
    fixed = all(dim is not None for spec in specs for dim in spec.shape)
    if _is_tf_keras(model):  # has no input_signature, and always exports a dynamic batch
        model.export(str(folder))
    elif fixed:
        model.export(str(folder), verbose=False, input_signature=[specs] if len(specs) > 1 else specs)
    else:
        model.export(str(folder), verbose=False)
    return folder


def saved(model: Any, folder: Path) -> Path:
    """`tf.saved_model.save`."""
    tf.saved_model.save(model, str(folder))
    return folder


def concrete(model: Any) -> Any:
    """A concrete function of the model's call."""
    structure = model.input if model.inputs[1:] else model.inputs[0]

    def call(*inputs: Any) -> Any:
        return model(tf.nest.pack_sequence_as(structure, inputs), training=False)

    return tf.function(call, autograph=False).get_concrete_function(*specs_of(model))


def saved_call(model: Any, folder: Path) -> Path:
    """A SavedModel of the model's call alone: tf_keras saves each layer with traces that take seconds."""
    module, call = tf.Module(), concrete(model)
    module.call, module.read = call, call.variables
    tf.saved_model.save(module, str(folder), signatures=call)
    return folder


def keras_file(model: Any, folder: Path) -> Path:
    """A `.keras` file."""
    path = folder.with_suffix(".keras")
    model.save(str(path))
    return path


SOURCES: dict[str, Callable[[Any, Path], Any]] = {
    "export": exported,
    "saved_model": saved,
    "concrete": lambda model, folder: concrete(model),
    "object": lambda model, folder: model,
    "keras_file": keras_file,
}


def sources_of(model: Any, folder: Path) -> dict[str, Any]:
    """The model in every way, saved under `folder`."""
    return {name: make(model, folder / name) for name, make in SOURCES.items()}


def _is_tf_keras(model: Any) -> bool:
    return type(model).__module__.startswith("tf_keras")
