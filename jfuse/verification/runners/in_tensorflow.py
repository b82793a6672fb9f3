"""TensorFlow as the reference: a signature's own function, called on arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.frontends.sources import Imported
from jfuse.frontends.tensorflow.function import TfSignature, live_variables


def run_tensorflow(signature: TfSignature, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The source's outputs by name. Raises VerifyFailed where TensorFlow itself refuses the inputs."""
    import tensorflow as tf

    function = signature.function
    count = len(function.inputs) - len(function.captured_inputs)
    placeholders = function.inputs[:count]
    tensors = [tf.constant(inputs[n], p.dtype) for n, p in zip(signature.input_names, placeholders, strict=True)]
    try:
        # Flat: of a default that is a function (act=tf.nn.relu) the structured signature keeps no value to pass again.
        results = tf.nest.flatten(function._call_flat(tensors, function.captured_inputs))
    except tf.errors.OpError as error:
        raise VerifyFailed(
            f"TensorFlow fails on the inputs drawn for signature {signature.key!r}",
            found=_reason(error.message),
            remedy="convert with verify=False, and compare on inputs that the model takes",
        ) from error
    arrays = [np.asarray(r) for r in results if r is not None]
    return dict(zip(signature.output_names, arrays, strict=True))


def call_from(
    imported: Imported, key: str, inputs: Mapping[str, np.ndarray], states: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """One call of a signature of the source from given states: its outputs, and the states after it, by name.

    The source's variables hold again what they held when it is over. Raises VerifyFailed as `run_tensorflow` does.
    """
    with variables_restored(imported):
        set_variables(imported, states)
        outputs = run_tensorflow(imported.functions[key], inputs)
        return outputs, {name: np.array(imported.variables[name].numpy()) for name in states}


@contextmanager
def variables_restored(imported: Imported) -> Iterator[None]:
    """Within the `with` every variable of the source may change; after it they hold again what they held before."""
    variables = {id(v): v for s in imported.functions.values() for v in live_variables(s.function)}
    held = [(v, v.read_value()) for v in variables.values()]  # shares the memory until the variable is assigned
    try:
        yield
    finally:
        for variable, value in held:
            variable.assign(value)


def set_variables(imported: Imported, values: Mapping[str, np.ndarray]) -> None:
    """Let TensorFlow's variables hold the given values, by the names of the states that they are."""
    for name, value in values.items():
        imported.variables[name].assign(value)


def _reason(message: str) -> str:
    """The line that says what is wrong: the last one before the node's place, below the trace of the source."""
    lines = [line.strip() for line in message.split("\n[[")[0].split("\n\t [[")[0].splitlines()]
    return next((line for line in reversed(lines) if line), message)
