"""An imported program compared with the functions that it came from: types, names and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from jfuse.base.measure import relative_error
from jfuse.ir.check import check_graph
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Signature
from jfuse.ir.types import DType, TensorType
from jfuse.model import Model
from jfuse.proof.inputs import draws, size_choices
from jfuse.running.runner import Runner
from jfuse.verification.runners.in_tensorflow import run_tensorflow

TOLERANCE = 1e-5  # f32 sums of up to 256 terms, through a dozen steps of a recurrence


def check_model(model: Model) -> None:
    """Every signature answers like its function, at two sizes of each open dimension, and its types are as known."""
    assert model.imported is not None
    for signature in model.program.signatures:
        function = model.imported.functions[signature.key]
        check_graph(signature.graph)
        check_types(signature, function.function)
        runner = Runner(signature.graph, quick=True)
        for sizes in size_choices(signature.graph):
            for inputs in draws(signature, sizes, seed=1, count=1):
                wanted = run_tensorflow(function, inputs)
                found = runner([inputs[name] for name in signature.input_names])
                assert tuple(wanted) == signature.output_names
                check_values(dict(zip(signature.output_names, found, strict=True)), wanted)


def check_values(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    """The results agree in names, dtypes and values."""
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        assert found[name].dtype == value.dtype, name
        assert relative_error(found[name], value) <= TOLERANCE, name


def check_types(signature: Signature, function: Any) -> None:
    """The types of inputs and results are TensorFlow's, and at least as specific."""
    count = len(function.inputs) - len(function.captured_inputs)
    ours = [*signature.graph.inputs, *signature.graph.outputs]
    for atom, tensor in zip(ours, [*function.inputs[:count], *function.outputs], strict=True):
        assert is_as_specific(atom.type, tensor), f"{atom.type} for {tensor}"


def is_as_specific(ours: TensorType, tensor: Any) -> bool:
    """Whether a type has TensorFlow's dtype and rank, and the size wherever TensorFlow knows it."""
    if ours.dtype is not DType.of(tensor.dtype.as_numpy_dtype):
        return False
    if tensor.shape.rank is None:
        return True
    pairs = zip(ours.shape, tensor.shape, strict=True)
    return all(theirs is None or (is_known(d) and d == theirs) for d, theirs in pairs)


def spec(*shape: int | None, dtype: Any = tf.float32, name: str | None = None) -> Any:
    """A tf.TensorSpec."""
    return tf.TensorSpec(shape, dtype, name=name)
